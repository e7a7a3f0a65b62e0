"""Each event in each state of a ticket: none raises, and the books agree after it and to the end."""

from collections.abc import Callable

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import CLIENT, Stand, catalogue, one

Way = Callable[[Stand], fx.Dispatch | fx.AskHelper | None]
Step = Callable[[Stand, fx.Dispatch | fx.AskHelper | None], ev.Event]


def deciding(stand: Stand) -> fx.AskHelper:
    stand.scorer()
    return stand.question()


def deciding_unasked(stand: Stand) -> None:
    stand.ask("r", "auto")


def deciding_two(stand: Stand) -> fx.AskHelper:
    stand.scorer()
    asked = stand.question(conversation="k")
    stand.ask("other", "auto", conversation="k")
    return asked


def queued_absent(stand: Stand) -> None:
    stand.ask("r")


def queued_behind(stand: Stand) -> fx.Dispatch:
    stand.worker()
    run = stand.run("before")
    stand.ask("r")
    return run


def peeked(stand: Stand) -> fx.Dispatch:
    stand.worker(seats=2)
    run = stand.run("before", "N")
    stand.ask("r", "M")
    return run


def running(stand: Stand) -> fx.Dispatch:
    stand.worker(seats=2)
    return stand.run()


def answering(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.produce(run)
    return run


def draining(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.cancel("r")
    return run


def draining_and_asked_again(stand: Stand) -> fx.Dispatch:
    run = draining(stand)
    stand.ask("r")
    return run


def requeued(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.lose(b"hrx")
    return run


def handed_back(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.finish(run, cancelled=True)
    return run


def second_try(stand: Stand) -> fx.Dispatch:
    requeued(stand)
    return one(stand.ready(nonce="next"), fx.Dispatch)


def ended(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.finish(run)
    return run


def granted(stand: Stand) -> None:
    stand.worker(seats=2)
    stand.hold("r", client=CLIENT)


def held(stand: Stand) -> None:
    granted(stand)
    stand.send(renewed(stand))


def holding_on(stand: Stand) -> None:
    held(stand)
    stand.lose_client()


def hold_queued(stand: Stand) -> fx.Dispatch:
    run = queued_behind(stand)
    stand.cancel("r")
    stand.hold("r", client=CLIENT)
    return run


def hold_peeked(stand: Stand) -> fx.Dispatch:
    stand.worker(seats=2)
    run = stand.run("before")
    stand.hold("r", client=CLIENT)
    return run


def hold_kept(stand: Stand) -> None:
    stand.kept(1, "r")


def behind_a_hold(stand: Stand) -> None:
    held(stand)
    stand.ask("behind")


def worker_ending(stand: Stand) -> fx.Dispatch:
    run = running(stand)
    stand.wait(4.1)
    return run


def refused(stand: Stand) -> None:
    stand.ask("r", "nope")


def nothing(_stand: Stand) -> None:
    return


def pulling(stand: Stand) -> None:
    stand.worker()
    stand.stocked(stand.store(), N="missing")
    stand.ask("r", "N")


def pulling_for_a_class(stand: Stand) -> None:
    stand.worker()
    stand.scorer()
    stand.stocked(stand.store(), N="missing", M="missing")
    stand.decided(stand.question(), "N")


def pulling_without_a_store(stand: Stand) -> None:
    pulling(stand)
    stand.lose(b"store")


STATES: list[Way] = [
    deciding, deciding_unasked, deciding_two, queued_absent, queued_behind, peeked, running, answering,
    draining, draining_and_asked_again, requeued, handed_back, second_try, ended, refused, nothing,
    granted, held, holding_on, hold_queued, hold_peeked, hold_kept, behind_a_hold, worker_ending,
    pulling, pulling_for_a_class, pulling_without_a_store,
]  # fmt: skip


STOCK = {
    "M": ev.RowStock("ready"),
    "N": ev.RowStock("missing", "not here"),
    "ghost": ev.RowStock("ready"),
}
READINGS = [ev.Reading("tctl", 71.0, "C", "k10temp", "Tctl", 0.1, True, "")]


def epoch(stand: Stand, route: bytes) -> int:
    return stand.epochs.get(route, 0)


def lease(got: fx.Dispatch | fx.AskHelper | None) -> int:
    return got.lease if isinstance(got, fx.Dispatch) else 1


def ask(stand: Stand, **fields: object) -> ev.Asked:
    values: dict[str, object] = {
        "at": stand.now, "client": CLIENT, "rid": "r", "op": "chat", "name": "M", "lane": "lane",
        "conversation": "k", "starts": True, "stream": True, "batch": False,
        "expires_at": stand.now + 60.0, "prompt_bytes": 0, "max_tokens": None, "tools": False,
        "images": False, "json_schema": False, "body": b"",
    }  # fmt: skip
    return ev.Asked(**(values | fields))  # type: ignore[arg-type]  # a table of fields


def ready(stand: Stand, **fields: object) -> ev.WorkerReady:
    values: dict[str, object] = {
        "at": stand.now, "route": b"hrx", "name": "hrx", "kind": "hrx", "device": "hrx0", "pid": 1,
        "pid_started": 1.0, "nonce": repr(b"hrx"), "seats": 2, "backend": "test",
    }  # fmt: skip
    return ev.WorkerReady(**(values | fields))  # type: ignore[arg-type]  # a table of fields


def finished(stand: Stand, held: int, *, cancelled: bool = False, ticket: int = 1) -> ev.Finished:
    return ev.Finished(
        stand.now, b"hrx", epoch(stand, b"hrx"), ticket, held, cancelled, None, None, 0, 0, 0, b""
    )


def decided(stand: Stand, route: bytes, model: str, *, down: bool = False) -> ev.Decided:
    return ev.Decided(stand.now, route, epoch(stand, route), 1, "r", model, "", None, down, b"")


def hold_lease(stand: Stand) -> int:
    """Return the newest lease there can be: leases and epochs come from one counter."""
    shown = stand.core.outside(stand.now)["hrx0"]
    return next((t["lease"] for t in shown["holders"]), 0)  # type: ignore[index]  # a view


def renewed(stand: Stand, client: bytes = CLIENT) -> ev.Renewed:
    return ev.Renewed(stand.now, client, "r", hold_lease(stand))


def hold(stand: Stand, **fields: object) -> ev.HoldAsked:
    values: dict[str, object] = {
        "at": stand.now, "client": CLIENT, "rid": "r", "lane": "lane", "device": "", "batch": False,
        "expires_at": stand.now + 60.0, "max_hold_s": 0.0, "memory_bytes": 0, "pid": 70,
        "pgid": 70, "pid_started": 1.0, "what": "bench", "lease": 0,
    }  # fmt: skip
    return ev.HoldAsked(**(values | fields))  # type: ignore[arg-type]  # a table of fields


EVENTS: dict[str, Step] = {
    "hold asked again": lambda s, _: hold(s),
    "hold asked anew": lambda s, _: hold(s, rid="new"),
    "hold of an odd device": lambda s, _: hold(s, rid="new", device="hrx9"),
    "hold announced": lambda s, _: hold(s, client=b"back", lease=1),
    "another hold announced": lambda s, _: hold(s, client=b"back", rid="new", lease=1),
    "restarted": lambda s, _: ev.Restarted(
        s.now, s.core.boot + 1, True, 0.0, catalogue(), s.limits, {}
    ),
    "worker kept": lambda s, _: ev.WorkerKept(s.now, "hrx-1", "hrx0", 1, 1.0),
    "worker of an odd device kept": lambda s, _: ev.WorkerKept(s.now, "x", "gpu9", 1, 1.0),
    "hold kept": lambda s, _: ev.HoldKept(
        s.now, "new", "lane", "hrx0", False, 1, 60.0, 0, 71, 71, 1.0, "bench", 5.0
    ),
    "hold of an odd device kept": lambda s, _: ev.HoldKept(
        s.now, "new", "lane", "hrx9", False, 1, 60.0, 0, 71, 71, 1.0, "bench", 5.0
    ),
    "renewed": lambda s, _: renewed(s),
    "renewed by a stranger": lambda s, _: renewed(s, b"stranger"),
    "released": lambda s, _: ev.Released(s.now, CLIENT, "r", hold_lease(s)),
    "released by a stranger": lambda s, _: ev.Released(s.now, b"stranger", "r", hold_lease(s)),
    "released under an old lease": lambda s, _: ev.Released(s.now, CLIENT, "r", 1),
    "supervised": lambda s, _: ev.Supervised(s.now, b"supervisor"),
    "drained": lambda s, _: ev.DrainAsked(s.now, b"operator", on=True),
    "drained no more": lambda s, _: ev.DrainAsked(s.now, b"operator", on=False),
    "supervisor lost": lambda s, _: ev.ClientLost(s.now, b"supervisor"),
    "group ended": lambda s, _: ev.ProcessEnded(s.now, 70, hold_lease(s)),
    "asked again": lambda s, _: ask(s),
    "asked anew": lambda s, _: ask(s, rid="new"),
    "asked to decide": lambda s, _: ask(s, rid="new", name="auto", op="decide"),
    "asked auto": lambda s, _: ask(s, rid="new", name="auto"),
    "asked for an empty name": lambda s, _: ask(s, rid="new", name="", lane="", conversation=""),
    "asked too late": lambda s, _: ask(s, rid="new", expires_at=s.now),
    "cancelled": lambda s, _: ev.Cancelled(s.now, CLIENT, "r"),
    "client lost": lambda s, _: ev.ClientLost(s.now, CLIENT),
    "ready again": lambda s, _: ready(s),
    "another process": lambda s, _: ready(s, nonce="another"),
    "twin": lambda s, _: ready(s, route=b"twin", nonce="twin"),
    "scorer": lambda s, _: ready(s, route=b"late scorer", kind="scorer", device="", nonce="s"),
    "scorer as worker": lambda s, _: ready(s, route=b"scorer", nonce="s"),
    "worker as scorer": lambda s, _: ready(s, kind="scorer", device="", nonce="s"),
    "odd device": lambda s, _: ready(s, route=b"odd", device="hrx9"),
    "beat": lambda s, _: ev.WorkerBeat(s.now, b"hrx", epoch(s, b"hrx"), ["M"]),
    "stale beat": lambda s, _: ev.WorkerBeat(s.now, b"hrx", epoch(s, b"hrx") - 1, []),
    "worker lost": lambda s, _: ev.WorkerLost(s.now, b"hrx", "x"),
    "scorer lost": lambda s, _: ev.WorkerLost(s.now, b"scorer", "x"),
    "stranger lost": lambda s, _: ev.WorkerLost(s.now, b"stranger", "x"),
    "process ended": lambda s, _: ev.ProcessEnded(s.now, 1),
    "decided": lambda s, _: decided(s, b"scorer", "N"),
    "decided for a ghost": lambda s, _: decided(s, b"scorer", "ghost"),
    "decided by default": lambda s, _: decided(s, b"scorer", "M", down=True),
    "decided by a worker": lambda s, _: decided(s, b"hrx", "N"),
    "served": lambda s, _: ev.Served(s.now, b"scorer", epoch(s, b"scorer"), 1, 200, b""),
    "served by a worker": lambda s, _: ev.Served(s.now, b"hrx", epoch(s, b"hrx"), 1, 200, b""),
    "shelved": lambda s, _: ev.Shelved(
        s.now, b"store", epoch(s, b"store"), {"user.Laya-First": "N"}, [], {}
    ),
    "store": lambda s, _: ready(s, route=b"store", kind="store", device="", nonce="s"),
    "sensors": lambda s, _: ready(s, route=b"sensors", kind="sensors", device="", nonce="s"),
    "sensed": lambda s, _: ev.Sensed(s.now, b"sensors", epoch(s, b"sensors"), READINGS),
    "sensed by a worker": lambda s, _: ev.Sensed(s.now, b"hrx", epoch(s, b"hrx"), READINGS),
    "stocked": lambda s, _: ev.Stocked(s.now, b"store", epoch(s, b"store"), STOCK),
    "stocked by a worker": lambda s, _: ev.Stocked(s.now, b"hrx", epoch(s, b"hrx"), STOCK),
    "pull moved": lambda s, _: ev.PullMoved(s.now, b"store", epoch(s, b"store"), "N", 5, 10),
    "pulled": lambda s, _: ev.Pulled(s.now, b"store", epoch(s, b"store"), "N", "", "", 1.0),
    "pull failed": lambda s, _: ev.Pulled(
        s.now, b"store", epoch(s, b"store"), "N", "pull_failed", "m", 1.0
    ),
    "pulled by a worker": lambda s, _: ev.Pulled(s.now, b"hrx", epoch(s, b"hrx"), "N", "", "", 1.0),
    "asked to register": lambda s, _: ask(s, rid="new", op="register"),
    "asked to pull": lambda s, _: ask(s, rid="new", name="N", op="pull"),
    "store lost": lambda s, _: ev.WorkerLost(s.now, b"store", "x"),
    "asked to validate": lambda s, _: ask(s, rid="new", op="validate"),
    "asked to embed": lambda s, _: ask(s, rid="new", op="embed"),
    "failed to load": lambda s, r: ev.Failed(
        s.now, b"hrx", epoch(s, b"hrx"), 1, lease(r), 503, "model_not_usable", "m", {}
    ),
    "staged": lambda s, r: ev.Staged(s.now, b"hrx", epoch(s, b"hrx"), 1, lease(r), "load"),
    "produced": lambda s, r: ev.Produced(
        s.now, b"hrx", epoch(s, b"hrx"), 1, lease(r), 1, None, b""
    ),
    "produced by a stranger": lambda s, r: ev.Produced(s.now, b"?", 1, 1, lease(r), 1, None, b""),
    "finished": lambda s, r: finished(s, lease(r)),
    "finished under an old lease": lambda s, r: finished(s, lease(r) - 1),
    "finished another's": lambda s, r: finished(s, lease(r), ticket=2),
    "stopped": lambda s, r: finished(s, lease(r), cancelled=True),
    "failed": lambda s, r: ev.Failed(
        s.now, b"hrx", epoch(s, b"hrx"), 1, lease(r), 503, "c", "m", {}
    ),
    "ticked": lambda s, _: ev.Ticked(s.now),
    "ticked a minute later": lambda s, _: ev.Ticked(s.now + 60.0),
}  # fmt: skip


def test_every_kind_of_event_is_in_the_product() -> None:
    stand = Stand()
    assert {type(step(stand, None)) for step in EVENTS.values()} == set(ev.Event.__args__)


@pytest.mark.parametrize("way", STATES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("event", EVENTS)
def test_any_event_in_any_state_is_taken_in_and_everything_still_ends(way: Way, event: str) -> None:
    stand = Stand(Limits(absent_s=5.0))
    got = way(stand)
    happened = EVENTS[event](stand, got)
    stand.now = happened.at
    stand.send(happened)
    for route in (b"hrx", b"twin", b"scorer"):
        stand.lose(route)
    for client in (b"back", CLIENT):
        stand.lose_client(client)
    stand.wait(25.0)  # all leases are over
    while outside := stand.core.outside(stand.now)["hrx0"]["holders"]:  # type: ignore[index]  # a view
        stand.send(ev.ProcessEnded(stand.now, outside[0]["pid"], outside[0]["lease"]))
    stand.ended(1)
    stand.wait(6.0)
    assert stand.core.snapshot(stand.now)["deciding"] == 0
    assert stand.core.snapshot(stand.now)["devices"]["hrx0"]["waiting"] == 0  # type: ignore[index]  # a view
    assert stand.lose_client() == []


# what changes most, to come second after anything
SECOND = (
    "asked again", "cancelled", "client lost", "another process", "worker lost", "decided", "served",
    "finished", "stopped", "failed to load", "ticked a minute later",
    "hold asked again", "hold announced", "renewed", "released", "released by a stranger", "group ended",
)  # fmt: skip


@pytest.mark.parametrize("way", STATES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("first", EVENTS)
def test_any_two_events_after_each_other_are_taken_in(way: Way, first: str) -> None:
    for second in SECOND:
        stand = Stand()
        got = way(stand)
        for name in (first, second):
            happened = EVENTS[name](stand, got)
            stand.now = max(stand.now, happened.at)
            stand.send(happened)
