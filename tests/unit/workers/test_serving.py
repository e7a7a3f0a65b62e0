"""The loop between two pipes: lines however they are cut, memory that is bounded, an end that is an end."""

import json
import os
import threading
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.counting import CountingBackend
from workers.lines import Lines
from workers.serving import LINE_MAX_BYTES, serve

MARK = b"\n"


def cut(raw: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        yield raw[:size]
        raw = raw[size:]
    yield raw


@given(
    st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")), max_size=8),
    st.binary(max_size=5).map(lambda raw: raw.replace(b"\n", b"")),
    st.lists(st.integers(0, 9), max_size=20),
)
def test_lines_are_the_same_however_they_are_cut(
    whole: list[bytes], rest: bytes, sizes: list[int]
) -> None:
    lines = Lines(8, mark=MARK)
    raw = b"".join(line + b"\n" for line in whole) + rest
    found = [line for piece in cut(raw, sizes) for line in lines.feed(piece)]
    assert found == [line if len(line) <= 8 else MARK for line in whole]
    assert lines.rest == rest


def test_an_endless_line_is_told_once_and_not_kept() -> None:
    lines = Lines(1_000_000, mark=MARK)
    piece = b"x" * 65536
    tracemalloc.start()
    try:
        told = [line for _ in range(2000) for line in lines.feed(piece)]  # 131 MB
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told == [MARK]
    assert peak < 4_000_000
    assert list(lines.feed(b"\nnext\n")) == [b"next"]


def test_a_line_of_exactly_the_limit_is_a_line() -> None:
    assert list(Lines(3, mark=MARK).feed(b"abc\nabcd\n")) == [b"abc", MARK]


def served(sent: bytes) -> list[bytes]:
    """Return the lines that answer what is sent, after its end has ended the loop."""
    source, to_source = os.pipe()
    from_sink, sink = os.pipe()
    loop = threading.Thread(target=_serve, args=(source, sink))
    loop.start()
    writer = threading.Thread(target=lambda: _send(to_source, sent))
    writer.start()
    with os.fdopen(from_sink, "rb") as answers:
        lines = answers.read().splitlines()
    writer.join()
    loop.join()
    os.close(source)
    return lines


def _serve(source: int, sink: int) -> None:
    serve(CountingBackend(), source, sink)
    os.close(sink)


def _send(target: int, sent: bytes) -> None:
    with os.fdopen(target, "wb") as pipe:
        pipe.write(sent)


def test_the_end_of_the_source_ends_it_after_the_last_answer() -> None:
    first, *rest = served(b'{"id":1,"text":"a"}\n\n{"id":2,"text":"b"}')
    assert json.loads(first)["status"] == "ready"
    assert [json.loads(line)["id"] for line in rest] == [1, 2]


def test_no_line_at_all_is_an_end_too() -> None:
    assert len(served(b"")) == 1


def test_a_line_that_is_too_long_hurts_no_other() -> None:
    long = b'{"id":1,"text":"' + b"x" * LINE_MAX_BYTES + b'"}\n'
    _, *rest = served(b'{"id":0,"text":"a"}\n' + long + b'{"id":2,"text":"b"}\n' + long)
    replies = [json.loads(line) for line in rest]
    assert [reply.get("id") for reply in replies] == [0, None, 2, None]
    assert str(LINE_MAX_BYTES) in replies[1]["error"]


def test_a_line_of_the_longest_length_is_answered() -> None:
    text = "x" * (LINE_MAX_BYTES - 20)
    _, answer = served(json.dumps({"text": text}).encode())
    assert json.loads(answer)["class"] == "long_doc"


def test_a_reader_that_left_is_told_to_the_caller() -> None:
    source, to_source = os.pipe()
    from_sink, sink = os.pipe()
    os.close(from_sink)
    try:
        with pytest.raises(BrokenPipeError):
            serve(CountingBackend(), source, sink)
    finally:
        for number in (source, to_source, sink):
            os.close(number)


def test_pipes_that_do_not_block_are_served_as_well() -> None:
    source, to_source = os.pipe()
    from_sink, sink = os.pipe()
    for number in (source, sink):
        os.set_blocking(number, False)
    loop = threading.Thread(target=_serve, args=(source, sink))
    loop.start()
    with os.fdopen(from_sink, "rb") as answers, os.fdopen(to_source, "wb", buffering=0) as asked:
        answers.readline()
        asked.write(b'{"id":1,"text":"a"}\n')
        assert json.loads(answers.readline())["id"] == 1
    loop.join()
    os.close(source)
