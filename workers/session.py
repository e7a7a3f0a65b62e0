"""A worker's side of the protocol: register, beat, hold leases, say what came of the work.

Rules of this file: pure; time is an argument. `take` turns messages into orders, `stamp` turns outcomes
into messages, `tick` says what is due. What is not held any more cannot be spoken of: `stamp` returns
None for it, so a late result of a withdrawn lease never leaves the process.

Work that is void is not over yet: an engine stops when it can. Until it has, this worker offers itself to
nobody, or a broker that was restarted would grant a seat on which the work of the one before still runs.
"""

from collections.abc import Iterator

from msgspec import Struct

from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.codec import BODY_MAX
from workers.helper import (
    Judgement,
    Pulled,
    PullMoved,
    Reply,
    Sensed,
    Service,
    Shelved,
    Stocked,
)
from workers.job import End, Error, Fact, Job, Outcome, Piece, Stage

JOIN_RETRY_S = 0.25  # a refused or unanswered READY is said again after this long
VOID_S = 5.0  # an engine that has not let go of void work after this long never will
_STOCK_PART = 16  # rows a STOCK: with the longest names and reasons that still fits a header
# Of an error: bytes of its code and message, how many facts, bytes of one. Together they fit a header.
_CODE, _MESSAGE, _FACTS, _FACT = 256, 4096, 16, 512
_BEAT_S = 1.0  # until the broker says otherwise


class Start(Struct, frozen=True):
    """Begin a job."""

    job: Job


class Halt(Struct, frozen=True):
    """Stop a job."""

    lease: int


class Judge(Struct, frozen=True):
    """Decide, validate or register; see the helper of that kind."""

    ticket: int
    expires_at: float
    op: str
    name: str
    lane: str
    body: bytes


class Drop(Struct, frozen=True):
    """Let go of a loaded row."""

    model: str


class Fetch(Struct, frozen=True):
    """Bring a row here; the store only."""

    model: str


class Joined(Struct, frozen=True):
    """The broker took this worker in."""

    epoch: int
    catalogue: bytes


class Changed(Struct, frozen=True):
    """The catalogue changed."""

    catalogue: bytes


class Dismissed(Struct, frozen=True):
    """The broker does not know this worker: all work is void."""

    reason: str


Order = Start | Halt | Drop | Judge | Fetch | Joined | Changed | Dismissed


class _Held(Struct):
    """What a lease is for."""

    ticket: int
    seq: int = 0


class Session:
    """One worker's registration and the leases it holds."""

    def __init__(self, ready: wire.Ready) -> None:
        """Remember how this worker introduces itself."""
        self._ready = ready
        self._epoch: int | None = None
        self._beat_s = _BEAT_S
        self._held: dict[int, _Held] = {}  # lease -> its ticket
        self._void: set[int] = set()  # leases of an earlier registration whose work has not ended
        self._void_at = 0.0  # since when
        self._due_at = 0.0
        self._sizes: dict[str, int] = {}  # as the broker knows them

    @property
    def joined(self) -> bool:
        """Whether the broker knows this worker."""
        return self._epoch is not None

    def is_stuck(self, at: float) -> bool:
        """Return whether void work goes on for so long that only the end of the process ends it."""
        return bool(self._void) and at - self._void_at > VOID_S

    def next_deadline(self) -> float:
        """Return the instant at which `tick` has something to say."""
        return self._due_at

    def hurry(self) -> None:
        """Let the next heartbeat be due at once: what is loaded has changed."""
        if self._epoch is not None:
            self._due_at = 0.0

    def tick(
        self,
        at: float,
        resident: list[str],
        backend: str = "",
        sizes: dict[str, int] | None = None,
    ) -> wire.Message | None:
        """Return what is due: READY until the broker took us in, then BEAT; nothing beside void work.

        Args:
            at: Now.
            resident: Models in memory.
            backend: What really computes now; empty: what READY said.
            sizes: Bytes that rows take when they are loaded, as far as known.
        """
        if at < self._due_at:
            return None
        if self._epoch is None:
            self._due_at = at + JOIN_RETRY_S
            return None if self._void else self._ready
        self._due_at = at + self._beat_s
        changed = {k: n for k, n in (sizes or {}).items() if self._sizes.get(k) != n}
        self._sizes |= changed
        return wire.Beat(self._epoch, resident, backend, changed)

    def take(self, message: wire.Message, body: bytes, at: float) -> Order | None:
        """Return what a message of the broker orders, or None where it orders nothing."""
        match message:
            case wire.Run():
                self._held[message.lease] = _Held(message.ticket)
                order: Order | None = Start(_job(message, body))
            case wire.Decide():
                order = _question(message, body)
            case wire.Unload(model=model):
                order = Drop(model)
            case wire.Fetch(model=model):
                order = Fetch(model)
            case wire.Stop(ticket=ticket, lease=lease):
                held = self._held.get(lease)
                order = Halt(lease) if held and held.ticket == ticket else None
            case wire.Welcome() if message.epoch == self._epoch:
                # it answers a READY that was sent again while nobody listened
                order = Changed(body)
            case wire.Welcome():
                self._epoch, self._beat_s = message.epoch, message.beat_s
                self._due_at, self._sizes = at, {}  # what is loaded is said at once
                order = Joined(message.epoch, body)
            case wire.Catalogue():
                order = Changed(body)
            case wire.Dismiss(reason=reason):
                order = self._dismissed(reason, at)
            case _:
                order = None
        return order

    def _dismissed(self, reason: str, at: float) -> Order:
        was_joined = self._epoch is not None
        self._epoch = None
        if not self._void:
            self._void_at = at
        self._void.update(self._held)
        self._held.clear()
        # a first dismissal is answered at once; one that answers a READY waits its turn
        self._due_at = at if was_joined else at + JOIN_RETRY_S
        return Dismissed(reason)

    def stamp(self, outcome: Outcome) -> tuple[wire.Message, bytes] | None:
        """Return the message that tells an outcome, or None if its lease is not held."""
        held = self._held.get(outcome.lease)
        if outcome.lease in self._void and isinstance(outcome, (End, Error)):
            self._void.remove(outcome.lease)
            if not self._void:
                self._due_at = 0.0  # READY waited for this
        if held is None or self._epoch is None:
            return None
        epoch, ticket, lease = self._epoch, held.ticket, outcome.lease
        match outcome:
            case End():
                del self._held[lease]
                if len(outcome.body) > BODY_MAX:
                    return _failed(_too_long(outcome), epoch, ticket), b""
                return _done(outcome, epoch, ticket), outcome.body
            case Piece(body=body, load_s=load_s):
                held.seq += 1
                return wire.Chunk(epoch, ticket, lease, held.seq, load_s), body
            case Stage(stage=stage):
                named: words.Stage = "load" if stage == "load" else "prefill"
                return wire.Staged(epoch, ticket, lease, named), b""
            case Error():
                del self._held[lease]
                return _failed(outcome, epoch, ticket), b""

    def bye(self) -> wire.Message | None:
        """Return the farewell, if there is anybody to say it to."""
        return wire.Bye(self._epoch) if self._epoch is not None else None

    def said(self, reply: Reply) -> list[tuple[wire.Message, bytes]]:
        """Return the messages that tell a helper's reply; none while the broker knows us not."""
        epoch = self._epoch
        if epoch is None:
            return []
        return list(_told(reply, epoch))


def _told(reply: Reply, epoch: int) -> Iterator[tuple[wire.Message, bytes]]:
    match reply:
        case Judgement():
            yield (
                wire.Decision(
                    epoch, reply.ticket, reply.rule, reply.model, reply.class_,
                    reply.confidence, reply.scorer_down,
                ),
                reply.decision,
            )  # fmt: skip
        case Service():
            yield wire.Served(epoch, reply.ticket, reply.status), reply.body
        case Shelved():
            yield wire.Shelf(epoch), reply.body
        case Sensed():
            yield wire.Sense(epoch, reply.readings), b""
        case Stocked():
            for part in _parts(reply.rows):
                yield wire.Stock(epoch, part), b""
        case PullMoved():
            yield wire.Pulling(epoch, reply.model, reply.done_bytes, reply.total_bytes), b""
        case Pulled():
            message = reply.message[:4096]
            yield wire.Pulled(epoch, reply.model, reply.cause, message, reply.seconds), b""


def _parts(rows: dict[str, words.RowStock]) -> Iterator[dict[str, words.RowStock]]:
    """Yield the rows in parts that a header has room for; one even where there are none."""
    names = list(rows)
    for first in range(0, max(1, len(names)), _STOCK_PART):
        yield {name: rows[name] for name in names[first : first + _STOCK_PART]}


def _done(end: End, epoch: int, ticket: int) -> wire.Done:
    return wire.Done(
        epoch,
        ticket,
        end.lease,
        end.cancelled,
        end.prompt_tokens,
        end.cached_tokens,
        end.output_tokens,
        end.load_s,
        end.ttft_s,
    )


def _too_long(end: End) -> Error:
    """Return what is told instead of a reply that no message holds: it would cost us the connection."""
    text = f"The reply has {len(end.body)} bytes, and at most {BODY_MAX} are handed on; ask for less at once."
    return Error(end.lease, 413, "reply_too_long", text)


def _failed(error: Error, epoch: int, ticket: int) -> wire.Failed:
    """Return the message of an error. Its words may be an engine's own, so they are held to their bounds."""
    facts = {name: _fact(fact) for name, fact in list(error.facts.items())[:_FACTS]}
    code = error.code.encode(errors="replace")[:_CODE].decode(errors="ignore")
    message = error.message.encode(errors="replace")[:_MESSAGE].decode(errors="ignore")
    return wire.Failed(epoch, ticket, error.lease, error.status, code, message, facts)


def _fact(fact: Fact) -> Fact:
    if isinstance(fact, str):
        return fact.encode(errors="replace")[:_FACT].decode(errors="ignore")
    is_huge = isinstance(fact, int) and not -(2**63) <= fact < 2**63
    return None if is_huge else fact


def _job(run: wire.Run, body: bytes) -> Job:
    return Job(run.lease, run.op, run.model, run.stream, run.conversation, body, run.evict)


def _question(asked: wire.Decide, body: bytes) -> Judge:
    return Judge(asked.ticket, asked.expires_at, asked.op, asked.name, asked.lane, body)
