"""The seam between the scorer's loop and what evaluates policies. Values only."""

from typing import Protocol

from msgspec import Struct

from workers.session import Judge


class Judgement(Struct, frozen=True):
    """What the policy said of one request."""

    rule: str
    model: str
    class_: str
    confidence: float | None
    scorer_down: bool
    decision: bytes  # the Decision JSON


class Judging(Protocol):
    """Evaluates policies."""

    def decide(self, question: Judge) -> Judgement | None:
        """Return the judgement, or None when it would come too late."""
        ...
