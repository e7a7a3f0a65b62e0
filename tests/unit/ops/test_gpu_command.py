"""The words of `fairlane gpu`, before anything is asked of a box."""

import os
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ops.cli import main
from ops.commands import gpu
from ops.outside.command import Group
from scheduler.wire.codec import decode, encode


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ("40G", 40 * 2**30),
        ("40GB", 40 * 10**9),
        ("1.5k", 1536),
        ("0", 0),
        ("7", 7),
        ("2MiB", 2**21),
    ],
)
def test_sizes_are_taken(said: str, size: int) -> None:
    assert gpu.Size().convert(said, None, None) == size


@pytest.mark.parametrize("said", ["nan", "-1", "G", "1Q", "", "99999999999T", "1" * 400])
def test_what_is_no_size_is_refused(said: str) -> None:
    with pytest.raises(click.BadParameter):
        gpu.Size().convert(said, None, None)


def test_words_that_are_no_text_are_sent_as_text() -> None:
    words = os.fsdecode(b"\xff\x1b[2J") + "x" * 10_000
    sent: Any = gpu._request(
        "name", words, words, "batch", 5.0, None, 0, f"run {words}", Group(0, 1, 1.0)
    )
    assert decode(encode(sent)) == sent
    assert (len(sent.lane), sent.lane[:5]) == (256, "?\x1b[2J")


def test_the_example_of_a_script_keeps_its_lines() -> None:
    shown = CliRunner().invoke(main, ["gpu", "hold", "--help"]).output
    assert "\n      ./measure\n" in shown
    assert "\\b" not in shown
