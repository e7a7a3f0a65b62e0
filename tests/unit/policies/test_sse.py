"""Attaching a decision to an event stream."""

import pytest

from policies.sse import Attacher
from support import shared

DECISION: dict[str, object] = {"route_to": "B"}
FIELD = b'"x_lemonade_route":{"route_to":"B"}'


def attach(*chunks: bytes) -> bytes:
    attacher = Attacher(DECISION)
    return b"".join(attacher.feed(chunk) for chunk in chunks) + attacher.flush()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_stay_as_they_are(end: bytes) -> None:
    stream = b": ping" + end + end + b'data: {"a":1}' + end + end + b"data: [DONE]" + end + end
    assert attach(stream) == stream.replace(b'{"a":1}', b'{"a":1,' + FIELD + b"}")


def test_any_split_of_the_stream_gives_the_same_bytes() -> None:
    stream = (
        b'event: x\r\ndata: no\r\n\r\nid: 1\r\ndata: {"b":"\xc3\xa9"}\r\n\r\ndata: {"a":1}\r\n\r\n'
    )
    whole = attach(stream)
    assert whole.count(FIELD) == 1
    assert [attach(stream[:i], stream[i:]) for i in range(len(stream))] == [whole] * len(stream)


def test_an_object_over_two_data_lines_is_passed_over() -> None:
    stream = b'data: {"a":\ndata: 1}\n\n'
    assert attach(stream) == stream


def test_with_two_character_line_ends_the_first_data_line_still_decides() -> None:
    stream = b'data: no\r\ndata: {"a":1}\r\n\r\n'
    assert attach(stream) == stream


def test_a_stream_that_ends_inside_an_event_is_passed_on() -> None:
    assert attach(b'data: {"a":1}') == b'data: {"a":1}'


def test_a_number_or_broken_bytes_are_no_object() -> None:
    assert attach(b"data: 1\n\ndata: \xff\n\n") == b"data: 1\n\ndata: \xff\n\n"


def test_the_reference_streams_come_out_the_same() -> None:
    for row in shared.json_lines(shared.folder("data/lemonade/goldens") / "sse.jsonl"):
        decision, chunks = row["decision"], row["chunks"]
        assert isinstance(decision, dict)
        assert isinstance(chunks, list)
        attacher = Attacher(decision)
        out = b"".join(attacher.feed(str(chunk).encode()) for chunk in chunks) + attacher.flush()
        assert out.decode() + "<DONE>" == row["out"], row["name"]
