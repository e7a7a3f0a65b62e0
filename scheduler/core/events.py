"""Everything that can happen to a box. Each event carries `at`, monotonic seconds.

Fields are positional and in this order on purpose: building an event by position costs a third of
building it by keyword, and the two on the hot path (Asked, Finished) are built for every request.
The journal keeps events as arrays, so a field added, moved or retyped makes another format of it; the
format finds that out by itself.
"""

from msgspec import Raw, Struct

from scheduler.core.catalogue import Catalogue
from scheduler.core.limits import Limits, Npu


class Happening(Struct, frozen=True, gc=False, array_like=True, tag=True):
    """Base of every event: what the journal needs to write it and to read it back."""


class Asked(Happening, frozen=True, gc=False):
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
    for_ticket: int = 0


class HoldAsked(Happening, frozen=True, gc=False):
    """An outside lane asks for a device, or says again what it holds. Fields: messages.py, Hold."""

    at: float
    client: bytes
    rid: str
    lane: str
    device: str
    batch: bool
    expires_at: float
    max_hold_s: float
    memory_bytes: int
    pid: int
    pgid: int
    pid_started: float
    what: str
    lease: int


class WorkerKept(Happening, frozen=True, gc=False):
    """A device worker of the time before the broker's restart, whose process lives and may still compute.

    It offers itself again when that has ended; until then, or until its end, nobody has the device.
    """

    at: float
    name: str
    device: str
    pid: int
    pid_started: float


class HoldKept(Happening, frozen=True, gc=False):
    """A hold of the time before the broker's restart, whose process group lives.

    Its holder says so itself within a lease, or the group is ended; until then nobody else has the device.
    """

    at: float
    rid: str
    lane: str
    device: str
    batch: bool
    lease: int  # as it was granted; good until the holder comes and gets another
    max_hold_s: float
    memory_bytes: int
    pid: int
    pgid: int
    pid_started: float
    what: str
    held_s: float  # how long it has held by now


class Renewed(Happening, frozen=True, gc=False):
    """An outside holder lives; the first of these acknowledges the grant."""

    at: float
    client: bytes
    rid: str
    lease: int


class Released(Happening, frozen=True, gc=False):
    """An outside holder gives its device back, all of its group has ended; or somebody else ends its hold."""

    at: float
    client: bytes
    rid: str
    lease: int


class Supervised(Happening, frozen=True, gc=False):
    """The supervisor of this box names itself: it ends what must be ended."""

    at: float
    client: bytes


class DrainAsked(Happening, frozen=True, gc=False):
    """The box is to take no new work, or to take it again."""

    at: float
    client: bytes
    on: bool


class Cancelled(Happening, frozen=True, gc=False):
    """A client no longer wants an answer."""

    at: float
    client: bytes
    rid: str


class ClientLost(Happening, frozen=True, gc=False):
    """A client cannot be reached any more; all it asked for is cancelled."""

    at: float
    client: bytes


class WorkerReady(Happening, frozen=True, gc=False):
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
    version: str = ""  # of its engine; empty: not known


class WorkerBeat(Happening, frozen=True, gc=False):
    """A worker lives."""

    at: float
    route: bytes
    epoch: int
    resident: list[str]
    backend: str = ""  # what really computes now; empty: what its READY said
    sizes: dict[str, int] = {}  # bytes that rows take, those that changed


class WorkerLost(Happening, frozen=True, gc=False):
    """A worker is gone: it said so, its route is dead, or its process was seen to end."""

    at: float
    route: bytes
    reason: str


class ProcessEnded(Happening, frozen=True, gc=False):
    """The supervisor saw a process end, or the whole process group of an outside holder."""

    at: float
    pid: int
    lease: int = 0  # of the holder whose group it was; 0: a worker's process


class Decided(Happening, frozen=True, gc=False):
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


class Served(Happening, frozen=True, gc=False):
    """A helper has done what a request asked of it."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    status: int
    body: bytes


class Shelved(Happening, frozen=True, gc=False):
    """The store says which user policies there are."""

    at: float
    route: bytes
    epoch: int
    collections: dict[str, str]
    slow: list[str]
    policies: dict[str, Raw]  # passed on unread


class Reading(Struct, frozen=True, gc=False, array_like=True):
    """One sensor at one instant. Fields: scheduler/wire/messages.py, Reading."""

    name: str
    value: float | str | None  # None exactly where it is not valid
    unit: str
    source: str
    label: str
    age_s: float
    valid: bool
    reason: str


class Sensed(Happening, frozen=True, gc=False):
    """The sensors say what they read, once a second."""

    at: float
    route: bytes
    epoch: int
    readings: list[Reading]


class RowStock(Struct, frozen=True, gc=False, array_like=True):
    """Whether a row is on disk. Fields: scheduler/wire/messages.py, RowStock."""

    state: str
    reason: str = ""
    bytes: int = 0


class Stocked(Happening, frozen=True, gc=False):
    """The store says which rows are on disk: all of them when it joins, then those that changed."""

    at: float
    route: bytes
    epoch: int
    rows: dict[str, RowStock]


class PullMoved(Happening, frozen=True, gc=False):
    """A pull has come so far."""

    at: float
    route: bytes
    epoch: int
    model: str
    done: int  # bytes
    total: int | None  # bytes; None: not known


class Pulled(Happening, frozen=True, gc=False):
    """A pull has ended: well, or with a cause."""

    at: float
    route: bytes
    epoch: int
    model: str
    cause: str
    message: str
    seconds: float


class Staged(Happening, frozen=True, gc=False):
    """A running ticket enters a stage on its worker."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    stage: str


class Produced(Happening, frozen=True, gc=False):
    """A piece of a streamed answer."""

    at: float
    route: bytes
    epoch: int
    ticket: int
    lease: int
    seq: int
    load_s: float | None
    body: bytes


class Finished(Happening, frozen=True, gc=False):
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


class Failed(Happening, frozen=True, gc=False):
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


class Restarted(Happening, frozen=True, gc=False):
    """The first event of a broker that goes on from what an earlier one left behind."""

    at: float
    boot: int  # larger than the earlier one's
    same_kernel: bool  # the machine was not started in between: processes may still be there
    shift_s: float  # what to add to an instant of the earlier clock to get one of this clock
    catalogue: Catalogue  # the settings in force now
    limits: Limits
    weights: dict[str, float]
    memory: int | None = None  # bytes that loaded rows and outside lanes may take together
    npu: Npu = Npu()


class Ticked(Happening, frozen=True, gc=False):
    """The instant named by `Appliance.next_deadline()` has come."""

    at: float


Event = (
    Asked
    | HoldAsked
    | HoldKept
    | WorkerKept
    | Renewed
    | Released
    | Supervised
    | DrainAsked
    | Cancelled
    | ClientLost
    | WorkerReady
    | WorkerBeat
    | WorkerLost
    | ProcessEnded
    | Decided
    | Served
    | Shelved
    | Sensed
    | Stocked
    | PullMoved
    | Pulled
    | Staged
    | Produced
    | Finished
    | Failed
    | Restarted
    | Ticked
)
