"""Calls that do not come back hold up nobody else."""

import threading
import time

import pytest

from support.wait import until
from workers.sensors.guard import HUNG_MAX, Guard
from workers.sensors.raw import Hung

DEADLINE_S = 0.05


@pytest.fixture
def gate() -> threading.Event:
    """What a hanging call waits for; opened at the end, so that no thread stays."""
    return threading.Event()


def test_what_a_call_returns_or_raises_comes_through() -> None:
    guard = Guard()
    assert guard.call("a", lambda: 5) == 5
    with pytest.raises(OSError, match="broken"):
        guard.call("a", lambda: (_ for _ in ()).throw(OSError("broken")))
    assert guard.call("a", lambda: 6) == 6
    guard.close()


def test_a_call_that_hangs_is_left_alone_and_others_go_on(gate: threading.Event) -> None:
    guard = Guard(DEADLINE_S)
    with pytest.raises(Hung):
        guard.call("stuck", gate.wait)
    assert guard.hung == ["stuck"]
    assert guard.call("other", lambda: 1) == 1
    gate.set()


def test_while_it_hangs_it_is_not_called_again_and_costs_no_time(gate: threading.Event) -> None:
    guard, calls = Guard(DEADLINE_S), list[int]()

    def hang() -> None:
        calls.append(1)
        gate.wait()

    for _ in range(20):
        with pytest.raises(Hung):
            guard.call("stuck", hang)
    assert calls == [1]
    began = time.thread_time()
    for _ in range(100):
        with pytest.raises(Hung):
            guard.call("stuck", hang)
    assert time.thread_time() - began < 0.1
    gate.set()


def test_it_is_asked_again_once_it_came_back(gate: threading.Event) -> None:
    guard = Guard(DEADLINE_S)
    with pytest.raises(Hung):
        guard.call("stuck", lambda: gate.wait() and "old")
    gate.set()

    def again() -> str:
        try:
            return guard.call("stuck", lambda: "new")
        except Hung:
            return ""

    assert until(again, "the call is back") == "new"  # and never what it said too late
    assert guard.hung == []
    guard.close()


def test_stuck_threads_are_bounded(gate: threading.Event) -> None:
    guard, before = Guard(0.001), threading.active_count()
    for n in range(HUNG_MAX + 20):
        with pytest.raises(Hung):
            guard.call(f"stuck {n}", gate.wait)
    assert threading.active_count() - before <= HUNG_MAX + 1
    gate.set()
    until(lambda: threading.active_count() <= before + 1, "the stuck threads end")
