"""A GGUF's metadata: what is read of it, and what is refused."""

import os
import resource
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.gguf import Value, write_gguf
from workers import gguf
from workers.badfile import BadFile

VALUES: dict[str, Value] = {
    "general.architecture": "llama", "a.flag": True, "a.number": 7, "a.share": 0.5,
    "tokenizer.ggml.tokens": ["a", "€", "", "long" * 9], "a.ids": [1, 2, 3], "b.text": "€ b",
}  # fmt: skip


def header(keys: int, *, magic: bytes = b"GGUF", version: int = 3, tensors: int = 0) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys)


def key(name: bytes, kind: int) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind)


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def all_of(path: Path, wanted: str = "b.text") -> dict[str, str]:
    return dict(gguf.texts(path, wanted.__eq__))


def write(folder: Path, content: bytes) -> Path:
    path = folder / "m.gguf"
    path.write_bytes(content)
    return path


def test_a_text_behind_values_of_every_kind_is_found(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", VALUES, {"w": np.ones((4, 4))})
    assert all_of(path) == {"b.text": "€ b"}
    assert gguf.architecture_of(path) == "llama"


def test_the_architecture_is_read_without_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path, header(2) + key(b"general.architecture", 8) + text(b"llama") + b"#" * 20)
    assert gguf.architecture_of(path) == "llama"


def test_a_file_may_name_no_architecture(tmp_path: Path) -> None:
    assert gguf.architecture_of(write_gguf(tmp_path / "m.gguf", {"a": 1}, {})) == ""


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", VALUES, {})
    whole = path.read_bytes()
    end = whole.rindex("€ b".encode()) + len("€ b".encode())
    for kept in range(end):
        with pytest.raises(BadFile, match=r"m\.gguf: not a whole GGUF file"):
            all_of(write(tmp_path, whole[:kept]))
    assert all_of(write(tmp_path, whole[:end])) == {"b.text": "€ b"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\3\4" * 20, "it begins with b'PK"),
        (header(1, version=1) + bytes(99), "version 1"),
        (header(1, version=3 << 24) + bytes(99), "it is big-endian"),
        (header(4097) + bytes(99_999), "counts 0 tensors and 4097 keys"),
        (header(1, tensors=2**63) + bytes(99), "counts 9223372036854775808 tensors"),
        (header(30) + bytes(99), "30 keys do not fit"),
        (header(0, tensors=5) + bytes(99), "5 tensors and 0 keys do not fit"),
        (header(1) + key(b"x" * 65_536, 4) + bytes(4), "a text of 65536 bytes"),
        (header(1) + key(b"x", 8) + struct.pack("<Q", 2**64 - 1), "bytes are to come and it ends"),
        (header(1) + key(b"x", 9) + struct.pack("<IQ", 4, 2**62), "bytes are to come"),
        (header(1) + key(b"x", 9) + struct.pack("<IQ", 8, 2**62), "an array of 4611686018427387904"),
        (header(1) + key(b"x", 9) + struct.pack("<IQ", 9, 1) + bytes(99), "a value of type 9"),
        (header(1) + key(b"x", 13) + bytes(99), "a value of type 13"),
        (header(1) + key(b"\xff", 4) + bytes(4), "can't decode"),
        (header(1) + key(b"b.text", 8) + text(b"\xff"), "can't decode"),
        (header(1) + key(b"b.text", 4) + bytes(4), "'b.text' is no text"),
        (header(1) + key(b"b.text", 8) + struct.pack("<Q", 2**20 + 1), "a text of 1048577 bytes"),
        (header(2) + (key(b"b.text", 8) + text(b"x")) * 2, "'b.text' is there twice"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(BadFile) as caught:
        all_of(write(tmp_path, content))
    assert reason in str(caught.value)


def test_metadata_without_an_end_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, header(1) + key(b"x", 9) + struct.pack("<IQ", 0, 2**40))
    with path.open("r+b") as file:
        file.truncate(2**40 + 99)  # a file with a hole: it takes no room
    with pytest.raises(BadFile, match="its metadata take more than"):
        all_of(path)


def test_empty_texts_without_an_end_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, header(4096))
    with path.open("r+b") as file:
        file.truncate(2**40)  # all keys are empty, so the second one is the first one again
    with pytest.raises(BadFile, match="the key '' is there twice"):
        all_of(path)


@contextmanager
def memory_for(growth: int) -> Generator[None]:
    """Let this process grow by so many bytes at most."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + growth, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_texts_by_the_million_take_no_memory(tmp_path: Path) -> None:
    texts = text(b"") * 2**19
    with (tmp_path / "m.gguf").open("wb") as file:
        file.write(header(9))
        for number in range(9):
            file.write(key(b"x%d" % number, 9) + struct.pack("<IQ", 8, 2**19) + texts)
    with memory_for(8 << 20), pytest.raises(BadFile, match="an array of 524288 texts"):
        all_of(tmp_path / "m.gguf")


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(BadFile, match="it is no regular file"):
            all_of(path)
    with pytest.raises(BadFile, match="there is no such file"):
        all_of(tmp_path / "none.gguf")
    with pytest.raises(BadFile, match="cannot be opened"):
        all_of(tmp_path / "a\0b")


def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path: Path) -> None:
    filler = b"".join(key(b"x%d" % n, 8) + text(b"#" * 1000) for n in range(4000))
    path = write(tmp_path, header(4001) + key(b"b.text", 8) + text(b"x") + filler)
    found = gguf.texts(path, "b.text".__eq__)
    assert next(found) == ("b.text", "x")
    os.truncate(path, 1000)
    with pytest.raises(BadFile, match="it became shorter"):
        next(found)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", VALUES, {})
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        gguf.architecture_of(path)
        all_of(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_is_at_least_as_long_as_its_last_tensor_begins(tmp_path: Path) -> None:
    tensors = {"first": np.ones((4, 64)), "last": np.ones(100)}
    path = write_gguf(tmp_path / "m.gguf", VALUES, tensors)
    least, size = gguf.least_size(path), path.stat().st_size
    assert size - 416 - 32 < least <= size - 415  # the last one has 400 bytes, padded to 416
    assert gguf.least_size(write_gguf(tmp_path / "n.gguf", VALUES, {})) <= size


def test_a_file_that_ends_among_its_tensors_names_is_not_whole(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", VALUES, {"a name": np.ones(4)})
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"a name") + 3])
    with pytest.raises(BadFile, match="not a whole GGUF file"):
        gguf.least_size(path)
