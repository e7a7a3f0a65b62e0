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

    def on(self, device: str, since: float, until: float) -> Iterator[Hold]:
        """Yield the kept holds of a device that overlap a time, oldest end first."""
        for record in self.records:
            if record[0] == device and record[5] > since and record[4] < until:
                yield Hold(*record)

    def reach_back_to(self, at: float) -> bool:
        """Return whether every hold that ended after an instant is still kept."""
        records = self.records
        return len(records) < (records.maxlen or 0) or records[0][5] <= at
