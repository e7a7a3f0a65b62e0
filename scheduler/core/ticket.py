"""A ticket: one request's claim, from the moment it is accepted until it ends exactly once."""

from enum import StrEnum
from math import inf

from msgspec import Struct

from scheduler.core.binding import Binding
from scheduler.core.effects import Place
from scheduler.core.events import Asked
from scheduler.errors import InvariantBroken


class State(StrEnum):
    """Where a ticket is; it is in exactly one place."""

    DECIDING = "deciding"  # the policy has not said yet where it goes
    PULLING = "pulling"  # its row is on its way to this machine
    QUEUED = "queued"  # in its device's fair queue
    RUNNING = "running"  # holds a seat
    DRAINING = (
        "draining"  # its seat is held until the worker lets go, or the outside group has ended
    )
    ENDED = "ended"


# A move that is not here is a bug of ours.
_MOVES: dict[State, frozenset[State]] = {
    State.DECIDING: frozenset({State.PULLING, State.QUEUED, State.ENDED}),
    State.PULLING: frozenset({State.PULLING, State.QUEUED, State.ENDED}),  # for the default as well
    # to another device or row, or to the default's pull
    State.QUEUED: frozenset({State.QUEUED, State.PULLING, State.RUNNING, State.ENDED}),
    State.RUNNING: frozenset({State.QUEUED, State.PULLING, State.DRAINING, State.ENDED}),
    State.DRAINING: frozenset({State.ENDED}),
    State.ENDED: frozenset(),
}


# Where it counts in the bounds of the queue.
WAITING = frozenset({State.DECIDING, State.PULLING, State.QUEUED})

_STORY_MAX = 64  # entries; an ordinary request has five to eight


class Hold(Struct):
    """What the ticket of an outside lane has beside those of requests. Plain values, to be kept as they are.

    The seat belongs to the process group `pgid`; 0: to no group, so that nothing has to end for it.
    `pid` is that group's leader, and with `pid_started` it names one process, also after the pid is
    used again.
    """

    max_hold_s: float
    memory_bytes: int  # what the command will take of the box's memory; 0: not said
    pid: int
    pgid: int
    pid_started: float  # seconds since the machine's start
    what: str  # the command, for people
    acked: bool = False  # the holder has answered the grant
    lease_ends_at: float = 0.0
    warn_at: float = 0.0  # 0: it was warned
    ends_at: float = 0.0  # end of the longest time it may hold
    kill_at: float | None = None  # draining: when the supervisor is told to end the group
    outcome: str = ""  # draining: why it ends
    loaded_before: str = ""  # row that was loaded on the device before

    def due_at(self, *, draining: bool) -> float:
        """Return when something must be done about it, inf where nothing will be."""
        if draining:
            return self.kill_at if self.kill_at is not None else inf
        return min(self.lease_ends_at, self.warn_at or inf, self.ends_at)


class Ticket(Struct):
    """One accepted request. Owned by the core; everything else only reads it.

    A Struct, because one is made for every request and a class's own `__init__` of as many fields
    costs four times as much.
    """

    number: int
    asked: Asked
    lane: str  # the flow it is charged to
    story: list[tuple[float, str, str]]  # (at, what, detail), oldest first
    state: State = State.DECIDING
    model: str = ""  # the row it is bound to
    device: str = ""  # kind of that row's device
    rule: str = ""  # rule that routed it; empty for an explicit name
    why: str = ""
    degraded: str = ""  # why a stand-in answers, a Reason; empty: the wanted row does
    decide_ms: float | None = None  # how long the decision took; None: there was none
    bound: Binding | None = None  # what was decided; None for an explicit name
    worker: bytes = b""  # route of the worker that holds it
    lease: int = 0  # epoch of its grant; 0 while it holds none
    cost_s: float = 0.0  # estimate charged at the grant, device-seconds
    start_tag: float = 0.0  # virtual start of its last grant
    passed_at: float | None = None  # when one of its own lane first took its turn, to save a load
    pooled: int = 0  # so many waited in its line's pool when it was taken from there; see line.py
    guessed_s: float = 0.0  # that estimate without a load
    seats: int = 1  # tickets active on its device at the grant, itself included
    share_at: float = 0.0  # the device's share when it was granted
    attempts: int = 0
    began: bool = False  # part of the answer was delivered
    queued_at: float = 0.0
    granted_at: float = 0.0
    load_s: float | None = None
    pulled: str = ""  # the row it waited for last
    pull_s: float | None = None  # how long it waited for pulls; None: it did not
    pull_until: float = 0.0  # how long it may, an instant; 0: it has not begun
    waits_since: float = 0.0  # pulling: since when
    told_at: float = 0.0  # pulling: when its client was told last
    judge_at: float | None = None  # when on_busy is asked again, if it waits still
    unsaid: Place | None = (
        None  # told at the grant, when its placement is final; until then it is open
    )
    ttft_s: float | None = None
    hold: Hold | None = None  # an outside lane's; None for a request
    is_canary: bool = False  # the core's own: of no lane, in no account, and nobody waits for it
    moved_at: float = 0.0  # when on_busy sent it to the NPU; 0: it did not
    gpu_s: float | None = None  # what the GPU had been expected to take then, its queue included

    def is_routed(self) -> bool:
        """Return whether the policy placed it, so that its answer says so."""
        return self.rule != ""

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
