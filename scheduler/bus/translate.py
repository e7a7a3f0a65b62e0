"""Messages to events, effects to messages. Pure: the one place that knows both the wire and the core."""

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.core import effects, events
from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.catalogue import read_shelf


def _asked(m: wire.Ask, at: float, route: bytes, body: bytes) -> events.Asked:
    return events.Asked(
        at, route, m.id, m.op, m.name, m.lane, m.conversation, m.starts, m.stream, m.batch,
        m.expires_at, m.prompt_bytes, m.max_tokens, m.tools, m.images, m.json_schema, body,
        m.for_ticket,
    )  # fmt: skip


def _hold(m: wire.Hold, at: float, route: bytes, _body: bytes) -> events.HoldAsked:
    return events.HoldAsked(
        at, route, m.id, m.lane, m.device, m.batch, m.expires_at, m.max_hold_s, m.memory_bytes,
        m.pid, m.pgid, m.pid_started, m.what, m.lease,
    )  # fmt: skip


def _ready(m: wire.Ready, at: float, route: bytes, _body: bytes) -> events.WorkerReady:
    return events.WorkerReady(
        at, route, m.name, m.kind, m.device, m.pid, m.pid_started, m.nonce, m.seats, m.backend,
        m.slots, m.by_row, m.version,
    )  # fmt: skip


def _decided(m: wire.Decision, at: float, route: bytes, body: bytes) -> events.Decided:
    return events.Decided(
        at, route, m.epoch, m.ticket, m.rule, m.model, m.class_, m.confidence, m.scorer_down, body
    )


def _served(m: wire.Served, at: float, route: bytes, body: bytes) -> events.Served:
    return events.Served(at, route, m.epoch, m.ticket, m.status, body)


def _shelved(m: wire.Shelf, at: float, route: bytes, body: bytes) -> events.Shelved:
    shelf = read_shelf(body)
    return events.Shelved(at, route, m.epoch, shelf.collections, shelf.slow, shelf.policies)


def _sensed(m: wire.Sense, at: float, route: bytes, _body: bytes) -> events.Sensed:
    readings = [
        events.Reading(r.name, r.value, r.unit, r.source, r.label, r.age_s, r.valid, r.reason)
        for r in m.readings
    ]
    return events.Sensed(at, route, m.epoch, readings)


def _stocked(m: wire.Stock, at: float, route: bytes, _body: bytes) -> events.Stocked:
    rows = {name: events.RowStock(r.state, r.reason, r.bytes) for name, r in m.rows.items()}
    return events.Stocked(at, route, m.epoch, rows)


def _produced(m: wire.Chunk, at: float, route: bytes, body: bytes) -> events.Produced:
    return events.Produced(at, route, m.epoch, m.ticket, m.lease, m.seq, m.load_s, body)


def _finished(m: wire.Done, at: float, route: bytes, body: bytes) -> events.Finished:
    return events.Finished(
        at, route, m.epoch, m.ticket, m.lease, m.cancelled, m.load_s, m.ttft_s,
        m.prompt_tokens, m.cached_tokens, m.output_tokens, body,
    )  # fmt: skip


def _failed(m: wire.Failed, at: float, route: bytes, _body: bytes) -> events.Failed:
    return events.Failed(
        at, route, m.epoch, m.ticket, m.lease, m.status, m.code, m.message, m.facts
    )


# One row a verb: message class -> (message, at, route, body) -> event. Query and Hello ask for a view
# and change nothing, so the broker answers them itself.
TO_EVENT: dict[type[wire.Message], Callable[[Any, float, bytes, bytes], events.Event]] = {
    wire.Ask: _asked,
    wire.Cancel: lambda m, at, route, _: events.Cancelled(at, route, m.id),
    wire.Exited: lambda m, at, _route, _body: events.ProcessEnded(at, m.pid, m.lease),
    wire.Hold: _hold,
    wire.Renew: lambda m, at, route, _: events.Renewed(at, route, m.id, m.lease),
    wire.Release: lambda m, at, route, _: events.Released(at, route, m.id, m.lease),
    wire.Supervise: lambda _m, at, route, _body: events.Supervised(at, route),
    wire.Drain: lambda m, at, route, _: events.DrainAsked(at, route, m.on),
    wire.Ready: _ready,
    wire.Beat: lambda m, at, route, _: events.WorkerBeat(
        at, route, m.epoch, m.resident, m.backend, m.sizes
    ),
    wire.Decision: _decided,
    wire.Served: _served,
    wire.Shelf: _shelved,
    wire.Sense: _sensed,
    wire.Stock: _stocked,
    wire.Pulling: lambda m, at, route, _: events.PullMoved(
        at, route, m.epoch, m.model, m.done_bytes, m.total_bytes
    ),
    wire.Pulled: lambda m, at, route, _: events.Pulled(
        at, route, m.epoch, m.model, m.cause, m.message, m.seconds
    ),
    wire.Staged: lambda m, at, route, _: events.Staged(
        at, route, m.epoch, m.ticket, m.lease, m.stage
    ),
    wire.Chunk: _produced,
    wire.Done: _finished,
    wire.Failed: _failed,
    wire.Bye: lambda _m, at, route, _body: events.WorkerLost(at, route, "it left"),
}

Outgoing = tuple[bytes, wire.Message, bytes]  # route, message, body


def _times(
    e: effects.Relay | effects.Answer,
) -> words.Timings | None:
    if e.queue_ms is None and e.ttft_ms is None and e.pull_ms is None:
        return None
    return words.Timings(None, e.queue_ms, e.load_ms, e.ttft_ms, e.pull_ms)


def _place(e: effects.Place) -> Outgoing:
    placed = wire.Placed(
        e.rid, e.rule, e.class_, e.confidence, e.model, e.device, e.why, e.wanted,
        degraded=e.degraded != "", reason=e.degraded, decide_ms=e.decide_ms, is_open=e.is_open,
    )  # fmt: skip
    return e.client, placed, e.decision


def _refuse(e: effects.Refuse) -> Outgoing:
    refused = wire.Refused(
        e.rid, e.status, e.code, e.message[:4096], e.facts, e.retry_after_s, e.began
    )
    return e.client, refused, b""


def _kill(e: effects.Kill) -> Outgoing:
    kill = wire.Kill(e.rid, e.pid, e.pid_started, e.lease, e.pgid, e.grace_s)
    return e.supervisor, kill, b""


# One row an effect that is a message to a client.
TO_CLIENT: dict[type[effects.Effect], Callable[[Any], Outgoing]] = {
    effects.Acknowledge: lambda e: (e.client, wire.Ack(e.rid), b""),
    effects.Place: _place,
    effects.Tell: lambda e: (
        e.client,
        wire.Note(e.rid, e.stage, e.position, e.eta_s, e.model, e.done, e.total),
        b"",
    ),
    effects.Relay: lambda e: (e.client, wire.Partial(e.rid, e.seq, _times(e)), e.body),
    effects.Answer: lambda e: (e.client, wire.Final(e.rid, _times(e), e.status), e.body),
    effects.Refuse: _refuse,
    effects.Grant: lambda e: (
        e.client,
        wire.Granted(e.rid, e.lease, e.ttl_s, e.max_hold_s, e.grace_s),
        b"",
    ),
    effects.Warn: lambda e: (e.client, wire.Warned(e.rid, e.lease, e.left_s), b""),
    effects.Revoke: lambda e: (e.client, wire.Revoked(e.rid, e.lease, e.reason), b""),
    effects.Kill: _kill,
}

# One row an effect that is a message to a worker. Admit and Publish need the catalogue and are not here.
TO_WORKER: dict[type[effects.Effect], Callable[[Any], Outgoing]] = {
    effects.Dispatch: lambda e: (
        e.worker,
        wire.Run(e.ticket, e.lease, e.op, e.model, e.stream, e.conversation, e.evict),
        e.body,
    ),
    effects.AskHelper: lambda e: (
        e.worker,
        wire.Decide(e.ticket, e.expires_at, e.op, e.name, e.lane),
        e.body,
    ),
    effects.Unload: lambda e: (e.worker, wire.Unload(e.model), b""),
    effects.Fetch: lambda e: (e.store, wire.Fetch(e.model), b""),
    effects.Halt: lambda e: (e.worker, wire.Stop(e.ticket, e.lease), b""),
    effects.Expel: lambda e: (e.worker, wire.Dismiss(e.reason), b""),
}


def to_json(view: object) -> bytes:
    """Return a view as JSON bytes."""
    return msgspec.json.encode(view)
