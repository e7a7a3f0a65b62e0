"""`fairlane bench sensors`: does a sensor that hangs for ever slow the bus?

Two boxes, each the real broker, a null engine and the sensors worker over a small tree of its own; in one of
them the temperature is a pipe that nobody writes. Both live at the same time and are asked in turn, a block
of requests each, one in flight, so that whatever else the machine does meets both alike.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import zmq
from msgspec import Struct

from ops.bench.bus import BODY, WARM_UP, ask, broker_with
from ops.bench.round_trips import BenchError, Times, round_trips, times
from scheduler.bus.client import Client
from scheduler.bus.sockets import Line

SETTLE_S = (
    30.0  # a box that does not say of its temperature what it must within this has another fault
)
BLOCK = 20  # requests before the other side has its turn


class Result(Struct, frozen=True):
    """Ratios are the hung side's over the sound one's."""

    p50_ratio: float
    p99_ratio: float
    requests: int  # a side
    hung: Times
    sound: Times
    sensors_mb: float  # resident memory of the hung side's sensors worker


def measure(requests: int) -> Result:
    """Ask both boxes in turn.

    Args:
        requests: A side; rounded up to whole blocks.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlane-"))
        context = stack.enter_context(zmq.Context[Any]())
        lines: list[Line] = []
        megabytes: list[float] = []
        for is_hung in (True, False):
            root = _tree(Path(folder, str(is_hung)), is_hung=is_hung)
            more = {"FAIRLANE__SENSORS__ROOT": str(root)}
            endpoint, _ = stack.enter_context(broker_with(more, "hrx", "sensors"))
            megabytes.append(_settled(endpoint, "stale" if is_hung else ""))
            line = Line(context, endpoint)
            stack.callback(line.close)
            lines.append(line)
        hung, sound = _in_turn(lines, requests)
    return Result(
        p50_ratio=round(hung.p50_us / sound.p50_us, 3),
        p99_ratio=round(hung.p99_us / sound.p99_us, 3),
        requests=requests,
        hung=hung,
        sound=sound,
        sensors_mb=megabytes[0],
    )


def _in_turn(lines: list[Line], requests: int) -> list[Times]:
    numbers = count()
    taken: list[list[float]] = [[], []]
    for line in lines:
        round_trips(line, _next(numbers, WARM_UP))
    while len(taken[1]) < requests:
        turn = list(zip(lines, taken, strict=True))
        # A B, then B A: who comes second finds the processor warm from the first
        for line, own in turn if len(taken[0]) // BLOCK % 2 else reversed(turn):
            own.extend(round_trips(line, _next(numbers, BLOCK)))
    return [times(own) for own in taken]


def _next(numbers: Iterator[int], many: int) -> Iterator[tuple[bytes, bytes]]:
    return ((ask(next(numbers)), BODY) for _ in range(many))


def _tree(root: Path, *, is_hung: bool) -> Path:
    chip = root / "sys/class/hwmon/hwmon3"
    chip.mkdir(parents=True)
    for name, text in (("name", "k10temp"), ("temp1_label", "Tctl")):
        (chip / name).write_text(f"{text}\n", encoding="ascii")
    if is_hung:
        os.mkfifo(chip / "temp1_input")
    else:
        (chip / "temp1_input").write_text("39375\n", encoding="ascii")
    return root


def _settled(endpoint: str, reason: str) -> float:
    """Wait until the box says of the temperature what it must; return the worker's resident megabytes."""
    import psutil

    with Client(endpoint) as client:
        ends_at = time.monotonic() + SETTLE_S
        while time.monotonic() < ends_at:
            status = client.status()
            told = {one["name"]: one for one in status["senses"]["readings"]}
            if "tctl" in told and told["tctl"]["reason"] == reason:
                weight = psutil.Process(status["sensors"][0]["pid"]).memory_info().rss
                return round(weight / 1e6, 1)
            time.sleep(0.02)
    raise BenchError(f"the temperature was not {reason or 'known'} within {SETTLE_S:.0f} s")
