"""Everything the shell can be told to do, in the order it is told."""

from msgspec import Raw, Struct

Fact = str | int | float | bool | None


class Acknowledge(Struct, frozen=True, gc=False):
    """Tell a client that its request is accepted."""

    client: bytes
    rid: str


class Place(Struct, frozen=True, gc=False):
    """Tell a client where its routed request is bound."""

    client: bytes
    rid: str
    rule: str
    class_: str
    confidence: float | None
    model: str
    device: str
    why: str
    wanted: str
    degraded: str
    decide_ms: float | None
    decision: bytes
    is_open: bool = False  # it may still move: where it does or does not is told once more


class Tell(Struct, frozen=True, gc=False):
    """Tell a client where its request stands."""

    client: bytes
    rid: str
    stage: str
    position: int
    eta_s: float | None
    model: str = ""  # these three of a pull
    done: int = 0  # bytes
    total: int | None = None  # bytes; None: not known


class Relay(Struct, frozen=True, gc=False):
    """Pass a piece of an answer on. The times come with the first piece, in milliseconds."""

    client: bytes
    rid: str
    seq: int
    queue_ms: float | None
    load_ms: float | None
    ttft_ms: float | None
    body: bytes
    is_first: bool = False  # of its answer; any other one changed nothing in the core
    pull_ms: float | None = None


class Answer(Struct, frozen=True, gc=False):
    """End a request well."""

    client: bytes
    rid: str
    queue_ms: float | None
    load_ms: float | None
    ttft_ms: float | None
    body: bytes
    status: int = 200
    pull_ms: float | None = None


class Refuse(Struct, frozen=True, gc=False):
    """End a request without its (whole) answer. Never raised: a refusal is a value."""

    client: bytes
    rid: str
    status: int
    code: str
    message: str
    facts: dict[str, Fact]
    retry_after_s: float | None
    began: bool


class Grant(Struct, frozen=True, gc=False):
    """Tell an outside holder that the device is its own, or is still."""

    client: bytes
    rid: str
    lease: int
    ttl_s: float
    max_hold_s: float
    grace_s: float


class Warn(Struct, frozen=True, gc=False):
    """Tell an outside holder that its time is nearly over."""

    client: bytes
    rid: str
    lease: int
    left_s: float


class Revoke(Struct, frozen=True, gc=False):
    """Tell an outside holder that its lease is over."""

    client: bytes
    rid: str
    lease: int
    reason: str


class Kill(Struct, frozen=True, gc=False):
    """Have a process, or a whole group, end: SIGTERM, and SIGKILL after the grace."""

    supervisor: bytes  # empty: none named itself, the broker's own process has to do it
    rid: str
    lease: int  # 0: a worker's process
    pid: int
    pgid: int  # 0: the process alone
    pid_started: float
    grace_s: float  # 0: SIGKILL at once


class Dispatch(Struct, frozen=True, gc=False):
    """Grant a seat."""

    worker: bytes
    ticket: int
    lease: int
    op: str
    model: str
    stream: bool
    conversation: str
    body: bytes
    evict: list[str] = []  # rows that must leave the engine first


class AskHelper(Struct, frozen=True, gc=False):
    """Have a scorer or the store decide, validate or register."""

    worker: bytes
    ticket: int
    expires_at: float
    op: str
    name: str
    lane: str
    body: bytes


class Probe(Struct, frozen=True, gc=False):
    """Find out whether a client that waits for answers is still there."""

    client: bytes


class Publish(Struct, frozen=True, gc=False):
    """Take these policies into the catalogue and send it to these workers."""

    workers: list[bytes]
    version: int
    policies: dict[str, Raw]


class Unload(Struct, frozen=True, gc=False):
    """Have a worker let go of a loaded row that nobody uses."""

    worker: bytes
    model: str


class Fetch(Struct, frozen=True, gc=False):
    """Have the store bring a row here."""

    store: bytes
    model: str


class Halt(Struct, frozen=True, gc=False):
    """Have a worker stop a ticket's work."""

    worker: bytes
    ticket: int
    lease: int


class Admit(Struct, frozen=True, gc=False):
    """Tell a worker that it is registered."""

    worker: bytes
    epoch: int


class Expel(Struct, frozen=True, gc=False):
    """Tell a worker that it is not, or no longer, registered."""

    worker: bytes
    reason: str


class Ended(Struct, frozen=True, gc=False, rename={"class_": "class"}):
    """A request ended: the one log record it gets, all facts on it. Times in seconds."""

    request: str
    lane: str
    op: str
    model: str
    device: str
    rule: str
    why: str
    degraded: str
    outcome: str
    waited_s: float
    ran_s: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    instance: str = ""  # whose seat it held last, such as hrx0; empty: none. `device` is the kind
    class_: str = ""
    wanted: str = ""  # the rule whose row another one stood in for
    pulled_s: float | None = None  # waited for pulls, part of waited_s; None: it did not
    loaded_s: float | None = (
        None  # its row was loaded for it, part of what it ran; None: it was not
    )


class Record(Struct, frozen=True, gc=False):
    """Write one log record about a worker or a device."""

    action: str
    fields: dict[str, Fact]


Effect = (
    Acknowledge
    | Place
    | Tell
    | Relay
    | Answer
    | Refuse
    | Grant
    | Warn
    | Revoke
    | Kill
    | Dispatch
    | AskHelper
    | Probe
    | Publish
    | Unload
    | Fetch
    | Halt
    | Admit
    | Expel
    | Ended
    | Record
)
