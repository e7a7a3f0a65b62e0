"""`fairlane drain`: the box takes no new work, and ends what it has accepted."""

import os
import signal
import sys
import time
from math import inf
from typing import Any

import click

from ops.commands.common import Amount, friendly, knock, load, reach
from ops.commands.exits import Exit, finish
from scheduler.bus.client import Client
from scheduler.errors import BrokerUnreachable
from scheduler.settings import Settings

LOOK_S = 0.2  # how often the box is asked what is still open
CHANGED_S, SAY_S = 1.0, 5.0  # how often that is told: if it changed, and if it did not
STOP_S = 15.0  # a box whose supervisor was told to stop is gone within 5


@click.command()
@click.option("--undo", is_flag=True, help="Take new work again, and do not wait.")
@click.option("--then-stop", is_flag=True, help="Stop the box once it is empty.")
@click.option(
    "--timeout", "timeout_s", type=Amount(min=0.0), default=900.0, show_default=True,
    help="Seconds to wait for what is open.",
)  # fmt: skip
@friendly
def drain(*, undo: bool, then_stop: bool, timeout_s: float) -> None:
    """Take no new work, and wait until all that was accepted has ended.

    New requests get a 503 `draining` that they may repeat. Exit status 1 after --timeout: the box still
    drains then. A restart of the broker ends a drain; while this command waits, it asks again.
    """
    if undo and then_stop:
        raise click.UsageError("--undo and --then-stop exclude each other")
    settings = load()
    with reach(settings) as client:
        if undo:
            client.drain(on=False)
            client.status()  # an answer: what was said before it has arrived
            finish("the box takes new work")
        view = _empty(client, time.monotonic() + timeout_s)
    print("drained: nothing is open", flush=True)
    if then_stop:
        _stop(settings, view["supervisor"])


def _empty(client: Client, until: float) -> dict[str, Any]:
    """Drain until nothing is open, and return the status that says so."""
    said, said_at = -1, -inf
    while True:
        client.drain()
        view = client.status()
        left: int = view["open"]
        if not left:
            return view
        now = time.monotonic()
        if now >= until:
            message = f"fairlane: {_shown(view)}; the box still drains, --undo has it take new work"
            print(message, file=sys.stderr)
            finish("", Exit.FAILED)
        if now - said_at >= (SAY_S if left == said else CHANGED_S):
            said, said_at = left, now
            print(_shown(view), file=sys.stderr)
        time.sleep(LOOK_S)


def _shown(view: dict[str, Any]) -> str:
    devices = "; ".join(
        f"{name}: {len(device['holders'])} held, {device['waiting']} waiting"
        for name, device in view["devices"].items()
    )
    return f"{view['open']} open ({devices})"


def _stop(settings: Settings, supervisor: int) -> None:
    """Have the supervisor stop the box, and wait until nobody answers any more."""
    if not supervisor:
        print(
            "fairlane: this box has no `fairlane up` above it; stop it where it was started, "
            "such as by `systemctl stop fairlane.target`",
            file=sys.stderr,
        )
        finish("", Exit.FAILED)
    os.kill(supervisor, signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while time.monotonic() < until:
        try:
            knock(settings)
        except BrokerUnreachable:
            finish("stopped")
        time.sleep(0.05)
    print(f"fairlane: the box still runs {STOP_S:.0f} s after it was told to stop", file=sys.stderr)
    finish("", Exit.FAILED)
