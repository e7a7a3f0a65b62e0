"""`fairlane top`: the live page on a terminal."""

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ops.commands.common import Amount, friendly, load, terminal
from ops.commands.looking import Look, Pause, looks

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.option("--json", "as_json", is_flag=True, help="The snapshot as one JSON object, once.")
@click.option("--once", is_flag=True, help="Print it once and end, as without a terminal.")
@click.option(
    "--every", default=1.0, show_default=True, type=Amount(0.2, 3600.0),
    help="Seconds between two looks.",
)  # fmt: skip
@friendly
def top(every: float, *, as_json: bool, once: bool) -> None:
    """Show who holds each device, who waits, how hot it is and where the last requests landed; q ends it."""
    if as_json:
        for seen in looks(load(), Pause(every, 1)):
            print(json.dumps(seen, indent=2))
        return
    _show(every, once=once)


def _show(every: float, *, once: bool) -> None:
    console = terminal(140)
    # a terminal that cannot move its cursor is written to once, as a file is
    single = once or not console.is_terminal or console.is_dumb_terminal
    # the second look knows what was held between the two
    pause = Pause(min(every, 1.0) if single else every, 2 if single else None)
    with contextlib.suppress(KeyboardInterrupt):
        if single:
            _print_last(console, looks(load(), pause))
        else:
            _live(console, looks(load(), pause), pause)


def _print_last(console: "Console", seen: Iterator[Look]) -> None:
    from ops.top_screen import Top

    screen = Top()
    shown = [screen.take(one, console, whole=True) for one in seen if isinstance(one, dict)]
    console.print(shown[-1])


def _live(console: "Console", seen: Iterator[Look], pause: Pause) -> None:
    from rich.live import Live
    from rich.text import Text

    from ops.sentences import duration
    from ops.top_screen import Top

    screen = Top()
    with pause.keys(), Live(console=console, auto_refresh=False, screen=True) as live:
        for one in seen:
            if isinstance(one, dict):
                live.update(screen.take(one, console, whole=False), refresh=True)
            else:
                text = (
                    f"The broker has not answered for {duration(one)}. This goes on when it does."
                )
                live.update(Text(text, "bold red"), refresh=True)
