"""Processes named by pid and start, groups, and the end of both. Real processes and real signals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from scheduler.bus import processes
from scheduler.bus.processes import MARK, Doomed, Reaper
from support.wait import until

Start = Callable[..., "subprocess.Popen[bytes]"]
STUBBORN = (
    "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); "
    "time.sleep(600)"
)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start commands in groups of their own that end with the test."""
    with ExitStack() as stack:

        def run(*command: str, **environ: str) -> "subprocess.Popen[bytes]":
            process = subprocess.Popen(
                command, process_group=0, stdout=subprocess.PIPE, env={**os.environ, **environ}
            )
            stack.callback(process.communicate)
            stack.callback(_kill, process.pid)
            return process

        yield run


def _kill(pgid: int) -> None:
    try:
        os.killpg(pgid, signal.SIGKILL)
    except ProcessLookupError:
        return


def doomed(pid: int, *, name: str = "h", group: bool = True, grace_s: float = 5.0) -> Doomed:
    return Doomed(name, pid, pid if group else 0, processes.started_at(pid), grace_s)


def test_a_start_is_told_in_seconds_of_this_machine(start: Start) -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    process = start("sleep", "600")
    assert before - 0.05 < processes.started_at(process.pid) < before + 30


def test_a_process_that_is_not_there_or_only_not_reaped_is_none(start: Start) -> None:
    process = start("true")
    until(lambda: processes.seen(process.pid) is None, "its end")
    assert processes.started_at(process.pid) == 0.0


def test_the_members_of_a_group_are_found(start: Start) -> None:
    process = start("sh", "-c", "sleep 600 & sleep 601 & wait")
    until(lambda: len(processes.members(process.pid)) == 3, "three members")


def test_who_handles_or_ignores_a_signal_is_told_from_who_would_die(start: Start) -> None:
    handles = start("sh", "-c", "trap : USR1; echo; while :; do sleep 0.1; done")
    ignores = start("sh", "-c", "trap '' USR1; echo; while :; do sleep 0.1; done")
    dies = start("sh", "-c", "echo; while :; do sleep 0.1; done")
    for process in (handles, ignores, dies):
        assert process.stdout is not None
        process.stdout.readline()
    caught = [
        processes.catches(process.pid, signal.SIGUSR1) for process in (handles, ignores, dies)
    ]
    assert caught == [True, True, False]
    assert not processes.catches(2**22 + 1, signal.SIGUSR1)


def test_a_group_is_asked_to_end_and_its_end_is_told(start: Start) -> None:
    process = start("sh", "-c", "sleep 600 & wait")
    until(lambda: len(processes.members(process.pid)) == 2, "two members")
    reaper = Reaper()
    reaper.add(9, doomed(process.pid))
    assert reaper.has(process.pid)
    told = until(lambda: reaper.step(time.monotonic()), "the end of the group")
    assert told == [(process.pid, 9)]
    assert not reaper
    assert process.wait() == -signal.SIGTERM


def test_what_ignores_sigterm_is_killed_after_its_grace(start: Start) -> None:
    process = start(sys.executable, "-c", STUBBORN)
    assert process.stdout is not None
    process.stdout.readline()
    end = doomed(process.pid, grace_s=1.0)
    assert not end.step(100.0)
    assert not end.step(100.9)
    assert process.poll() is None
    assert not end.step(101.0)
    assert process.wait() == -signal.SIGKILL
    assert end.step(101.1)


def test_without_grace_it_is_killed_at_once_also_when_it_is_stopped(start: Start) -> None:
    process = start("sleep", "600")
    process.send_signal(signal.SIGSTOP)
    assert not doomed(process.pid, group=False, grace_s=0.0).step(1.0)
    assert process.wait() == -signal.SIGKILL


def test_a_stopped_group_hears_that_it_must_end(start: Start) -> None:
    process = start("sleep", "600")
    process.send_signal(signal.SIGSTOP)
    assert not doomed(process.pid).step(1.0)
    assert process.wait() == -signal.SIGTERM


def test_a_pid_that_was_given_away_again_is_never_touched(start: Start) -> None:
    process = start("sleep", "600")
    other = Doomed("h", process.pid, process.pid, processes.started_at(process.pid) - 5.0, 0.0)
    assert other.step(1.0)  # what it was has ended
    alone = Doomed("h", process.pid, 0, 1.0, 0.0)
    assert alone.step(1.0)
    assert process.poll() is None


def test_of_a_group_without_its_leader_only_who_carries_the_mark_is_ended(start: Start) -> None:
    process = start("sh", "-c", "sleep 600 & env -u " + MARK + " sleep 601 & :", **{MARK: "h"})
    until(lambda: processes.seen(process.pid) is None, "the leader's end")
    process.wait()
    until(lambda: len(processes.members(process.pid)) == 2, "two members")
    end = Doomed("h", process.pid, process.pid, 5.0, 5.0)
    until(lambda: end.step(time.monotonic()), "the end of those that carry it")
    assert len(processes.members(process.pid)) == 1


def test_what_made_a_group_of_its_own_is_ended_by_its_mark(start: Start) -> None:
    process = start(
        "sh", "-c", "timeout 600 sleep 601 & setsid sleep 602 & wait", **{MARK: "of its own"}
    )
    strangers: set[processes.Process] = set()
    until(lambda: len(processes.marked("of its own", strangers)) == 4, "all that was started")
    assert len(processes.members(process.pid)) < 4
    assert all(one.pid != process.pid for one in strangers)
    end = doomed(process.pid, name="of its own")
    until(lambda: end.step(time.monotonic()), "the end of all")
    assert processes.marked("of its own", set()) == []
    assert process.wait() == -signal.SIGTERM


def test_who_was_looked_at_is_not_looked_at_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start("sleep", "600")
    strangers: set[processes.Process] = set()
    until(
        lambda: processes.marked("nobody", strangers) or processes.seen(process.pid) in strangers,
        "a look at it",
    )
    looked: list[int] = []
    monkeypatch.setattr(processes, "_carries", lambda pid, _name: looked.append(pid))
    processes.marked("nobody", strangers)
    assert process.pid not in looked


def test_what_is_in_hand_is_not_begun_again(start: Start) -> None:
    process = start("sleep", "600")
    reaper = Reaper()
    reaper.add(1, doomed(process.pid, grace_s=0.0))
    reaper.add(1, Doomed("h", process.pid, 0, 0.0, 0.0))
    assert reaper.step(1.0) == []
    assert process.wait() == -signal.SIGKILL
