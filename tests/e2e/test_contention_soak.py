"""Contention on one seat while everything dies: two outside lanes, four lanes of requests, kill -9 at random.

The engine and the commands write down, again and again, that they use the device: logs that the queue has
no hand in. Holds last up to 0.3 s where a model's last up to 30, so the run is an hour's contention at a
hundredth: nowhere in it may two use the seat, and nothing may be lost.
"""

import random
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

import psutil
import pytest

from scheduler.bus.journal import segments
from scheduler.bus.segment import Reader
from scheduler.core.events import Asked, HoldAsked, HoldKept
from scheduler.errors import BrokerUnreachable
from support.box import TREE, Box
from support.http import CHAT, ROW, Reply, call, chat
from support.wait import until

RUN_S = 36.0
HOLD_S = 0.3
LANES = ("red", "green", "blue", "grey")
RETRYABLE = {"worker_lost", "device_unavailable", "broker_restarted", "broker_unreachable"}
# of `gpu run`: well, itself killed, its command killed or told to end, no broker just then, no grant in time
STATUSES = {0, -9, 137, 143, 4, 1}
OUTSIDE = ("kill command", "kill holder", "kill broker", "nothing")  # while a command holds
INSIDE = ("kill worker", "kill broker", "nothing", "nothing")  # while a request does, or nobody
QUIET_S = 6.0  # between two deaths of a worker or of the broker, so that the box is well in between
COMMAND = (
    "import os,random,sys,time\n"
    "out=os.open(sys.argv[1], os.O_WRONLY|os.O_APPEND|os.O_CREAT)\n"
    "ends=time.monotonic()+random.uniform(0.05,float(sys.argv[2]))\n"
    "while time.monotonic()<ends:\n"
    "    os.write(out, f'{os.getpid()} 0 {time.monotonic()}\\n'.encode()); time.sleep(0.005)\n"
)


class Client(threading.Thread):
    """Asks one thing after another; every request has an end, an answer or an error."""

    def __init__(self, box: Box, lane: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self._box, self._lane, self._over = box, lane, over
        self.ends: dict[str, Reply] = {}

    def run(self) -> None:
        """Ask until told to stop."""
        while not self._over.is_set():
            reply = call(self._box.url, CHAT, chat(model=ROW), {"x-fairlane-lane": self._lane})
            self.ends[reply.headers["x-request-id"]] = reply


def outside(box: Box, lane: str, log: Path, over: threading.Event) -> list[int]:
    """Run commands one after another; return their exit statuses."""
    statuses: list[int] = []
    while not over.is_set():
        ran = subprocess.run(
            [sys.executable, "-m", "ops.cli", "gpu", "run", "--lane", lane, "--",
             sys.executable, "-c", COMMAND, str(log), str(2 * HOLD_S)],
            env=box.environ, cwd=TREE, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        statuses.append(ran.returncode)
    return statuses


def mishap(box: Box, dice: random.Random, log: Path, *, quiet: bool) -> str:
    """Kill something, most often while it holds the device."""
    with suppress(psutil.Error, ProcessLookupError, KeyError, BrokerUnreachable):
        with box.bus() as bus:
            held = [one for one in bus.outside()["hrx0"]["holders"] if one["outside"]]
        what = dice.choice(OUTSIDE if held else INSIDE)
        if what in {"kill broker", "kill worker"}:
            if quiet:
                return "nothing"
            box.kill("broker" if what == "kill broker" else "hrx")
            return what
        if held and what != "nothing":
            command = psutil.Process(held[0]["pid"])
            doomed = command if what == "kill command" else command.parent()
            if doomed is not None and str(log) in doomed.cmdline():
                doomed.kill()
                return what
    return "nothing"


def intervals(*logs: Path) -> list[tuple[float, float, str]]:
    """Return when each job and each command used the device, by its own word."""
    seen: dict[str, list[float]] = {}
    for log in logs:
        for line in log.read_text().splitlines():
            pid, lease, at = line.split()
            seen.setdefault(f"{log.name} {pid} {lease}", []).append(float(at))
    return sorted((min(times), max(times), who) for who, times in seen.items())


def books(box: Box) -> tuple[list[str], dict[str, str]]:
    """Return the tickets that a broker ever wrote down, and with which reason each ended last."""
    accepted: dict[str, None] = {}
    ended: dict[str, str] = {}
    for file in reversed(segments(box.home / "state" / "journal")):
        with Reader(file) as reader:
            for event, verdicts in reader.entries():
                if isinstance(event, Asked | HoldAsked | HoldKept):
                    accepted[event.rid] = None
                    ended.pop(event.rid, None)  # asked again by a broker's next life
                ended.update({v[1]: v[2] for v in verdicts if v[0] == "ended"})
    return list(accepted), ended


def missing(happened: Counter[str]) -> bool:
    """Return whether something has not happened yet that has to."""
    return not (happened["kill worker"] and happened["kill broker"])


def is_idle(box: Box) -> bool:
    """Return whether nobody holds the device or waits for it, and a worker serves it."""
    with box.bus() as bus:
        there = bus.outside()["hrx0"]
    return not there["holders"] and not there["waiters"] and bool(box.status()["ready"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7])
def test_no_two_use_a_seat_and_nothing_is_lost_whoever_dies(
    new_box: Callable[..., Box], tmp_path: Path, seed: int
) -> None:
    jobs, commands, dice = tmp_path / "jobs", tmp_path / "commands", random.Random(seed)
    for log in (jobs, commands):
        log.touch()
    box = new_box(
        workers__engine="null", workers__null_seats=1, workers__null_hold_s=HOLD_S,
        workers__null_log=jobs, limits__lease_s=3.0, limits__kill_s=0.5, journal__keep=1000,
    )  # fmt: skip
    over = threading.Event()
    clients = [Client(box, lane, over) for lane in LANES]
    for client in clients:
        client.start()
    happened: Counter[str] = Counter()
    with ThreadPoolExecutor(2) as pool:
        lanes = [pool.submit(outside, box, lane, commands, over) for lane in ("one", "two")]
        ends_at = time.monotonic() + RUN_S
        quiet_until = 0.0
        while (now := time.monotonic()) < ends_at or (missing(happened) and now < ends_at + RUN_S):
            what = mishap(box, dice, commands, quiet=now < quiet_until)
            happened[what] += 1
            if what in {"kill worker", "kill broker"}:
                quiet_until = now + QUIET_S
            time.sleep(dice.uniform(0.2, 0.8))
        over.set()
        statuses = Counter(status for each in lanes for status in each.result())
    for client in clients:
        client.join(60)
    assert not any(client.is_alive() for client in clients)
    until(lambda: is_idle(box), "an idle device that is served", within_s=30)

    replies = {rid: reply for client in clients for rid, reply in client.ends.items()}
    used = intervals(jobs, commands)
    codes = Counter(r.error["code"] for r in replies.values() if r.status != 200)
    print(
        f"{len(replies)} requests, {dict(codes)} errors; commands {dict(statuses)}; {dict(happened)}; "
        f"{len(used)} uses, {sum(end - begin for begin, end, _ in used):.1f} s"
    )
    beside = [(one, two) for one, two in pairwise(used) if one[1] > two[0]]
    assert beside == []
    assert set(codes) <= RETRYABLE, codes
    assert set(statuses) <= STATUSES, statuses
    assert len([who for _, _, who in used if who.startswith("jobs")]) > 20
    assert len([who for _, _, who in used if who.startswith("commands")]) > 5
    assert not missing(happened)

    accepted, ended = books(box)
    unended = {rid for rid in accepted if not ended.get(rid)}
    with box.bus() as bus:  # their broker died, and who asked was told so or is dead as well
        stories = {rid: bus.explain(rid) for rid in unended}
    ends = {rid: story.get("outcome") if story["known"] else None for rid, story in stories.items()}
    print(f"{len(accepted)} tickets, {dict(Counter(ended.values()))}, {ends}")
    assert set(ends.values()) <= {"broker_restarted"}
    told = {"broker_restarted", "broker_unreachable"}
    assert {replies[rid].error["code"] for rid in ends.keys() & replies.keys()} <= told
    assert {rid for rid, reply in replies.items() if reply.status == 200} <= ended.keys()
    wrong = {
        rid: (reply.error["code"], ended[rid]) for rid, reply in replies.items()
        if reply.status != 200 and rid in ended and reply.error["code"] not in {ended[rid], *told}
    }  # fmt: skip
    assert wrong == {}
