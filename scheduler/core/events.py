"""Everything that can happen to a box. Each event carries `at`, monotonic seconds.

Fields are positional and in this order on purpose: building an event by position costs a third of
building it by keyword, and the two on the hot path (Asked, Finished) are built for every request.
"""

from msgspec import Raw, Struct


class Asked(Struct, frozen=True, gc=False):
    """A client asks. Field meanings: scheduler/wire/messages.py, Ask."""

    at: float
    client: bytes  # route of the peer to answer
    rid: str
    op: str
    name: str
    lane: str
    conversation: str
    starts: bool
    stream: bool
    batch: bool
    expires_at: float
    prompt_bytes: int
    max_tokens: int | None
    tools: bool
    images: bool
    json_schema: bool
    body: bytes


class Cancelled(Struct, frozen=True, gc=False):
    """A client no longer wants an answer."""

    at: float
    client: bytes
    rid: str


class ClientLost(Struct, frozen=True, gc=False):
    """A client cannot be reached any more; all it asked for is cancelled."""

    at: float
    client: bytes


class WorkerReady(Struct, frozen=True, gc=False):
    """A worker offers itself."""

    at: float
    route: bytes
    name: str
    kind: str
    device: str
    pid: int
    pid_started: float
    nonce: str
    seats: int
    backend: str
    slots: int = 0
    by_row: bool = False


class WorkerBeat(Struct, frozen=True, gc=False):
    """A worker lives."""

    at: float
    route: bytes
    epoch: int
    resident: list[str]
    backend: str = ""  # what really computes now; empty: what its READY said


class WorkerLost(Struct, frozen=True, gc=False):
    """A worker is gone: it said so, its route is dead, or its process was seen to end."""

    at: float
    route: bytes
    reason: str


class ProcessEnded(Struct, frozen=True, gc=False):
    """The supervisor saw a process end."""

    at: float
    pid: int


class Decided(Struct, frozen=True, gc=False):
    """A scorer's decision."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    rule: str
    model: str
    class_: str
    confidence: float | None
    scorer_down: bool
    decision: bytes


class Served(Struct, frozen=True, gc=False):
    """A helper has done what a request asked of it."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    status: int
    body: bytes


class Shelved(Struct, frozen=True, gc=False):
    """The store says which user policies there are."""

    at: float
    route: bytes
    epoch: int
    collections: dict[str, str]
    slow: list[str]
    policies: dict[str, Raw]  # passed on unread


class Staged(Struct, frozen=True, gc=False):
    """A running ticket enters a stage on its worker."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    stage: str


class Produced(Struct, frozen=True, gc=False):
    """A piece of a streamed answer."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    seq: int
    load_s: float | None
    body: bytes


class Finished(Struct, frozen=True, gc=False):
    """A ticket's work is over and its seat is free."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    cancelled: bool
    load_s: float | None
    ttft_s: float | None
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    body: bytes


class Failed(Struct, frozen=True, gc=False):
    """A ticket's work ended in an error and its seat is free."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    status: int
    code: str
    message: str
    facts: dict[str, str | int | float | bool | None]


class Ticked(Struct, frozen=True, gc=False):
    """The instant named by `Appliance.next_deadline()` has come."""

    at: float


Event = (
    Asked
    | Cancelled
    | ClientLost
    | WorkerReady
    | WorkerBeat
    | WorkerLost
    | ProcessEnded
    | Decided
    | Served
    | Shelved
    | Staged
    | Produced
    | Finished
    | Failed
    | Ticked
)
