"""`fairlane tail`: what is decided and what ends, a line each, as it happens."""

import contextlib
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from ops.commands.common import friendly, load
from ops.commands.looking import Pause, looks
from ops.following import Follower
from ops.live_words import landing
from ops.sentences import duration
from scheduler.harmless import harmless

PERIOD_S = 0.5  # between two looks; the box keeps the last 64 endings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of lines.")
@click.option(
    "--last",
    default=10,
    show_default=True,
    type=click.IntRange(0, 64),
    help="Endings to begin with.",
)
@click.option("--once", is_flag=True, help="Print what there is and end.")
@friendly
def tail(last: int, *, as_json: bool, once: bool) -> None:
    """Follow where requests land and how they end, until Ctrl-C."""
    follower = Follower(last)
    was_gone = False
    with contextlib.suppress(KeyboardInterrupt):
        for seen in looks(load(), Pause(PERIOD_S, 1 if once else None)):
            if not isinstance(seen, dict):
                if not was_gone:
                    print("fairlane: the broker does not answer; waiting for it", file=sys.stderr)
                was_gone = True
                continue
            was_gone = False
            now = time.time()
            for told in follower.take(seen):
                at = datetime.fromtimestamp(now - told["ago_s"], UTC)
                print(_json(told, at) if as_json else _line(harmless(told), at), flush=True)


def _json(told: dict[str, Any], at: datetime) -> str:
    facts = {key: value for key, value in told.items() if key != "ago_s"}
    return json.dumps({"at": at.isoformat(timespec="milliseconds"), **facts})


def _line(told: dict[str, Any], at: datetime) -> str:
    clock = at.astimezone().strftime("%H:%M:%S")
    return f"{clock} {told['what']:7} {_WORDS[told['what']](told)}"


def _ended(told: dict[str, Any]) -> str:
    how = told["outcome"].replace("_", " ")
    where = f"{told['model']} on {told['device']}" if told["device"] else told["op"]
    waited, ran = duration(told["waited_s"]), duration(told["ran_s"])
    pulled, loaded = told["pulled_s"], told["loaded_s"]
    times = f"waited {waited}" + ("" if pulled is None else f" ({duration(pulled)} of it a pull)")
    times += f", ran {ran}" + ("" if loaded is None else f" ({duration(loaded)} of it a load)")
    return f"{told['lane']}: {how}, {where} ({landing(told)}), {times}  {told['request']}"


def _runs(told: dict[str, Any]) -> str:
    return f"{told['lane']}: on {told['on']}, {told['model']} ({landing(told)})  {told['request']}"


def _waits(told: dict[str, Any]) -> str:
    start = "starts when it has cooled" if told["hot"] else f"starts in {duration(told['eta_s'])}"
    place = f"for {told['on']} at position {told['position']}, {start}"
    return f"{told['lane']}: {place}, {told['model']} ({landing(told)})  {told['request']}"


_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "ended": _ended,
    "refused": lambda told: f"{told['lane']}: {told['message']}  {told['request']}",
    "runs": _runs,
    "waits": _waits,
    "missed": lambda told: f"{told['endings']} endings came too fast to be shown",
}
