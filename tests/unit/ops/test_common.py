"""What all commands share: where their output ends, and which numbers they take."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ops.cli import COMMANDS, main
from ops.commands import common

SETTINGS = (sys.executable, "-m", "ops.cli", "--config", os.devnull, "settings")  # needs no box


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(SETTINGS, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_output_that_does_not_arrive_is_a_failure_told_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(SETTINGS, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"fairlane: ")
    assert done.stderr.count(b"\n") == 1


def test_an_error_nobody_reads_keeps_its_status() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = (*SETTINGS[:-3], "--config", "/nowhere/at/all.toml", "settings")
    # without a buffer there is nothing left that Python would try to write at its end
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    for environ in (buffered, buffered | {"PYTHONUNBUFFERED": "1"}):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=writing, env=environ, check=False
        )
        assert (done.returncode, done.stdout) == (3, b"")
    os.close(writing)


def options() -> Iterator[tuple[str, click.Option]]:
    """Yield every option of every command with the command's words."""
    for verb in COMMANDS:
        command = main.get_command(click.Context(main), verb)
        assert command is not None
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        for name, one in inner.items():
            for option in one.params:
                if isinstance(option, click.Option):
                    yield f"{verb} {name}".strip(), option


NUMBERS = [
    (command, option)
    for command, option in options()
    if isinstance(option.type, click.types.FloatParamType)
]


@pytest.mark.parametrize(("command", "option"), NUMBERS, ids=lambda one: getattr(one, "name", one))
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e999", "x"])
def test_what_is_no_number_is_refused_before_anything_is_waited_for(
    command: str, option: click.Option, value: str
) -> None:
    assert isinstance(option.type, common.Amount)
    words = [*command.split(), f"{option.opts[0]}={value}"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "no number" in done.output or "not in the range" in done.output or "valid" in done.output


def test_a_number_is_taken() -> None:
    assert common.Amount(min=0.1).convert("0.5", None, None) == pytest.approx(0.5)
