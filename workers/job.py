"""One piece of device work, and what can come of it. Values only."""

from msgspec import Struct

Fact = str | int | float | bool | None


class Job(Struct, frozen=True):
    """Work under a lease, which is its name: a ticket may be run twice, a lease is granted once."""

    lease: int
    op: str  # see workers.upstream.paths; the in-process engine knows chat, completion and embed
    model: str
    stream: bool
    conversation: str
    body: bytes  # the request's JSON
    evict: list[str] = []  # rows to let go of before this one is loaded


class Stage(Struct, frozen=True):
    """The job entered a stage: load or prefill."""

    lease: int
    stage: str


class Piece(Struct, frozen=True):
    """A chunk of a streamed answer: the data of one server-sent event."""

    lease: int
    body: bytes
    load_s: float | None = None
    event: str = ""  # the event's name, where the engine gives it one: responses and messages do


class End(Struct, frozen=True):
    """The job is over; `body` is the whole reply unless it was streamed."""

    lease: int
    body: bytes = b""
    cancelled: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    load_s: float | None = None
    ttft_s: float | None = None


class Error(Struct, frozen=True):
    """The job failed; status and code are what HTTP will say."""

    lease: int
    status: int
    code: str
    message: str
    facts: dict[str, Fact] = {}


class Unloaded(Struct, frozen=True):
    """A row was let go of."""

    model: str


Outcome = Stage | Piece | End | Error


class JobError(Exception):
    """Raised inside an engine to end a job with a status and a code."""

    def __init__(
        self, status: int, code: str, message: str, facts: dict[str, Fact] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.facts = facts or {}
