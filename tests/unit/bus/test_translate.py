"""Messages to events and effects to messages, field by field."""

import msgspec
import pytest

from scheduler.bus.translate import TO_CLIENT, TO_EVENT, TO_WORKER, to_json
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.errors import ProtocolError
from scheduler.wire import messages as wire
from scheduler.wire import verbs, words
from scheduler.wire.codec import encode

ASK = wire.Ask(
    "r", "chat", "auto", "lane", "k", 9.0, starts=False, stream=True, batch=True, prompt_bytes=5,
    max_tokens=6, tools=True, images=True, json_schema=True,
)  # fmt: skip
TO_CORE: list[tuple[wire.Message, ev.Event]] = [
    (
        ASK,
        ev.Asked(
            1.0, b"p", "r", "chat", "auto", "lane", "k", False, True, True, 9.0, 5, 6, True, True,
            True, b"body",
        ),
    ),
    (wire.Cancel("r"), ev.Cancelled(1.0, b"p", "r")),
    (wire.Exited(42), ev.ProcessEnded(1.0, 42)),
    (wire.Exited(42, 7), ev.ProcessEnded(1.0, 42, 7)),
    (
        wire.Hold("h", "lane", 9.0, 42, 7.5, 43, "hrx0", True, 60.0, 5, "bench", 6),
        ev.HoldAsked(
            1.0, b"p", "h", "lane", "hrx0", True, 9.0, 60.0, 5, 42, 43, 7.5, "bench", 6
        ),
    ),
    (wire.Renew("h", 6), ev.Renewed(1.0, b"p", "h", 6)),
    (wire.Release("h", 6), ev.Released(1.0, b"p", "h", 6)),
    (wire.Supervise(), ev.Supervised(1.0, b"p")),
    (wire.Drain(), ev.DrainAsked(1.0, b"p", on=True)),
    (wire.Drain(on=False), ev.DrainAsked(1.0, b"p", on=False)),
    (
        wire.Ready("n", "hrx", "hrx0", 42, 7.5, "x", 2, "b"),
        ev.WorkerReady(1.0, b"p", "n", "hrx", "hrx0", 42, 7.5, "x", 2, "b"),
    ),
    (wire.Beat(3, ["m"], "b"), ev.WorkerBeat(1.0, b"p", 3, ["m"], "b")),
    (
        wire.Decision(3, 4, "rule", "M", "code", 0.5, True),
        ev.Decided(1.0, b"p", 3, 4, "rule", "M", "code", 0.5, True, b"body"),
    ),
    (wire.Staged(3, 4, 5, "load"), ev.Staged(1.0, b"p", 3, 4, 5, "load")),
    (wire.Chunk(3, 4, 5, 6, 0.5), ev.Produced(1.0, b"p", 3, 4, 5, 6, 0.5, b"body")),
    (
        wire.Done(3, 4, 5, True, 6, 7, 8, 0.25, 0.5),
        ev.Finished(1.0, b"p", 3, 4, 5, True, 0.25, 0.5, 6, 7, 8, b"body"),
    ),
    (
        wire.Failed(3, 4, 5, 503, "c", "m", {"n": 1}),
        ev.Failed(1.0, b"p", 3, 4, 5, 503, "c", "m", {"n": 1}),
    ),
    (wire.Sense(3), ev.Sensed(1.0, b"p", 3, [])),
    (
        wire.Sense(3, [words.Reading("tctl", 71.0, "C", "k10temp", "Tctl", 0.5, True, "")]),
        ev.Sensed(1.0, b"p", 3, [ev.Reading("tctl", 71.0, "C", "k10temp", "Tctl", 0.5, True, "")]),
    ),
    (
        wire.Stock(3, {"M": words.RowStock("missing", "not here", 7)}),
        ev.Stocked(1.0, b"p", 3, {"M": ev.RowStock("missing", "not here", 7)}),
    ),
    (wire.Pulling(3, "M", 5), ev.PullMoved(1.0, b"p", 3, "M", 5, None)),
    (
        wire.Pulled(3, "M", "pull_failed", "why", 2.5),
        ev.Pulled(1.0, b"p", 3, "M", "pull_failed", "why", 2.5),
    ),
    (wire.Served(3, 4, 422), ev.Served(1.0, b"p", 3, 4, 422, b"body")),
    (wire.Bye(3), ev.WorkerLost(1.0, b"p", "it left")),
]  # fmt: skip
FROM_CORE: list[tuple[fx.Effect, wire.Message, bytes]] = [
    (fx.Acknowledge(b"p", "r"), wire.Ack("r"), b""),
    (
        fx.Place(b"p", "r", "rule", "code", 0.5, "M", "hrx", "scorer_down", "N", "", 1.5, b"{}"),
        wire.Placed("r", "rule", "code", 0.5, "M", "hrx", "scorer_down", "N", decide_ms=1.5),
        b"{}",
    ),
    (
        fx.Place(b"p", "r", "default", "", None, "M", "hrx", "", "w", "load_failed", None, b"{}"),
        wire.Placed("r", "default", "", None, "M", "hrx", "", "w", True, "load_failed"),
        b"{}",
    ),
    (fx.Tell(b"p", "r", "queue", 3, 1.5), wire.Note("r", "queue", 3, 1.5), b""),
    (fx.Relay(b"p", "r", 2, None, None, None, b"x"), wire.Partial("r", 2), b"x"),
    (
        fx.Relay(b"p", "r", 1, 1.0, 2.0, 3.0, b"x"),
        wire.Partial("r", 1, words.Timings(None, 1.0, 2.0, 3.0)),
        b"x",
    ),
    (fx.Answer(b"p", "r", None, None, None, b"x"), wire.Final("r"), b"x"),
    (
        fx.Answer(b"p", "r", 1.0, None, 3.0, b"x"),
        wire.Final("r", words.Timings(None, 1.0, None, 3.0)),
        b"x",
    ),
    (
        fx.Answer(b"p", "r", None, None, None, b"x", 422),
        wire.Final("r", status=422),
        b"x",
    ),
    (
        fx.Refuse(b"p", "r", 429, "queue_full", "m", {"a": 1}, 2.0, True),
        wire.Refused("r", 429, "queue_full", "m", {"a": 1}, 2.0, True),
        b"",
    ),
    (
        fx.Dispatch(b"p", 4, 5, "chat", "M", True, "k", b"x"),
        wire.Run(4, 5, "chat", "M", True, "k"),
        b"x",
    ),
    (
        fx.AskHelper(b"p", 4, 9.5, "register", "name", "lane", b"x"),
        wire.Decide(4, 9.5, "register", "name", "lane"),
        b"x",
    ),
    (fx.Fetch(b"p", "M"), wire.Fetch("M"), b""),
    (
        fx.Tell(b"p", "r", "pull", 0, None, "M", 5, 10),
        wire.Note("r", "pull", model="M", done_bytes=5, total_bytes=10),
        b"",
    ),
    (fx.Halt(b"p", 4, 5), wire.Stop(4, 5), b""),
    (fx.Grant(b"p", "h", 4, 20.0, 60.0, 5.0), wire.Granted("h", 4, 20.0, 60.0, 5.0), b""),
    (fx.Warn(b"p", "h", 4, 30.0), wire.Warned("h", 4, 30.0), b""),
    (fx.Revoke(b"p", "h", 4, "reason"), wire.Revoked("h", 4, "reason"), b""),
    (fx.Kill(b"p", "h", 4, 42, 43, 7.5, 5.0), wire.Kill("h", 42, 7.5, 4, 43, 5.0), b""),
    (fx.Expel(b"p", "reason"), wire.Dismiss("reason"), b""),
]


@pytest.mark.parametrize(("message", "event"), TO_CORE, ids=lambda one: type(one).__name__)
def test_a_message_becomes_its_event(message: wire.Message, event: ev.Event) -> None:
    assert TO_EVENT[type(message)](message, 1.0, b"p", b"body") == event


@pytest.mark.parametrize(
    ("effect", "message", "body"), FROM_CORE, ids=lambda one: type(one).__name__
)
def test_an_effect_becomes_its_message(
    effect: fx.Effect, message: wire.Message, body: bytes
) -> None:
    made = (TO_CLIENT | TO_WORKER)[type(effect)](effect)
    assert made == (b"p", message, body)
    encode(made[1])


def test_every_message_a_peer_may_send_has_an_event_or_is_a_view() -> None:
    views = {wire.Hello, wire.Query}
    assert TO_EVENT.keys() == (verbs.FROM_CLIENT | verbs.FROM_WORKER) - views


def test_every_effect_is_a_message_or_the_brokers_own() -> None:
    brokers_own = {fx.Admit, fx.Publish, fx.Probe, fx.Ended, fx.Record}
    assert TO_CLIENT.keys() | TO_WORKER.keys() | brokers_own == set(fx.Effect.__args__)
    assert TO_CLIENT.keys() & TO_WORKER.keys() == set()


def test_a_refusal_too_long_for_the_wire_is_cut() -> None:
    long = fx.Refuse(b"p", "r", 503, "c", "m" * 9000, {}, None, False)
    message = TO_CLIENT[fx.Refuse](long)[1]
    assert isinstance(message, wire.Refused)
    assert len(message.message) == 4096


def test_a_view_is_json() -> None:
    assert msgspec.json.decode(to_json({"a": [1, None, "x"]})) == {"a": [1, None, "x"]}


def test_a_shelf_is_read_as_far_as_names_go_and_its_policies_pass_unread() -> None:
    body = b'{"collections":{"p":"M"},"slow":["p"],"policies":{"p":{"any": "thing"}}}'
    event = TO_EVENT[wire.Shelf](wire.Shelf(3), 1.0, b"p", body)
    assert isinstance(event, ev.Shelved)
    assert (event.route, event.epoch, event.collections, event.slow) == (b"p", 3, {"p": "M"}, ["p"])
    assert {name: bytes(raw) for name, raw in event.policies.items()} == {"p": b'{"any": "thing"}'}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"slow":1}'])
def test_a_shelf_that_is_none_is_a_fault_of_the_store(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="shelf"):
        TO_EVENT[wire.Shelf](wire.Shelf(3), 1.0, b"p", body)
