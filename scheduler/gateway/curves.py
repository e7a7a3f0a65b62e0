"""The last ten minutes of heat, power and occupancy, for the curves of the live page. Pure.

A point is made every two seconds whether anybody looks or not; 300 of them are all that is kept. What was
not known is null in its point, and where no point could be made there is none: both are a gap in a curve.
"""

from collections import deque

from msgspec import Struct

STEP_S = 2.0  # between two points
KEEP_S = 600.0  # how far back they go
_POINTS = int(KEEP_S / STEP_S) + 1


class Pulse(Struct):
    """What the broker says of one instant; `core/live.py`."""

    boot: int
    at: float
    curves: dict[str, float | None]
    busy_s: dict[str, float]


class Point(Struct):
    """One point of each curve.

    Attributes:
        at: On the box's monotonic clock.
        curves: Reading -> value; None: unknown.
        busy: Device -> part of the time since the point before in which it was held, 0 to 1; None: unknown.
    """

    at: float
    curves: dict[str, float | None]
    busy: dict[str, float | None]


class Curves:
    """The points, oldest first."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=_POINTS)
        self._last: Pulse | None = None

    def add(self, pulse: Pulse) -> Point:
        """Make the point of this instant and return it."""
        last, self._last = self._last, pulse
        point = Point(
            round(pulse.at, 3),
            pulse.curves,
            {device: _part(device, last, pulse) for device in pulse.busy_s},
        )
        self.points.append(point)
        while self.points[0].at < pulse.at - KEEP_S:
            self.points.popleft()
        return point

    def lose(self) -> None:
        """No pulse came: what the next one says of the time before it is not known."""
        self._last = None

    def since(self, at: float) -> list[Point]:
        """Return the points after an instant, oldest first."""
        return [point for point in self.points if point.at > at]


def _part(device: str, last: Pulse | None, now: Pulse) -> float | None:
    """Return the part of the time between two pulses in which a device was held."""
    before = last.busy_s.get(device) if last is not None and last.boot == now.boot else None
    if last is None or before is None or now.at <= last.at:
        return None
    held = (now.busy_s[device] - before) / (now.at - last.at)
    return round(min(1.0, max(0.0, held)), 4)
