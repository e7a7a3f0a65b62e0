"""`fairlane queue`: who holds each device, who waits for it, and how long still."""

import contextlib
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import click

from ops.commands.common import Amount, friendly, load, reach, terminal
from scheduler.harmless import harmless


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a look, instead of tables.")
@click.option("--watch", is_flag=True, help="Look again and again until Ctrl-C.")
@click.option(
    "--every", default=1.0, show_default=True, type=Amount(0.1, 3600.0),
    help="Seconds between two looks of --watch.",
)  # fmt: skip
@click.option("--times", type=click.IntRange(min=1), help="End --watch after so many looks.")
@friendly
def queue(every: float, times: int | None, *, as_json: bool, watch: bool) -> None:
    """Show who holds each device, who waits in which order, and whose share is what."""
    looks = _looks(every, times if watch else 1)
    if as_json:
        for view in looks:
            print(json.dumps(view, indent=None if watch else 2), flush=True)
    else:
        _show(looks, live=watch)


def _looks(every_s: float, times: int | None) -> Iterator[dict[str, Any]]:
    """Yield the view again and again; Ctrl-C between two looks is how a watch ends."""
    with reach(load()) as client, contextlib.suppress(KeyboardInterrupt):
        for n in itertools.count(1) if times is None else range(1, times + 1):
            yield client.queue()
            if n != times:
                time.sleep(every_s)


def _show(looks: Iterator[dict[str, Any]], *, live: bool) -> None:
    from rich.live import Live  # 60 ms that `--json` need not pay

    from ops.queue_tables import tables

    console = terminal(120)
    if not (live and console.is_terminal):
        for view in looks:
            console.print(tables(harmless(view), console.width))
        return
    with Live(console=console, auto_refresh=False, screen=True) as screen:
        for view in looks:
            screen.update(tables(harmless(view), console.width), refresh=True)
