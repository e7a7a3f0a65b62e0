"""How evenly a device served those who wanted it all the time: Jain's index over whole windows.

Rules of this file: pure; time is an argument. Only lanes that had work waiting at every look count: one that
came and went got less because it asked for less.

Source: Jain, Chiu, Hawe, "A quantitative measure of fairness and discrimination", 1984: (sum x)^2 over
n times (sum of x^2), here of device-seconds over weight.
"""

from collections.abc import Collection, Mapping

WINDOWS_S = (60.0, 600.0)


class Evenness:
    """One device, one length of window."""

    __slots__ = ("_began", "_lanes", "_since", "index", "window_s")

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.index: float | None = None  # of the last whole window; None: no two lanes to compare
        self._since: float | None = None  # the window's begin; None: none has begun
        self._lanes: set[str] = set()  # those with work waiting since then
        self._began: dict[str, float] = {}  # lane -> device-seconds it had by then

    def look(
        self,
        at: float,
        wanting: Collection[str],
        served_s: Mapping[str, float],
        weights: Mapping[str, float],
    ) -> None:
        """Look at the device, once a second or so.

        Args:
            at: Now.
            wanting: Lanes with work waiting.
            served_s: Lane -> device-seconds it has had since the start.
            weights: Lane -> share; a lane that is not named weighs 1.
        """
        self._lanes.intersection_update(wanting)
        if self._since is not None and at - self._since < self.window_s:
            return
        if self._since is not None:
            had = [
                (served_s.get(lane, 0.0) - self._began.get(lane, 0.0)) / weights.get(lane, 1.0)
                for lane in self._lanes
            ]
            self.index = jain(had)
        self._since, self._lanes = at, set(wanting)
        self._began = {lane: served_s.get(lane, 0.0) for lane in wanting}


def jain(had: list[float]) -> float | None:
    """Return Jain's index: 1 if all had the same, 1/n if one had all; None: there is nothing to compare."""
    squares = sum(one * one for one in had)
    return sum(had) ** 2 / (len(had) * squares) if len(had) > 1 and squares > 0.0 else None
