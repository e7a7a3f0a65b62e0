"""Recorded readings: JSON lines, one a second. Pure.

    {"at": 1796079000.0, "readings": [{"name": "tctl", "value": 71.0, ...}, ...]}

`at` is a wall clock for people. A line may be written by hand: of a reading only its name and value are
needed, and what is not on a line is unknown. Whatever a trace says is judged again as if it were read.
"""

import msgspec
from msgspec import Struct

from scheduler.errors import FairlaneError
from scheduler.wire.words import Reading
from workers.sensors.raw import Raw, Reason
from workers.sensors.specs import SPECS
from workers.sensors.validity import Judge

_REASONS = {reason.value: reason for reason in Reason}


class BadTrace(FairlaneError):
    """A file is no trace."""


class Said(Struct):
    """A reading as a line has it."""

    name: str
    value: float | str | None = None
    source: str = ""
    label: str = ""
    reason: str = ""


class Line(Struct):
    """One second."""

    readings: list[Said]
    at: float = 0.0


def parse(text: bytes) -> list[Line]:
    """Return the seconds of a trace.

    Raises:
        BadTrace: A line is no record, or names what is no reading; the message has its number.
    """
    lines: list[Line] = []
    for number, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        try:
            line = msgspec.json.decode(row, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadTrace(f"line {number}: {error}") from error
        strange = next((said.name for said in line.readings if said.name not in SPECS), None)
        if strange is not None:
            raise BadTrace(f"line {number}: there is no reading named {strange!r}")
        lines.append(line)
    if not lines:
        raise BadTrace("it holds no line")
    return lines


class Player:
    """Says again what was recorded, one line a call."""

    is_recorded = True

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self._next = 0
        self._judge = Judge()

    @property
    def counts(self) -> dict[tuple[str, Reason], int]:
        """How often each reading was unknown, by reason."""
        return self._judge.counts

    def collect(self, at: float) -> list[Reading] | None:
        """Return the readings of the next line, as if they were read now; None after the last one."""
        if self._next == len(self._lines):
            return None
        said = {one.name: one for one in self._lines[self._next].readings}
        self._next += 1
        raws = {name: _raw(name, said.get(name)) for name in SPECS}
        watts = raws["socket_power"].value
        self._judge.powered(watts if isinstance(watts, float) else None, at)
        return [self._judge.judge(name, raw, at, at) for name, raw in raws.items()]

    def close(self) -> None:
        """Nothing is held."""


def record(readings: list[Reading], at: float) -> bytes:
    """Return one line of a trace, its end included."""
    return msgspec.json.encode({"at": at, "readings": [full(one) for one in readings]}) + b"\n"


def full(reading: Reading) -> dict[str, object]:
    """Return a reading as JSON has it: all fields, whatever they hold."""
    return msgspec.structs.asdict(reading)


def _raw(name: str, said: Said | None) -> Raw:
    spec = SPECS[name]
    if said is None:
        return Raw(None, spec.source, spec.label, Reason.MISSING)
    source, label = said.source or spec.source, said.label or spec.label
    fault = _REASONS.get(said.reason, Reason.UNREADABLE) if said.reason else None
    return Raw(said.value, source[:128], label[:128], fault, scale=1.0)
