"""Keeping work away from an NPU that has crashed, and finding out whether it works again.

Rules of this file: pure; time is an argument and never falls; the state is a value of plain fields.

    open         anybody may use it
    shut         nobody: ten minutes after the first crash, twice as long after each further one
    half open    one request may try; it opens the device, or shuts it for twice as long

A crash within `STEADY_S` of an opening doubles on, so a device that survives every probe and crashes on the
next request is not tried every ten minutes for ever. Crashes of a shut device change nothing: one death of
a worker is told once for each request it held.
"""

import msgspec

FIRST_S = 600.0
LONGEST_S = 6 * 3600.0
# Open for this long, it has earned the first pause again.
STEADY_S = 3600.0
# A probe of which nothing is heard for longer than a request may run has told nothing.
PROBE_S = 900.0


class Quarantine(msgspec.Struct):
    """One device's state.

    Attributes:
        crashes: How often it was shut, in all.
        pause_s: How long it was shut last, in seconds; 0: never.
        until: Shut until then, half open from then on; `None`: open.
        opened_at: When it was opened last; `None`: it has been open from the start.
        probe: Number of the ticket that tries it; `None`: nobody does.
        probe_until: Until when that is waited for.
    """

    crashes: int = 0
    pause_s: float = 0.0
    until: float | None = None
    opened_at: float | None = None
    probe: int | None = None
    probe_until: float = 0.0

    def bars(self, at: float) -> bool:
        """Return whether the next request must stay away; false also where it may be the probe."""
        if self.until is None:
            return False
        return at < self.until or (self.probe is not None and at < self.probe_until)

    def enter(self, at: float, ticket: int) -> None:
        """A request goes to the device, which `bars` has allowed. On a half open one it is the probe."""
        if self.until is not None and not self.bars(at):
            self.probe, self.probe_until = ticket, at + PROBE_S

    def served(self, at: float, ticket: int) -> None:
        """A request has had its answer. The probe's opens the device."""
        if self.probe == ticket:
            self.until, self.probe, self.opened_at = None, None, at

    def left(self, ticket: int) -> None:
        """A request has ended in a way that says nothing of the device; the next one may be the probe."""
        if self.probe == ticket:
            self.probe = None

    def crashed(self, at: float, ticket: int | None = None) -> None:
        """The device's worker died.

        Args:
            at: Now.
            ticket: A request it had in hand; `None`: none, or it is not known.
        """
        if self.until is None:
            steady = self.opened_at is None or at - self.opened_at >= STEADY_S
            self._shut(at, FIRST_S if steady else self.pause_s * 2)
        elif self.probe is not None and ticket in {None, self.probe}:
            self._shut(at, self.pause_s * 2)

    def _shut(self, at: float, pause_s: float) -> None:
        self.crashes += 1
        self.pause_s = min(pause_s, LONGEST_S)
        self.until, self.probe = at + self.pause_s, None
