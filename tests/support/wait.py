"""Waiting for what other processes do: a condition and a deadline, never a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_PAUSE_S = 0.003


def until(condition: Callable[[], T | None], what: str, *, within_s: float = 10.0) -> T:
    """Return the first true value of a condition.

    Raises:
        AssertionError: None came in time; names what was waited for.
    """
    ends_at = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > ends_at:
            raise AssertionError(f"{what}: not within {within_s} s; last seen {value!r}")
        time.sleep(_PAUSE_S)


def seconds_until(condition: Callable[[], object], what: str, *, within_s: float = 10.0) -> float:
    """Return how long it took until a condition was true."""
    began_at = time.monotonic()
    until(condition, what, within_s=within_s)
    return time.monotonic() - began_at
