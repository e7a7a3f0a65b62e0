"""Who held which device lately: what a request waited for is looked up here when somebody asks.

Rules of this file: one short record a release and nothing at a request's way in, because every request
pays for what is written and hardly one is ever asked about. Plain tuples, so that they can be written down.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

Record = tuple[str, str, str, str, float, float, float | None]  # the fields of Hold, in order


class Hold(Struct, frozen=True):
    """One ticket's time on a seat."""

    device: str
    request: str
    lane: str
    model: str
    granted_at: float
    ended_at: float  # inf while it still holds
    load_s: float | None  # None: nothing was loaded for it, or not known yet


class Holds:
    """The latest holds that ended, in the order of their ends."""

    __slots__ = ("records",)

    def __init__(self, keep: int) -> None:
        self.records: deque[Record] = deque(maxlen=keep)

    def keep(self, record: Record) -> None:
        """Keep a hold that ended now."""
        self.records.append(record)

    def freeze(self) -> list[Record]:
        """Return all of them, oldest end first."""
        return list(self.records)

    def thaw(self, frozen: list[Record]) -> None:
        """Become what was frozen; for an empty one."""
        self.records.extend(frozen)

    def inherit(self, old: "Holds", shift_s: float) -> None:
        """Take over from an earlier start of the broker, within the bound in force now."""
        for *who, granted_at, ended_at, load_s in old.records:
            device, request, lane, model = who
            times = (granted_at + shift_s, ended_at + shift_s, load_s)
            self.records.append((device, request, lane, model, *times))

    def on(self, device: str, since: float, until: float) -> Iterator[Hold]:
        """Yield the kept holds of a device that overlap a time, oldest end first."""
        for record in self.records:
            if record[0] == device and record[5] > since and record[4] < until:
                yield Hold(*record)

    def reach_back_to(self, at: float) -> bool:
        """Return whether every hold that ended after an instant is still kept."""
        records = self.records
        return len(records) < (records.maxlen or 0) or records[0][5] <= at
