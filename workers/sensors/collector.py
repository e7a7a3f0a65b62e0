"""All readings of one second: read, guarded and judged. One thread's."""

from pathlib import Path
from typing import NamedTuple

from scheduler.wire.words import Reading
from workers.sensors import chips
from workers.sensors.files import Files
from workers.sensors.guard import DEADLINE_S, Guard
from workers.sensors.raw import Hung, Raw, Reason, Unread
from workers.sensors.smi import NAMES, Smi
from workers.sensors.sources import Clocks, sources
from workers.sensors.specs import SPECS
from workers.sensors.validity import STALE_S, Judge, in_unit


class _Read(NamedTuple):
    """What a source gave last, and when."""

    raw: Raw
    at: float


class Collector:
    """Reads a tree, round by round."""

    is_recorded = False

    def __init__(
        self,
        root: Path,
        smi: Smi | None = None,
        *,
        clocks: Clocks | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Read nothing yet.

        Args:
            root: Where `sys` and `proc` are.
            smi: The second source; None: there is none, as for any tree but the machine's own.
            clocks: As of `sources`; None, too, for any tree but the machine's own.
            deadline_s: Of each file, seconds.
        """
        self._guard = Guard(deadline_s)
        self._files = Files(root, self._guard)
        self._sources = sources(clocks)
        self._smi = smi
        self._last: dict[str, _Read] = {}
        self._judge = Judge()

    @property
    def counts(self) -> dict[tuple[str, Reason], int]:
        """How often each reading was unknown, by reason."""
        return self._judge.counts

    def collect(self, at: float) -> list[Reading]:
        """Return all readings.

        Args:
            at: Now, seconds of a clock that never falls.
        """
        self._files.forget()
        reads = {name: self._read(name, at) for name in SPECS}
        power = reads["socket_power"]
        watts, _ = in_unit("socket_power", SPECS["socket_power"], power.raw)
        self._judge.powered(watts if isinstance(watts, float) and power.at == at else None, at)
        return [self._judge.judge(name, read.raw, read.at, at) for name, read in reads.items()]

    def close(self) -> None:
        """Let go of the threads that are idle, and of the second source."""
        if self._smi is not None:
            self._smi.close()
        self._guard.close()

    def _read(self, name: str, at: float) -> _Read:
        read = self._first_source(name, at)
        is_known = _is_known(name, read.raw) and at - read.at <= STALE_S
        if self._smi is not None and name in NAMES and not is_known:
            read = self._second_source(self._smi, name, read, at)
        self._last[name] = read
        return read

    def _first_source(self, name: str, at: float) -> _Read:
        """Return what the files say; where they hang, what they said last, however old it grows."""
        try:
            return _Read(self._sources[name](self._files, at), at)
        except Unread as error:
            return _Read(_unknown(name, error.reason), at)
        except Hung:
            return self._last.get(name) or _Read(_unknown(name, Reason.STALE), at)

    def _second_source(self, smi: Smi, name: str, first: _Read, at: float) -> _Read:
        try:
            _, slot = chips.card(self._files)
            second = smi.read(name, slot)
        except (Unread, Hung):
            return first
        return _Read(second, at) if _is_known(name, second) else first


def _is_known(name: str, raw: Raw) -> bool:
    _, reason = in_unit(name, SPECS[name], raw)
    return reason is None


def _unknown(name: str, reason: Reason) -> Raw:
    spec = SPECS[name]
    return Raw(None, spec.source, spec.label, reason)
