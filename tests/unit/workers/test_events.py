"""Server-sent events, however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.upstream.events import Event, Events, TooLong

STREAM = (
    b": a comment\n\ndata: {}\n\nevent: ping\ndata: 1\n\nid: 7\r\nretry: 9\r\ndata:2\r\n\r\n"
    b"data\n\nevent: lost\n\nnonsense\n\ndata: a\ndata: b\n\ndata: [DONE]\n\ndata: cut off"
)
MEANT = [
    Event("", b"{}"),
    Event("ping", b"1"),
    Event("", b"2"),
    Event("", b"a b"),
    Event("", b"[DONE]"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_same_events_come_of_any_cut(cuts: list[int]) -> None:
    events, found = Events(), []
    places = sorted({0, len(STREAM), *cuts})
    for start, end in itertools.pairwise(places):
        found += events.feed(STREAM[start:end])
    assert found == MEANT


@pytest.mark.parametrize("end", ["", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\n\r"])
def test_the_end_of_the_stream_ends_its_last_event(end: str) -> None:
    events = Events()
    found = events.feed(b"event: a\ndata: 1\n\nevent: b\ndata: 2" + end.encode())
    assert found + events.finish() == [Event("a", b"1"), Event("b", b"2")]


@given(st.binary(max_size=400))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    for event in Events().feed(data):
        assert b"\n" not in event.data


def test_a_line_that_is_too_long_is_told_before_it_ends() -> None:
    events = Events(100)
    assert events.feed(b"data: " + b"x" * 94 + b"\n\n") == [Event("", b"x" * 94)]
    with pytest.raises(TooLong):
        events.feed(b"data: " + b"x" * 95)


def test_lines_that_are_too_long_together_are_told() -> None:
    events = Events(100)
    with pytest.raises(TooLong):
        events.feed(b"data: " + b"x" * 60 + b"\ndata: " + b"x" * 60 + b"\n")
