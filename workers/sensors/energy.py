"""An energy counter that wraps, as one that does not. Pure; time is an argument."""

_WATTS_MAX = 1000.0  # no package of this kind takes more: such a step back is no wrap


class Energy:
    """Adds what a wrap took away, so that a difference of two values is always energy."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._at = 0.0
        self._more = 0  # microjoules to add to the counter

    def total(self, counter: int, largest: int | None, at: float) -> int:
        """Return the energy, microjoules; the counter itself until it first steps back.

        Args:
            counter: As read, microjoules.
            largest: Where it wraps, microjoules; None: unknown.
            at: When it was read, seconds.
        """
        last = self._last
        if last is not None and counter < last:
            step = counter + largest - last if largest else -1
            is_wrap = 0 <= step <= _WATTS_MAX * 1e6 * max(at - self._at, 1.0)
            # a counter that began anew - its driver was loaded again - goes on from where it was
            self._more += largest if is_wrap and largest else last - counter
        self._last, self._at = counter, at
        return counter + self._more
