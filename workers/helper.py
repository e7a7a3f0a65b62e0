"""What a helper says: the values between the worker loop and those who decide, validate or keep."""

from msgspec import Struct

from scheduler.wire.words import PullCause, Reading, RowStock


class Judgement(Struct, frozen=True):
    """What the policy said of one request."""

    ticket: int
    rule: str
    model: str
    class_: str
    confidence: float | None
    scorer_down: bool
    decision: bytes  # the Decision JSON


class Service(Struct, frozen=True):
    """A reply that goes to the client as it is."""

    ticket: int
    status: int
    body: bytes


class Shelved(Struct, frozen=True):
    """All user policies the store keeps; the body is the wire's shelf."""

    body: bytes


class Sensed(Struct, frozen=True):
    """What the sensors tell now."""

    readings: list[Reading]


class Stocked(Struct, frozen=True):
    """Which rows are on disk: all of them at joining, then those that changed."""

    rows: dict[str, RowStock]


class PullMoved(Struct, frozen=True):
    """How far the pull of a row is."""

    model: str
    done_bytes: int
    total_bytes: int | None  # None: the source has not said


class Pulled(Struct, frozen=True):
    """A pull has ended."""

    model: str
    cause: PullCause
    message: str
    seconds: float


Reply = Judgement | Service | Shelved | Sensed | Stocked | PullMoved | Pulled
