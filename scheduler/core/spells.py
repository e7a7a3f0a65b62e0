"""Since when something lasts, and when it lasted of late: looked up when somebody asks why a request waited.

Rules of this file: pure and plain, so that it can be written down; it costs nothing while nothing changes.
"""

from collections import deque
from math import inf

KEEP = 64  # spells that have ended; hot and cool are ten degrees apart, so they do not come fast


class Spells:
    """The latest spells of one thing, oldest first."""

    __slots__ = ("past", "since")

    def __init__(self) -> None:
        self.since: float | None = None  # since when it lasts; None: it does not
        self.past: deque[tuple[float, float]] = deque(maxlen=KEEP)  # (from, to)

    def turn(self, at: float, *, on: bool) -> None:
        """Say whether it is so now."""
        if on and self.since is None:
            self.since = at
        elif not on and self.since is not None:
            self.past.append((self.since, at))
            self.since = None

    def within_s(self, since: float, until: float) -> float:
        """Return for how many seconds of a time it was so."""
        spells = [*self.past, *([(self.since, inf)] if self.since is not None else [])]
        return sum(max(0.0, min(end, until) - max(start, since)) for start, end in spells)

    def freeze(self) -> tuple[float | None, list[tuple[float, float]]]:
        """Return all of it."""
        return self.since, list(self.past)

    def thaw(self, frozen: tuple[float | None, list[tuple[float, float]]]) -> None:
        """Become what was frozen; for an empty one."""
        self.since = frozen[0]
        self.past.extend(frozen[1])

    def inherit(self, old: "Spells", at: float, shift_s: float) -> None:
        """Take over from an earlier start of the broker; what lasted then is known up to now."""
        self.past.extend((start + shift_s, end + shift_s) for start, end in old.past)
        if old.since is not None:
            self.past.append((old.since + shift_s, at))
