"""`fairlane replay`: does the core still decide as the journal says it did?"""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from ops.commands.common import friendly
from ops.commands.exits import Exit
from ops.replay import Difference, Report
from ops.replay import replay as run

_BIG = 4 * 1024 * 1024  # bytes from which a bar is worth its lines


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--until", type=click.IntRange(min=0), help="Stop after so many events.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@friendly
def replay(file: Path, until: int | None, *, as_json: bool) -> None:
    """Replay a segment of the journal and compare every decision and placement with what is recorded.

    FILE is one of state_dir/journal, the one being written too. Exit status 1 where the core decides
    otherwise or the file is damaged; a last burst that was torn off is told and no fault.
    """
    with _bar(file) as progress:
        report = run(file, until, progress)
    if as_json:
        print(json.dumps(msgspec.to_builtins(report), indent=2))
    else:
        _print_table(report)
    if not report.is_clean:
        raise SystemExit(Exit.FAILED)


@contextmanager
def _bar(file: Path) -> Generator[Callable[[int, int], None] | None]:
    """Show how far a big file is, where somebody looks."""
    if file.stat().st_size < _BIG or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(file.name)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _print_table(report: Report) -> None:
    from rich.console import Console  # 60 ms that `--json` need not pay
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for count, what in (
        (report.events, "events"),
        (report.decisions, "decisions"),
        (report.placements, "placements"),
        (report.answers, "answers"),
        (report.refusals, "refusals"),
    ):
        table.add_row(f"{count:,}", what)
    table.add_row(f"{report.span_s:,.1f}", "seconds of the box")
    table.add_row(f"{report.rate:,}", "events a second here")
    console = Console()
    console.print(table)
    if report.torn_bytes:
        print(f"the last {report.torn_bytes} bytes are a burst that was not written whole")
    if report.damaged_bytes:
        print(f"DAMAGED: the last {report.damaged_bytes} bytes cannot be read")
    if report.difference is not None:
        print(_told(report.difference))
    elif report.is_clean:
        print("the same on every event")


def _told(difference: Difference) -> str:
    one = difference
    expected, got = ([_shown(verdict) for verdict in side] for side in (one.expected, one.got))
    lines = [f"DIFFERENT at event {one.number}, {one.event}:"]
    for name, side in (("expected", expected), ("got", got)):
        lines += [f"  {name:8}  {line}" for line in side or ["nothing"]]
    return "\n".join(lines)


def _shown(verdict: list[object]) -> str:
    return " ".join(one.hex() if isinstance(one, bytes) else repr(one) for one in verdict)
