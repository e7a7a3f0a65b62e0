"""Lines out of a pipe: whole however the bytes come, and never more of them kept than allowed."""

from hypothesis import given
from hypothesis import strategies as st

from workers.lines import Lines


def test_a_line_counts_when_its_end_has_come() -> None:
    lines = Lines()
    assert lines.feed(b"ab") == []
    assert lines.feed(b"c\nde\n\nf") == [b"abc", b"de", b""]
    assert lines.feed(b"\n") == [b"f"]


def test_a_line_as_long_as_allowed_is_kept_and_a_longer_one_left_out_whole() -> None:
    lines = Lines(3)
    assert lines.feed(b"abc\nabcd\nef\n") == [b"abc", b"ef"]
    assert lines.feed(b"ab") == []
    assert lines.feed(b"cd") == []
    assert lines.feed(b"efghi") == []
    assert lines.feed(b"j\nok\n") == [b"ok"]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(0, 12))
def test_pieces_make_the_lines_of_the_whole_and_memory_stays_bounded(
    pieces: list[bytes], longest: int
) -> None:
    lines = Lines(longest)
    got: list[bytes] = []
    for piece in pieces:
        got += lines.feed(piece)
        assert lines.held <= longest
    *ended, _ = b"".join(pieces).split(b"\n")
    assert got == [line for line in ended if len(line) <= longest]
