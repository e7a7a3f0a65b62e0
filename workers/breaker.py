"""A circuit breaker: when to stop asking what fails, and when to try it again.

Rules of this file: pure; time is an argument and never falls. Closed: ask. Open: do not ask. After a pause
one probe may be asked, and only one at a time; it closes the circuit, or opens it for twice as long.
"""

from collections import deque

from msgspec import Struct


class Rules(Struct, frozen=True, kw_only=True):
    """When a circuit opens and for how long."""

    failures: int = 2  # in a row, after which it opens
    pause_s: float = 1.0  # before the first probe
    longest_s: float = 60.0  # before any probe
    steady_s: float = 120.0  # closed for this long, it has earned the first pause again


class Breaker:
    """One circuit."""

    def __init__(self, rules: Rules | None = None) -> None:
        """Start closed."""
        self._rules = rules or Rules()
        self._failed = 0  # in a row
        self._pause_s = 0.0  # the one that runs, or the last one
        self._closed_at: float | None = None  # of the last closing
        self._probe_at: float | None = None  # open: when a probe may be asked
        self._probing = False

    @property
    def is_closed(self) -> bool:
        """Whether what is behind it may be asked."""
        return self._probe_at is None

    @property
    def probe_at(self) -> float | None:
        """The instant from which a probe may be asked; None while closed."""
        return self._probe_at

    def probe(self, at: float) -> bool:
        """Return whether a probe may be asked now. One that may has begun, and must be told of."""
        if self._probe_at is None or self._probing or at < self._probe_at:
            return False
        self._probing = True
        return True

    def succeeded(self, at: float) -> None:
        """It answered. Closes the circuit if that was the probe; a straggler changes nothing."""
        if self.is_closed:
            self._failed = 0
        elif self._probing:
            self._failed = 0
            self._probing = False
            self._probe_at = None
            self._closed_at = at

    def failed(self, at: float) -> None:
        """It failed, or was late. A straggler, asked before the circuit opened, changes nothing."""
        if self.is_closed:
            self._failed += 1
            if self._failed >= self._rules.failures:
                self.trip(at)
        elif self._probing:
            self._open(at, self._pause_s * 2)

    def trip(self, at: float) -> None:
        """Open the circuit at once, for a reason the caller knows. Nothing if it is open."""
        if not self.is_closed:
            return
        rules = self._rules
        steady = self._closed_at is None or at - self._closed_at >= rules.steady_s
        self._open(at, rules.pause_s if steady else self._pause_s * 2)

    def _open(self, at: float, pause_s: float) -> None:
        self._probing = False
        self._failed = 0
        self._pause_s = min(self._rules.longest_s, pause_s)
        self._probe_at = at + self._pause_s


class Pace:
    """Whether more than one in a hundred of the last answers was slow: a p99 above the bound."""

    def __init__(self, *, few: int = 20, many: int = 200) -> None:
        """Know nothing.

        Args:
            few: Answers without which nothing can be said.
            many: Answers looked at, the last ones.
        """
        self._few = few
        self._slow: deque[bool] = deque(maxlen=many)

    def add(self, *, slow: bool) -> None:
        """Take one more answer."""
        self._slow.append(slow)

    def clear(self) -> None:
        """Forget all."""
        self._slow.clear()

    @property
    def is_slow(self) -> bool:
        """Whether it is; one slow answer alone never makes it so."""
        return len(self._slow) >= self._few and sum(self._slow) > max(1, len(self._slow) // 100)
