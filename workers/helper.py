"""What a helper says: the values between the worker loop and those who decide, validate or keep."""

from msgspec import Struct

from scheduler.wire.messages import Reading


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


Reply = Judgement | Service | Shelved | Sensed
