"""What reaches a terminal of other people's words."""

import pytest

from scheduler.harmless import harmless, readable

JOINED = "one letter of three: \U0001f469\u200d\U0001f4bb,\u00a0kept together"


def test_what_a_terminal_would_obey_is_taken_out_of_every_name() -> None:
    seen = {"a\x1b[2J": ["b\r\nc", {"d": "e\x07\u202e"}], "n": 3, "none": None}
    assert harmless(seen) == {
        "a\ufffd[2J": ["b\ufffd\ufffdc", {"d": "e\ufffd\ufffd"}],
        "n": 3,
        "none": None,
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x9b2J", "\ufffd2J"),  # one character that opens a sequence as ESC [ does
        ("over\rwritten\b", "over\ufffdwritten\ufffd"),
        ("\udcff", "\ufffd"),  # a byte of the command line that is no text
        (
            "a family \U0001f469\u200d\U0001f4bb,\u00a0joined",
            "a family \U0001f469\u200d\U0001f4bb,\u00a0joined",
        ),
    ],
)
def test_a_text_keeps_its_lines_and_what_its_language_needs(text: str, shown: str) -> None:
    assert readable(text) == shown
