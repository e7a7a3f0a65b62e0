"""The messages of protocol version 1, one Struct a verb.

Rules of this file: a field may be added with a default, never renamed, retyped or removed within a
version; a verb byte is never reused. Bodies are opaque bytes beside these headers. Instants end in
`_at` and are CLOCK_MONOTONIC seconds of the box, which every process on it reads alike; a wall clock
that jumps moves nothing. PROTOCOL.md explains the exchanges; verbs.py is the table it is held to.
"""

from typing import Annotated

from msgspec import Meta, Struct

from scheduler.wire.words import (
    Count,
    Fact,
    Id,
    Judging,
    Kind,
    Name,
    Op,
    PullCause,
    Reading,
    RowStock,
    Seconds,
    Stage,
    Text,
    Timings,
    View,
)  # fmt: skip


class Message(Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of every header; encodes as a MessagePack map without the fields that hold defaults."""


# --- client to broker ------------------------------------------------------------------------------


class Ask(Message, frozen=True, omit_defaults=True, gc=False):
    """Asks for an answer, a decision, a policy's trial or keeping, or a pull. Body: the request's JSON."""

    id: Id  # chosen by the client, unique among its own requests; repeating one resends it
    op: Op
    name: Name  # the model as the client spelled it
    lane: Name
    conversation: Id  # key of the conversation; holds lane and name already
    expires_at: Seconds  # the broker drops the request unanswered after this instant
    starts: bool = True  # no assistant message yet
    stream: bool = False
    batch: bool = False  # priority batch instead of interactive
    prompt_bytes: Count = 0  # UTF-8 length of all text in the request
    max_tokens: Count | None = None
    tools: bool = False
    images: bool = False
    json_schema: bool = False
    for_ticket: Count = 0  # whose decision needs this answer, from a scorer; 0: it is a client's


class Cancel(Message, frozen=True, omit_defaults=True, gc=False):
    """The client is gone or no longer wants the answer."""

    id: Id


class Query(Message, frozen=True, omit_defaults=True, gc=False):
    """Asks for a view: status, models, queue, ...; `story` and `explain` are of the request in `about`."""

    id: Id
    what: View
    about: Name = ""


class Hello(Message, frozen=True, omit_defaults=True, gc=False):
    """Asks who is there; a changed boot number in the reply means the broker was restarted."""


class Exited(Message, frozen=True, omit_defaults=True, gc=False):
    """The supervisor saw a worker process end, or all of an outside holder's process group."""

    pid: Count
    lease: Count = 0  # of the holder whose group it was; 0: a worker's process


class Hold(Message, frozen=True, omit_defaults=True, gc=False):
    """An outside lane asks for a whole device, or says again after a restart what it holds."""

    id: Id  # chosen by the client, unique; the hold's name
    lane: Name
    expires_at: Seconds  # not granted by this instant: refused
    pid: Count  # leader of the process group that will use the device
    pid_started: (
        Seconds  # its start in seconds since the machine's; with the pid it names one process
    )
    pgid: Count = 0  # the group; 0: the hold is no group's, and nothing has to end for it
    device: Name = ""  # "hrx0" or "hrx"; empty: the iGPU, else the first device
    batch: bool = False  # priority batch instead of interactive
    max_hold_s: Seconds = 0.0  # 0: the broker's default
    memory_bytes: Count = 0  # of the box's memory, that the command will take; 0: not said
    what: Name = ""  # the command, for people
    lease: Count = 0  # the lease it holds already, of an earlier start of the broker


class Renew(Message, frozen=True, omit_defaults=True, gc=False):
    """The holder lives; the first one acknowledges the grant."""

    id: Id
    lease: Count


class Release(Message, frozen=True, omit_defaults=True, gc=False):
    """The holder gives the device back, its group has ended; or another client ends its hold."""

    id: Id
    lease: Count


class Supervise(Message, frozen=True, omit_defaults=True, gc=False):
    """The supervisor of the box names itself: it gets the KILLs."""


class Drain(Message, frozen=True, omit_defaults=True, gc=False):
    """Take no new work from now on, or take it again. The answer is HERE."""

    on: bool = True


# --- broker to client ------------------------------------------------------------------------------


class Ack(Message, frozen=True, omit_defaults=True, gc=False):
    """The request is accepted; sent when nothing else says so within 250 ms."""

    id: Id


class Placed(Message, frozen=True, omit_defaults=True, gc=False):
    """A routed request is bound. Body: the policy's Decision JSON."""

    id: Id
    rule: Name
    class_: Name = ""
    confidence: float | None = None
    model: Name = ""
    device: Name = ""
    why: Name = ""
    wanted: Name = ""
    degraded: bool = False
    reason: Name = ""
    decide_ms: float | None = None
    is_open: bool = False  # the device is not final: it waits there first, and is placed once more


class Note(Message, frozen=True, omit_defaults=True, gc=False):
    """Where a waiting request stands."""

    id: Id
    stage: Stage
    position: Count = 0
    eta_s: float | None = None
    model: Name = ""  # pull: the row that is brought
    done_bytes: Count = 0  # pull
    total_bytes: Count | None = None  # pull; nil: not known


class Partial(Message, frozen=True, omit_defaults=True, gc=False):
    """A piece of a streamed answer. Body: one chunk's JSON."""

    id: Id
    seq: Count
    timings: Timings | None = None  # with the first piece


class Final(Message, frozen=True, omit_defaults=True, gc=False):
    """The end of an answer. Body: the whole reply's JSON, empty after a stream."""

    id: Id
    timings: Timings | None = None
    status: Annotated[int, Meta(ge=200, le=499)] = (
        200  # other than 200 only of what a helper served
    )


class Refused(Message, frozen=True, omit_defaults=True, gc=False):
    """The request ends without an answer, or in the middle of one."""

    id: Id
    status: Annotated[int, Meta(ge=400, le=599)]
    code: Name
    message: Text
    facts: Annotated[dict[str, Fact], Meta(max_length=32)] = {}
    retry_after_s: float | None = None
    began: bool = False


class Reply(Message, frozen=True, omit_defaults=True, gc=False):
    """The view a Query asked for. Body: its JSON."""

    id: Id


class Here(Message, frozen=True, omit_defaults=True, gc=False):
    """The broker's boot number, which grows by one at every start."""

    boot: Count


class Granted(Message, frozen=True, omit_defaults=True, gc=False):
    """The device is the holder's, or is still: said at the grant and for each RENEW."""

    id: Id
    lease: Count
    ttl_s: Seconds  # from the RENEW that this answers; at the grant from now, once acknowledged
    max_hold_s: Seconds  # from the grant
    grace_s: Seconds = 5.0  # between SIGTERM and SIGKILL


class Warned(Message, frozen=True, omit_defaults=True, gc=False):
    """The holder's longest time is nearly over."""

    id: Id
    lease: Count
    left_s: Seconds


class Revoked(Message, frozen=True, omit_defaults=True, gc=False):
    """This lease is over: its holder must end its group, and may release."""

    id: Id
    lease: Count
    reason: Text


class Kill(Message, frozen=True, omit_defaults=True, gc=False):
    """To the supervisor: have this process or group end, then say EXITED."""

    id: Id  # name of the hold, or of the worker
    pid: Count
    pid_started: Seconds  # a process of that pid with another start is not touched
    lease: Count = 0  # of the hold; 0: a worker
    pgid: Count = 0  # 0: the process alone
    grace_s: Seconds = 0.0  # from SIGTERM to SIGKILL; 0: SIGKILL at once


# --- worker to broker ------------------------------------------------------------------------------


class Ready(Message, frozen=True, omit_defaults=True, gc=False):
    """A worker can take work; the first thing it says."""

    name: Name
    kind: Kind
    device: Name  # "hrx0", "npu0"; empty for a scorer, which holds no device
    pid: Count
    pid_started: float  # with the pid it names one process, also after the pid is reused
    nonce: Id  # drawn once per process, so a second READY of the same process is told from a twin
    seats: Annotated[int, Meta(ge=1, le=4096)]
    backend: Name  # what really computes, such as "llama.cpp cpu"
    slots: Count = 0  # conversations whose prompt the engine keeps, a row; 0: it keeps none
    by_row: bool = False  # a row has no more seats, and keeps no more prompts, than it has slots
    version: Name = ""  # of the engine; empty: not known


class Beat(Message, frozen=True, omit_defaults=True, gc=False):
    """The worker lives; renews every lease it holds."""

    epoch: Count
    resident: Annotated[list[Name], Meta(max_length=64)] = []
    backend: Name = ""  # what really computes now, where it may change; empty: what READY said
    sizes: Annotated[
        dict[Name, Count], Meta(max_length=1024)
    ] = {}  # bytes a row takes; what changed


class Decision(Message, frozen=True, omit_defaults=True, gc=False):
    """What the policy said. Body: the Decision JSON, which the broker passes on unread."""

    epoch: Count
    ticket: Count
    rule: Name  # "default" when no rule matched
    model: Name
    class_: Name = ""
    confidence: float | None = None
    scorer_down: bool = False  # a classifier failed and the default was used


class Served(Message, frozen=True, omit_defaults=True, gc=False):
    """A helper has done what it was asked (validate, register). Body: the reply's JSON."""

    epoch: Count
    ticket: Count
    status: Annotated[int, Meta(ge=200, le=499)] = 200


class Shelf(Message, frozen=True, omit_defaults=True, gc=False):
    """All user policies the store keeps. Body: the shelf (wire/catalogue.py)."""

    epoch: Count


class Sense(Message, frozen=True, omit_defaults=True, gc=False):
    """What the sensors say, once a second."""

    epoch: Count
    readings: Annotated[list[Reading], Meta(max_length=32)] = []


class Stock(Message, frozen=True, omit_defaults=True, gc=False):
    """Which rows of the table are on disk: all of them at joining, later those that changed."""

    epoch: Count
    rows: Annotated[dict[Name, RowStock], Meta(max_length=32)] = {}


class Pulling(Message, frozen=True, omit_defaults=True, gc=False):
    """How far the pull of a row is; at most a few a second, and none while nothing comes."""

    epoch: Count
    model: Name
    done_bytes: Count = 0  # of all files of the row, those that were here already included
    total_bytes: Count | None = None  # nil: the source has not said


class Pulled(Message, frozen=True, omit_defaults=True, gc=False):
    """The end of a pull that FETCH began, well (no cause) or not."""

    epoch: Count
    model: Name
    cause: PullCause = ""
    message: Text = ""  # for people, where there is a cause
    seconds: Seconds = 0.0


class Staged(Message, frozen=True, omit_defaults=True, gc=False):
    """A ticket enters a stage on the worker."""

    epoch: Count
    ticket: Count
    lease: Count
    stage: Stage


class Chunk(Message, frozen=True, omit_defaults=True, gc=False):
    """A piece of a streamed answer. Body: one chunk's JSON."""

    epoch: Count
    ticket: Count
    lease: Count
    seq: Count
    load_s: float | None = None  # with the first piece, when a model was loaded for it


class Done(Message, frozen=True, omit_defaults=True, gc=False):
    """A ticket's work is over and its seat is free. Body: the reply's JSON unless it was streamed."""

    epoch: Count
    ticket: Count
    lease: Count
    cancelled: bool = False
    prompt_tokens: Count = 0
    cached_tokens: Count = 0
    output_tokens: Count = 0
    load_s: float | None = None
    ttft_s: float | None = None  # from the start of the work to the first token


class Failed(Message, frozen=True, omit_defaults=True, gc=False):
    """A ticket's work ended in an error and its seat is free."""

    epoch: Count
    ticket: Count
    lease: Count
    status: Annotated[int, Meta(ge=400, le=599)]
    code: Name
    message: Text
    facts: Annotated[dict[str, Fact], Meta(max_length=32)] = {}


class Bye(Message, frozen=True, omit_defaults=True, gc=False):
    """The worker leaves."""

    epoch: Count


# --- broker to worker ------------------------------------------------------------------------------


class Welcome(Message, frozen=True, omit_defaults=True, gc=False):
    """The worker is registered. Body: the catalogue (wire/catalogue.py)."""

    epoch: Count
    beat_s: Seconds
    boot: Count


class Decide(Message, frozen=True, omit_defaults=True, gc=False):
    """Evaluate, look at or keep a policy. Body: the request's JSON."""

    ticket: Count
    expires_at: Seconds
    op: Judging = "decide"
    name: Name = ""  # the router collection that was asked for
    lane: Name = ""  # whose work it is, so that model calls are charged to it


class Run(Message, frozen=True, omit_defaults=True, gc=False):
    """A seat is granted: do the work. Body: the request's JSON."""

    ticket: Count
    lease: Count
    op: Op
    model: Name
    stream: bool
    conversation: Id
    evict: Annotated[list[Name], Meta(max_length=64)] = []  # rows to let go of first


class Unload(Message, frozen=True, omit_defaults=True, gc=False):
    """Let go of a loaded row that nobody uses; the next BEAT, sent at once, no longer names it."""

    model: Name


class Fetch(Message, frozen=True, omit_defaults=True, gc=False):
    """To the store: bring this row of the table here, check it, and say PULLED."""

    model: Name


class Stop(Message, frozen=True, omit_defaults=True, gc=False):
    """Stop a ticket's work; the worker still answers with Done(cancelled)."""

    ticket: Count
    lease: Count


class Catalogue(Message, frozen=True, omit_defaults=True, gc=False):
    """The catalogue changed. Body: all of it."""

    version: Count


class Dismiss(Message, frozen=True, omit_defaults=True, gc=False):
    """The broker does not know this worker, or not any more: drop all work, then READY again."""

    reason: Text
