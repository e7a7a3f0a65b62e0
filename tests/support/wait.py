"""Waiting for what other processes do, and limits of time: conditions and deadlines, never a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

from scheduler.errors import BrokerUnreachable

T = TypeVar("T")
PATIENCE_S = 30.0  # a shared machine may stand still for seconds
ROUNDS = 4
_PAUSE_S = 0.003


def until(condition: Callable[[], T | None], what: str, *, within_s: float = PATIENCE_S) -> T:
    """Return the first true value of a condition. A broker that does not answer yet is none.

    Raises:
        AssertionError: None came in time; names what was waited for.
    """
    ends_at = time.monotonic() + within_s
    while True:
        value = seen(condition)
        if value:
            return value
        if time.monotonic() > ends_at:
            raise AssertionError(f"{what}: not within {within_s} s; last seen {value!r}")
        time.sleep(_PAUSE_S)


def seen(condition: Callable[[], T | None]) -> T | None:
    """Return a condition's value now; None where it asks a broker that is not there."""
    try:
        return condition()
    except BrokerUnreachable:  # it is just being started, on a machine that takes its time
        return None


def seconds_until(
    condition: Callable[[], object], what: str, *, within_s: float = PATIENCE_S
) -> float:
    """Return how long it took until a condition was true."""
    began_at = time.monotonic()
    until(condition, what, within_s=within_s)
    return time.monotonic() - began_at


def at_best(measure: Callable[[], float], limit: float, what: str) -> float:
    """Hold something to a limit of time at its best of some rounds, and return that.

    What else the machine does makes single rounds late; what has become slow is late in each of them.

    Args:
        measure: Do it once, from the beginning, and return what it took.
        limit: It may take less than this, in the unit of `measure`.
        what: What takes so long.

    Raises:
        AssertionError: It took longer in every round; names all of them.
    """
    took: list[float] = []
    while len(took) < ROUNDS:
        took.append(measure())
        if took[-1] < limit:
            print(f"{what}: {took[-1]:.4g} of at most {limit:g}, round {len(took)}")
            return took[-1]
    raise AssertionError(f"{what}: {[round(one, 4) for one in took]}, of at most {limit:g}")
