"""Hot or not, without flapping: two lines, two fresh readings, a shortest stay.

Rules of this file: pure; the instant of a reading is an argument. The state is a value of plain fields that
can be written down and read again. One `Heat` serves everybody who asks with the same lines: the rules of
the table, and the heat hold that stops new grants on a device.

    cool -> hot    two readings in a row at or above `on_c`
    hot  -> cool   a reading below `off_c`
    either         not before `min_stay_s` in the state it leaves

A reading that is missing, stale or impossible is unknown, and so is the answer while it is the last one:
neither hot nor cool. What was known before stands by, and goes on with the next good reading.
"""

import msgspec

from policies.row import OnBusy

# One reading can be a spike: a package gains tens of degrees within a second of load.
_SUSTAINED = 2
# Sensors speak once a second; a reading this old tells nothing of now.
FRESH_S = 5.0
# The instant of a reading is known to the delay of a message. Two this near each other are one, said twice,
# as it is by a source that hangs.
APART_S = 0.25
_CLEAR_BELOW_C = 5.0
_RESUME_BELOW_C = 10.0
# An idle GPU draws 0.03 W by its own meter, one that decodes 60.
GPU_IDLE_W = 5.0
# The lowest power limit of such a package: what draws less has not heated it.
_CORES_BUSY_W = 45.0


class Lines(msgspec.Struct, frozen=True, gc=False):
    """Where hot begins and ends.

    Attributes:
        on_c: Hot from here, in degrees Celsius.
        off_c: Cool below here; at most `on_c`.
        min_stay_s: Shortest time in either state once it has been entered, in seconds.
    """

    on_c: float
    off_c: float
    min_stay_s: float = 0.0


def rule_lines(rule: OnBusy) -> Lines | None:
    """Return a rule's lines; `None` where it does not ask for heat."""
    if rule.tctl_c is None:
        return None
    off_c = rule.tctl_c - _CLEAR_BELOW_C if rule.tctl_clear_c is None else rule.tctl_clear_c
    return Lines(rule.tctl_c, off_c, rule.min_stay_s)


def hold_lines(stop_tctl_c: float | None, resume_tctl_c: float | None) -> Lines | None:
    """Return the lines of the heat hold; `None` where there is none.

    A device is held while `Heat.is_hot` says True for these, and for nothing else: with the sensors gone
    the box answers. There is no shortest stay, because a hold may neither begin late nor last longer than
    the heat. Whatever made the heat, it counts: a held device is to spare the package, not to move work.

    Args:
        stop_tctl_c: No new grant from here; `None`: never stopped.
        resume_tctl_c: Grants again below here; `None`: 10 degrees below.
    """
    if stop_tctl_c is None:
        return None
    resume_c = stop_tctl_c - _RESUME_BELOW_C if resume_tctl_c is None else resume_tctl_c
    return Lines(stop_tctl_c, resume_c)


def cores_alone(socket_w: float | None, gfx_w: float | None) -> bool:
    """Return whether the CPU's cores alone make the heat, so that moving work off the GPU cools nothing.

    True only where the split can be read and shows it: the GPU draws next to nothing, and the rest of the
    socket more than a package of this kind draws in its lowest power mode.

    Args:
        socket_w: Power of the whole socket in watts; `None`: unknown.
        gfx_w: Power of the GPU in it in watts; `None`: unknown.
    """
    if socket_w is None or gfx_w is None:
        return False
    return gfx_w < GPU_IDLE_W and socket_w - gfx_w >= _CORES_BUSY_W


class Heat(msgspec.Struct):
    """The state of one sensor between two lines.

    Attributes:
        lines: Where hot begins and ends.
        hot: The state last known.
        since: When it was entered; `None`: it is the first.
        above: Readings in a row at or above `on_c`, counted up to what is needed.
        read_at: When the last reading was made; `None`: there was none.
        known: Whether it was a good one.
    """

    lines: Lines
    hot: bool = False
    since: float | None = None
    above: int = 0
    read_at: float | None = None
    known: bool = False

    def feed(self, read_at: float, tctl_c: float | None, *, counts: bool = True) -> None:
        """Take in one reading; one that is not newer than the last is the same one and changes nothing.

        Args:
            read_at: When it was made, in seconds of the caller's clock: now less its age.
            tctl_c: Degrees Celsius; `None`: unknown.
            counts: Whether its heat counts, see `cores_alone`; one that does not is a cool one.
        """
        if self.read_at is not None and read_at - self.read_at < APART_S:
            return
        if self.read_at is not None and read_at - self.read_at > FRESH_S:
            self.above = 0
        self.read_at, self.known = read_at, tctl_c is not None
        if tctl_c is None:
            self.above = 0
            return
        is_above = counts and tctl_c >= self.lines.on_c
        self.above = min(_SUSTAINED, self.above + 1) if is_above else 0
        if self.since is not None and read_at - self.since < self.lines.min_stay_s:
            return
        is_cool = not counts or tctl_c < self.lines.off_c
        if is_cool if self.hot else self.above >= _SUSTAINED:
            self.hot, self.since = not self.hot, read_at

    def is_hot(self, at: float) -> bool | None:
        """Return whether it is hot now; `None`: unknown."""
        if self.read_at is None or not self.known or at - self.read_at > FRESH_S:
            return None
        return self.hot
