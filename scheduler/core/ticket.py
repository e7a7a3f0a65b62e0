"""A ticket: one request's claim, from the moment it is accepted until it ends exactly once."""

from enum import StrEnum

from scheduler.core.events import Asked
from scheduler.errors import InvariantBroken


class State(StrEnum):
    """Where a ticket is; it is in exactly one place."""

    DECIDING = "deciding"  # the policy has not said yet where it goes
    QUEUED = "queued"  # in its device's fair queue
    RUNNING = "running"  # holds a seat
    DRAINING = "draining"  # cancelled or refused, its seat held until the worker lets go
    ENDED = "ended"


# A move that is not here is a bug of ours.
_MOVES: dict[State, frozenset[State]] = {
    State.DECIDING: frozenset({State.QUEUED, State.ENDED}),
    State.QUEUED: frozenset({State.RUNNING, State.ENDED}),
    State.RUNNING: frozenset({State.QUEUED, State.DRAINING, State.ENDED}),
    State.DRAINING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


_STORY_MAX = 64  # entries; an ordinary request has five to eight


class Ticket:
    """One accepted request. Owned by the Appliance; everything else only reads it."""

    __slots__ = (
        "asked",
        "attempts",
        "began",
        "cost_s",
        "decided_at",
        "device",
        "granted_at",
        "lane",
        "lease",
        "load_s",
        "model",
        "number",
        "queued_at",
        "rule",
        "share_at",
        "start_tag",
        "state",
        "story",
        "ttft_s",
        "why",
        "worker",
    )

    def __init__(self, number: int, asked: Asked, lane: str) -> None:
        self.number = number
        self.asked = asked
        self.lane = lane  # the flow it is charged to
        self.state = State.DECIDING
        self.model = ""  # the row it is bound to
        self.device = ""  # kind of that row's device
        self.rule = ""  # rule that routed it; empty for an explicit name
        self.why = ""
        self.worker = b""  # route of the worker that holds it
        self.lease = 0  # epoch of its grant; 0 while it holds none
        self.cost_s = 0.0  # estimate charged at the grant, device-seconds
        self.start_tag = 0.0  # virtual start, kept so that a requeued ticket stands where it stood
        self.share_at = 0.0  # the device's share when it was granted
        self.attempts = 0
        self.began = False  # part of the answer was delivered
        self.decided_at = 0.0
        self.queued_at = 0.0
        self.granted_at = 0.0
        self.load_s: float | None = None
        self.ttft_s: float | None = None
        self.story: list[tuple[float, str, str]] = []  # (at, what, detail), oldest first

    def tell(self, at: float, what: str, detail: str = "") -> None:
        """Write into the story, which a talkative worker cannot make endless."""
        if len(self.story) < _STORY_MAX:
            self.story.append((at, what, detail))

    def move(self, to: State, at: float, detail: str = "") -> None:
        """Change the state and write it into the story.

        Raises:
            InvariantBroken: The table of moves does not hold this one.
        """
        if to not in _MOVES[self.state]:
            raise InvariantBroken(f"{self.state} -> {to} of ticket {self.number}: {self.story}")
        self.state = to
        self.story.append((at, to, detail))
