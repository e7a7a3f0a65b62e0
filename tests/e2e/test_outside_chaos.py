"""Two outside lanes and an agent on one device while its holders and the broker die or stop at random.

Each command writes down the time, again and again, for as long as it lives, and the client when each piece
of an answer came: a log that no part of the box has a hand in. Nowhere in it may two use the device.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler.errors import BrokerUnreachable
from support.box import TREE, Box
from support.http import CHAT, ROW, Stream, call, chat, counting
from support.wait import until

OUTSIDE = ("kill command", "kill holder", "stop holder", "kill broker", "nothing")
WORKER = ("kill worker", "stop worker", *["nothing"] * 6)
# of `gpu run`: well, itself killed, its command killed or told to end, no broker just then, no grant in time
STATUSES = {0, -9, 137, 143, 4, 1}
BROKER_KILLS = 2
COMMANDS = 6  # of each of the two lanes
TICKS = (
    "import sys,time,os\n"
    "out=os.open(sys.argv[1], os.O_WRONLY|os.O_APPEND|os.O_CREAT)\n"
    "ends=time.monotonic()+0.5\n"
    "while time.monotonic()<ends:\n"
    "    os.write(out, f'{os.getpid()} {time.monotonic()}\\n'.encode()); time.sleep(0.002)\n"
)
_LATE_S = 0.3  # a piece that was written before a grant may be read this much after it


class Agent(threading.Thread):
    """Streams one answer after another; an error is an answer too."""

    def __init__(self, box: Box) -> None:
        super().__init__(daemon=True)
        self._box = box
        self.over = threading.Event()
        self.pieces: list[float] = []
        self.ends: list[str] = []  # the last event of each stream

    def run(self) -> None:
        """Ask until told to stop."""
        while not self.over.is_set():
            last = ""
            with Stream(self._box.url, "/v1/completions", counting(30)) as stream:
                for last in stream.data():
                    if last != "[DONE]" and '"error"' not in last:
                        self.pieces.append(time.monotonic())
                self.ends.append(last or f"status {stream.response.status}")


def lane(box: Box, name: str, log: Path) -> list[int]:
    """Run commands one after the other; return their exit statuses."""
    return [
        subprocess.run(
            [sys.executable, "-m", "ops.cli", "gpu", "run", "--lane", name, "--",
             sys.executable, "-c", TICKS, str(log)],
            env=box.environ, cwd=TREE, capture_output=True, timeout=120, check=False,
        ).returncode
        for _ in range(COMMANDS)
    ]  # fmt: skip


def mishap(box: Box, chance: random.Random, log: Path, before: list[str]) -> str:
    """Let something happen to whoever holds the device.

    The broker is killed twice, while a command holds and no worker is stopped: a new broker cannot miss a
    stopped worker that it has never heard of.
    """
    holders: list[dict[str, Any]] = []
    with box.bus() as bus, suppress(BrokerUnreachable):
        holders = bus.outside()["hrx0"]["holders"]
    outside = bool(holders) and holders[0]["outside"]
    what = chance.choice(OUTSIDE if outside else WORKER)
    with suppress(psutil.Error, ProcessLookupError, KeyError):
        if what == "kill broker":
            if before.count(what) == BROKER_KILLS or "stop worker" in before[-8:]:
                return "nothing"
            box.kill("broker")
        elif what.endswith("worker"):
            box.kill("hrx", signal.SIGKILL if what.startswith("kill") else signal.SIGSTOP)
        elif outside and what != "nothing":
            command = psutil.Process(holders[0]["pid"])
            doomed = command if what.endswith("command") else command.parent()
            known = str(log) in command.cmdline() and doomed is not None
            if known and doomed is not None and str(log) in doomed.cmdline():
                doomed.send_signal(signal.SIGKILL if what.startswith("kill") else signal.SIGSTOP)
                if what.startswith("stop"):  # longer than its lease
                    threading.Timer(4.5, _wake, [doomed]).start()
    return what


def _wake(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.send_signal(signal.SIGCONT)


def used(log: Path) -> list[tuple[float, float]]:
    """Return when each command lived, by its own word."""
    seen: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        pid, at = line.split()
        seen.setdefault(pid, []).append(float(at))
    return sorted((min(times), max(times)) for times in seen.values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5])
def test_no_two_use_the_device_whoever_dies(
    new_box: Callable[..., Box], tmp_path: Path, seed: int
) -> None:
    box = new_box(limits__lease_s=3.0, limits__kill_s=0.5)
    call(box.url, CHAT, chat(model=ROW))
    log, chance = tmp_path / "log", random.Random(seed)
    agent = Agent(box)
    agent.start()
    happened: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        lanes = [pool.submit(lane, box, name, log) for name in ("one", "two")]
        while not all(each.done() for each in lanes):
            time.sleep(chance.uniform(0.2, 1.0))
            happened.append(mishap(box, chance, log, happened))
        statuses = [status for each in lanes for status in each.result()]
    agent.over.set()
    agent.join(60)
    print(
        f"{sorted(Counter(happened).items())}, statuses {sorted(statuses)}, {len(agent.pieces)} pieces"
    )

    times = used(log)
    assert all(one[1] <= two[0] for one, two in pairwise(times)), times
    beside = [at for at in agent.pieces if any(b + _LATE_S < at < e for b, e in times)]
    assert beside == []
    assert len(times) >= COMMANDS  # killed ones among them
    assert agent.pieces
    assert all(agent.ends)

    until(lambda: _idle(box), "an idle device that is served", within_s=30)
    assert len(statuses) == 2 * COMMANDS
    assert set(statuses) <= STATUSES, statuses


def _idle(box: Box) -> bool:
    with box.bus() as bus:
        there = bus.outside()["hrx0"]
    return not there["holders"] and not there["waiters"] and bool(box.status()["ready"])
