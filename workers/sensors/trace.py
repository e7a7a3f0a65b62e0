"""Recorded readings: JSON lines, one a second. Read line by line: a day of them is a quarter of a gigabyte.

    {"at": 1796079000.0, "readings": [{"name": "tctl", "value": 71.0, ...}, ...]}

`at` is a wall clock for people. A line may be written by hand: of a reading only its name and value are
needed, and what is not on a line is unknown. Whatever a trace says is judged again as if it were read. A last
line that was cut - the disk was full, the power went - is passed over.
"""

from collections.abc import Iterator
from itertools import count
from typing import BinaryIO

import msgspec
from msgspec import Struct

from scheduler.errors import FairlaneError
from scheduler.wire.words import Reading
from workers.sensors.raw import Raw, Reason
from workers.sensors.specs import SPECS
from workers.sensors.validity import Judge

_REASONS = {reason.value: reason for reason in Reason}
_LINE_MAX = 1 << 20  # bytes; a line that is recorded has three thousand


class BadTrace(FairlaneError):
    """A file is no trace."""


class Said(Struct):
    """A reading as a line has it."""

    name: str
    value: float | str | None = None
    source: str = ""
    label: str = ""
    valid: bool = True
    reason: str = ""


class Line(Struct):
    """One second."""

    readings: list[Said]
    at: float = 0.0


def parse(file: BinaryIO) -> Iterator[Line]:
    """Yield the seconds of a trace.

    Raises:
        BadTrace: A line is no record, or names what is no reading; the message has its number.
    """
    lines = 0
    for number in count(1):
        row = file.readline(_LINE_MAX)
        if not row:
            break
        if not row.strip():
            continue
        try:
            line = msgspec.json.decode(row, type=Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            is_cut = not row.endswith(b"\n") and len(row) < _LINE_MAX
            if is_cut and lines and not isinstance(error, msgspec.ValidationError):
                break
            raise BadTrace(f"line {number}: {error}") from error
        strange = next((said.name for said in line.readings if said.name not in SPECS), None)
        if strange is not None:
            raise BadTrace(f"line {number}: there is no reading named {strange!r}")
        lines += 1
        yield line
    if not lines:
        raise BadTrace("it holds no line")


class Player:
    """Says again what was recorded, one line a call."""

    is_recorded = True

    def __init__(self, file: BinaryIO) -> None:
        """Take an open trace; it is read as it is played, and closed with this."""
        self._file = file
        self._lines = parse(self._file)
        self._judge = Judge()

    @property
    def counts(self) -> dict[tuple[str, Reason], int]:
        """How often each reading was unknown, by reason."""
        return self._judge.counts

    def collect(self, at: float) -> list[Reading] | None:
        """Return the readings of the next line, as if they were read now; None after the last one.

        Raises:
            BadTrace: It is no line of a trace.
            OSError: It cannot be read.
        """
        line = next(self._lines, None)
        if line is None:
            return None
        said = {one.name: one for one in line.readings}
        raws = {name: _raw(name, said.get(name)) for name in SPECS}
        watts = raws["socket_power"].value
        self._judge.powered(watts if isinstance(watts, float) else None, at)
        return [self._judge.judge(name, raw, at, at) for name, raw in raws.items()]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


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
    is_doubted = said.reason or not said.valid
    fault = _REASONS.get(said.reason, Reason.UNREADABLE) if is_doubted else None
    return Raw(said.value, source, label, fault, scale=1.0)
