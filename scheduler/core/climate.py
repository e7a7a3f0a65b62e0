"""What the readings mean for each rule: hot or not, busy from outside or not; the heat hold; the warm-up.

The states themselves are `policies/heat.py` and `policies/load.py`; here they are fed, one per class that
asks, once for each set of readings. Unknown stays unknown: it is neither hot nor cool.
"""

from msgspec import Struct

from policies.heat import Heat, cores_alone, hold_lines, rule_lines
from policies.load import Load
from policies.row import OnBusy
from policies.warmup import Growing
from scheduler.core.limits import Limits
from scheduler.core.senses import Senses

HELD_KIND = "hrx"  # the device that the heat hold spares
_PERCENT = 100.0  # the counter's unit; a rule says a ratio
_ASLEEP_S = 0.5  # two clocks that are read one after the other differ by less


class FrozenClimate(Struct, array_like=True):
    """All states at rest."""

    heats: dict[str, Heat]
    loads: dict[str, Load]
    hold: Heat | None
    resumes: Growing
    resets: Growing


class Climate:
    """Heat and load by class."""

    def __init__(self, rules: dict[str, OnBusy], limits: Limits) -> None:
        lines = {class_: rule_lines(rule) for class_, rule in rules.items()}
        self.heats = {class_: Heat(line) for class_, line in lines.items() if line is not None}
        self.loads = {
            class_: Load(rule.busy_ratio)
            for class_, rule in rules.items()
            if rule.busy_ratio is not None
        }
        hold = hold_lines(limits.stop_tctl_c, limits.resume_tctl_c)
        self.hold = Heat(hold) if hold is not None else None
        self.resumes = Growing(_ASLEEP_S)  # of the box, from suspend
        self.resets = Growing(1.0)  # of the GPU or the NPU

    def feed(self, senses: Senses, at: float, *, held: bool) -> None:
        """Take in the latest readings.

        Args:
            senses: Where they are kept.
            at: Now.
            held: Whether a ticket is held on the GPU.
        """
        self.resumes.feed(at, senses.number("suspended", at))
        self.resets.feed(at, senses.number("resets", at))
        if not (self.heats or self.loads or self.hold):
            return
        tctl = senses.reading("tctl", at)
        tctl_c = None if isinstance(tctl.value, str) else tctl.value
        read_at = at - tctl.age_s  # a value that is said again is no second reading
        socket_w, gfx_w = senses.number("socket_power", at), senses.number("gfx_power", at)
        counts = not cores_alone(socket_w, gfx_w)
        for heat in self.heats.values():
            heat.feed(read_at, tctl_c, counts=counts)
        if self.hold is not None:
            self.hold.feed(read_at, tctl_c)
        percent = senses.number("gpu_busy", at)
        busy = None if percent is None else percent / _PERCENT
        # what hangs is said again with its age: it is one reading, however often it is heard
        old_s = max(senses.reading(name, at).age_s for name in ("gpu_busy", "socket_power"))
        for load in self.loads.values():
            load.feed(at - old_s, busy, socket_w, gfx_w, held=held)

    def is_hot(self, class_: str, at: float) -> bool | None:
        """Return whether it is hot by a class's lines; None: unknown, or not asked."""
        heat = self.heats.get(class_)
        return heat.is_hot(at) if heat is not None else None

    def is_busy(self, class_: str, at: float) -> bool:
        """Return whether somebody outside the queue keeps the GPU busy, by a class's ratio."""
        load = self.loads.get(class_)
        return load is not None and load.is_busy(at)

    def holds(self, kind: str, at: float) -> bool:
        """Return whether a kind of device gets no new grant because it is too hot; unknown holds nothing."""
        return kind == HELD_KIND and self.hold is not None and self.hold.is_hot(at) is True

    def freeze(self) -> FrozenClimate:
        """Return all of it."""
        return FrozenClimate(self.heats, self.loads, self.hold, self.resumes, self.resets)

    def thaw(self, frozen: FrozenClimate) -> None:
        """Become what was frozen; for one of the same rules."""
        self.heats, self.loads, self.hold = frozen.heats, frozen.loads, frozen.hold
        self.resumes, self.resets = frozen.resumes, frozen.resets

    def inherit(self, old: "Climate") -> None:
        """Take over from an earlier broker of the same machine start, as far as the settings are the same.

        What is hot stays so for its time: a restart is no reason to flip.
        """
        self.resumes, self.resets = old.resumes, old.resets
        for class_, heat in self.heats.items():
            before = old.heats.get(class_)
            if before is not None and before.lines == heat.lines:
                self.heats[class_] = before
        for class_, load in self.loads.items():
            seen = old.loads.get(class_)
            if seen is not None and seen.ratio == load.ratio:
                self.loads[class_] = seen
        if self.hold is not None and old.hold is not None and old.hold.lines == self.hold.lines:
            self.hold = old.hold
