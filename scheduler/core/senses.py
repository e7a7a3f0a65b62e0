"""What the sensors said last. It keeps readings and decides nothing on them.

Rules of this file: what is not known is None, never 0; who asks for a reading gets its age with it, and an
old one is no reading. Whether a value can be true is judged where it is read (workers/sensors/validity.py).
"""

import math

from msgspec import Struct, structs

from scheduler.core.events import Reading

STALE_S = 5.0  # a reading older than this tells nothing of now
_DOUBTS_MAX = 256  # (name, reason) pairs that are counted

# The readings that a decision may rest on, and so the only ones the journal keeps of each second.
DECIDING = frozenset(
    {
        "tctl",
        "gpu_busy",
        "gpu_edge",
        "socket_power",
        "gfx_power",
        "npu_power",
        "npu_state",
        "uptime",
        "kernel",
        "npu_firmware",
        "npu_driver",
        "suspended",
        "resets",
    }
)


class FrozenSenses(Struct, frozen=True, array_like=True):
    """What a decision may rest on, at rest; the rest is a second old at the next word of the sensors."""

    readings: list[Reading]
    at: float


class Senses:
    """The latest readings by name."""

    def __init__(self) -> None:
        self.latest: dict[str, Reading] = {}
        self.at = 0.0  # when they were received
        self.doubts: dict[str, int] = {}  # "name reason" -> how often it was unknown for that

    def take(self, readings: list[Reading], at: float) -> None:
        """Take in what the sensors say now; what they no longer speak of is forgotten."""
        self.latest = {reading.name: _sound(reading) for reading in readings}
        self.at = at
        for reading in self.latest.values():
            if not reading.valid:
                doubt = f"{reading.name} {reading.reason}"
                if doubt in self.doubts or len(self.doubts) < _DOUBTS_MAX:
                    self.doubts[doubt] = self.doubts.get(doubt, 0) + 1

    def reading(self, name: str, at: float) -> Reading:
        """Return a reading with its age as of now, unknown where it is too old or was never made."""
        said = self.latest.get(name)
        if said is None:
            return Reading(name, None, "", "", "", 0.0, False, "missing")
        age_s = said.age_s + max(0.0, at - self.at)
        if said.valid and age_s > STALE_S:
            return structs.replace(said, value=None, age_s=age_s, valid=False, reason="stale")
        return structs.replace(said, age_s=age_s)

    def number(self, name: str, at: float) -> float | None:
        """Return the value of a reading that is valid now and a number, else None."""
        value = self.reading(name, at).value
        return None if isinstance(value, str) else value

    def word(self, name: str) -> str:
        """Return the last value of a reading that is a word, however old; empty: unknown."""
        said = self.latest.get(name)
        return said.value if said is not None and isinstance(said.value, str) else ""

    def view(self, at: float) -> dict[str, object]:
        """Return what status shows."""
        readings = [self.reading(name, at) for name in self.latest]
        return {
            "readings": [{**structs.asdict(one), "age_s": round(one.age_s, 3)} for one in readings],
            "doubts": dict(sorted(self.doubts.items())),
        }

    def freeze(self) -> FrozenSenses:
        """Return what a decision may rest on."""
        return FrozenSenses(deciding(list(self.latest.values())), self.at)

    def thaw(self, frozen: FrozenSenses) -> None:
        """Become what was frozen."""
        self.latest = {reading.name: reading for reading in frozen.readings}
        self.at = frozen.at


def deciding(readings: list[Reading]) -> list[Reading]:
    """Return what a decision may rest on, without the words that only people read."""
    return [
        structs.replace(one, unit="", source="", label="")
        for one in readings
        if one.name in DECIDING
    ]


def _sound(said: Reading) -> Reading:
    """Return a reading whose value and validity agree, whatever its sender made of them."""
    if not said.valid:
        return said if said.value is None else structs.replace(said, value=None)
    if said.value is None:
        return structs.replace(said, valid=False, reason="missing")
    if isinstance(said.value, float) and not math.isfinite(said.value):
        return structs.replace(said, value=None, valid=False, reason="no number")
    return said
