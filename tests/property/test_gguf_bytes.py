"""Model files of any bytes: the digests of their templates, or BadFile, and nothing else."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gguf import Value, write_gguf
from workers.badfile import BadFile
from workers.templates import digests_of

VALUES: dict[str, Value] = {
    "general.architecture": "llama", "tokenizer.ggml.tokens": ["a", "b", "€" * 20], "a.ids": [1, 2],
    "a.flag": True, "tokenizer.chat_template": "{{ x }}", "tokenizer.chat_template.rag": "{{ y }}",
}  # fmt: skip
WORDS = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 8, 9, 255, 2**31, 2**63]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gguf") / "m.gguf"


@pytest.fixture(scope="module")
def whole(path: Path) -> bytes:
    return write_gguf(path, VALUES, {}).read_bytes()


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        found = digests_of(path)
    except BadFile:
        return
    assert all(len(digest) == 64 for digest in found.values())


@given(flips=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), min_size=1, max_size=8))
def test_flipped_bits(path: Path, whole: bytes, flips: list[tuple[int, int]]) -> None:
    raw = bytearray(whole)
    for place, mask in flips:
        raw[place % len(raw)] ^= mask
    check(path, bytes(raw))


@given(place=st.integers(0, 400), word=WORDS)
def test_another_number_in_any_place(path: Path, whole: bytes, place: int, word: int) -> None:
    place %= len(whole)
    check(path, whole[:place] + struct.pack("<Q", word) + whole[place + 8 :])


@given(content=st.binary(max_size=300), counts=st.tuples(st.integers(0, 3), st.integers(0, 9)))
def test_any_bytes_behind_a_good_beginning(
    path: Path, content: bytes, counts: tuple[int, int]
) -> None:
    check(path, b"GGUF" + struct.pack("<IQQ", 3, *counts) + content)
