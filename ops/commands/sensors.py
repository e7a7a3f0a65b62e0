"""`fairlane sensors`: what the sensors of this machine, of a tree or of a trace tell; no box is needed."""

import json
import signal
import sys
import threading
import time
from io import FileIO
from pathlib import Path
from typing import TextIO

import click
from msgspec import structs

from ops.commands.common import friendly, load
from scheduler import settings
from scheduler.errors import FairlaneError
from scheduler.wire.words import Reading
from workers.sensors.trace import full, record
from workers.sensors.worker import PERIOD_S, Eyes, open_eyes

_ENDS = (signal.SIGINT, signal.SIGTERM)
_Root = click.option(
    "--root", type=click.Path(exists=True, file_okay=False), help="Where sys and proc are."
)


@click.group()
def sensors() -> None:
    """Show or record what the sensors tell."""


@sensors.command()
@_Root
@click.option(
    "--replay", type=click.Path(exists=True, dir_okay=False), help="The end of a recorded trace."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@friendly
def show(root: str | None, replay: str | None, *, as_json: bool) -> None:
    """Show each reading once, and why it is unknown where it is."""
    out = sys.stdout  # before a library that hangs in its import can take it away
    if root and replay:
        raise click.UsageError("say --root or --replay, not both")
    readings = _last(_eyes(root, replay))
    if as_json:
        print(json.dumps({"readings": [full(one) for one in readings]}, indent=2), file=out)
    else:
        _print_table(readings, out)


@sensors.command("record")
@click.argument("file", type=click.Path(dir_okay=False))
@_Root
@click.option("--seconds", type=click.IntRange(min=1), help="End after so many; else by Ctrl-C.")
@friendly
def record_(file: str, root: str | None, seconds: int | None) -> None:
    """Write one JSON line a second into FILE until Ctrl-C."""
    eyes, written, due_at = _eyes(root, None), 0, time.monotonic()
    with Path(file).open("wb", buffering=0) as out:  # a line is there as soon as it was read
        over = (
            _told_to_end()
        )  # a pipe that nobody reads does not open: until here a signal just ends us
        while not over.is_set() and (readings := eyes.collect(time.monotonic())) is not None:
            try:
                _write(out, record(readings, round(time.time(), 3)))
            except BrokenPipeError:
                raise
            except OSError as error:
                raise FairlaneError(f"{file}: {error.strerror}, after {written} seconds") from error
            written += 1
            if written == seconds:
                break
            due_at = max(due_at + PERIOD_S, time.monotonic())
            over.wait(due_at - time.monotonic())
    eyes.close()
    print(f"{written} seconds in {file}", file=sys.stderr)


def _told_to_end() -> threading.Event:
    """Return what is set at the first signal; a second one ends us, also in a write that hangs."""
    over = threading.Event()

    def told(_number: int, _frame: object) -> None:
        over.set()
        for number in _ENDS:
            signal.signal(number, signal.SIG_DFL)

    for number in _ENDS:
        signal.signal(number, told)
    return over


def _write(out: FileIO, line: bytes) -> None:
    """Write a whole line, or raise: a disk that is nearly full takes a part first."""
    while line:
        line = line[out.write(line) :]


def _eyes(root: str | None, replay: str | None) -> Eyes:
    """Return what the options name, else the settings."""
    conf: settings.Sensors = load().sensors
    if root:
        conf = structs.replace(conf, root=root, replay="")
    elif replay:
        conf = structs.replace(conf, replay=replay)
    return open_eyes(conf)


def _last(eyes: Eyes) -> list[Reading]:
    """Return the readings of now; of a trace those of its last second, after all before it."""
    at = time.monotonic()
    readings = eyes.collect(at)
    if readings is None:
        raise FairlaneError("there is nothing to show")
    while eyes.is_recorded and (later := eyes.collect(at := at + PERIOD_S)) is not None:
        readings = later
    eyes.close()
    return readings


def _print_table(readings: list[Reading], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out)
    if not console.is_terminal:
        console.width = 120
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("reading")
    table.add_column("value", justify="right")
    for title in ("unit", "source", "label", "age", "unknown because"):
        table.add_column(title)
    for one in readings:
        value = one.value if isinstance(one.value, str) else _short(one.value)
        age = f"{one.age_s:.1f} s" if one.valid else ""
        said = (one.name, value, one.unit, one.source, one.label, age, one.reason)
        table.add_row(*map(Text, said))  # a label is no markup
    console.print(table)


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.3f}".rstrip("0").rstrip(".")
