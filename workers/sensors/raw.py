"""What a source hands over before anybody judged it."""

from enum import StrEnum

from msgspec import Struct

from scheduler.errors import FairlaneError

ALL_ONES = frozenset({2**32 - 1, 2**64 - 1})  # how a driver says that it has no value


class Reason(StrEnum):
    """Why a reading is unknown. The set is closed, so that counting by reason is bounded."""

    MISSING = "missing"  # no such chip, file or field here
    UNREADABLE = "unreadable"  # there, and it gives an error or no number
    DENIED = "permission denied"
    ASLEEP = "asleep"  # reading it would wake the device
    ZERO = "zero"
    SENTINEL = "65535"
    ALL_ONES = "all ones"
    TOO_HOT = "above 125 C"
    OUT_OF_RANGE = "out of range"
    FROZEN = "frozen"
    STALE = "stale"
    UNLABELLED = "unlabelled"
    WRONG_CHIP = "wrong chip"
    WRONG_SIZE = "wrong size"  # of a gpu_metrics table
    UNKNOWN_REVISION = "unknown revision"  # of a gpu_metrics table


class Unread(FairlaneError):
    """There is no value, for a reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Hung(Exception):
    """A file or a driver call does not come back; what it last gave grows old."""


class Raw(Struct, frozen=True):
    """One value as its source gives it: in raw steps of its spec, or none, with the reason."""

    value: int | float | str | None
    source: str
    label: str = ""
    fault: Reason | None = None
    scale: float | None = None  # unit per raw step, where the source counts otherwise than the spec
