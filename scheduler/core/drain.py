"""How fast a device's seats come free, measured over the endings of late.

Rules of this file: pure and plain - two lists of numbers, so that the state can be written down. Only time
that a seat was held counts: a rate of endings by the wall clock would call an idle device a slow one.
"""

from collections import deque

ENDINGS = 64  # the latest ones count, as many as one lane may have waiting by default
WINDOW_S = 600.0  # and none older than a ticket may wait by default


class Drain:
    """The latest endings of one device."""

    __slots__ = ("ended_at", "held_s")

    def __init__(self) -> None:
        self.ended_at: deque[float] = deque(maxlen=ENDINGS)  # monotonic seconds, oldest first
        self.held_s: deque[float] = deque(
            maxlen=ENDINGS
        )  # how long each held its seat, wall seconds

    def freeze(self) -> tuple[list[float], list[float]]:
        """Return all of it."""
        return list(self.ended_at), list(self.held_s)

    def thaw(self, frozen: tuple[list[float], list[float]]) -> None:
        """Become what was frozen; for an empty one."""
        self.ended_at.extend(frozen[0])
        self.held_s.extend(frozen[1])

    def inherit(self, old: "Drain", shift_s: float) -> None:
        """Take over from an earlier start of the broker."""
        self.ended_at.extend(at + shift_s for at in old.ended_at)
        self.held_s.extend(old.held_s)

    def take(self, at: float, held_s: float) -> None:
        """Take in that a ticket left its seat after so many wall seconds."""
        self.ended_at.append(at)
        self.held_s.append(held_s)

    def endings(self, at: float) -> int:
        """Return how many endings the window holds now."""
        ended = self.ended_at
        while ended and at - ended[0] > WINDOW_S:
            ended.popleft()
            self.held_s.popleft()
        return len(ended)

    def per_seat_s(self, at: float) -> float | None:
        """Return the seconds a seat is held by one ticket, the inverse of its rate of endings.

        None while nothing ended in the window: unknown is not zero.
        """
        endings = self.endings(at)
        return sum(self.held_s) / endings if endings else None
