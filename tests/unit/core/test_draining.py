"""A box that takes no new work: what it has accepted ends as ever, and nothing else begins."""

import pytest

from scheduler.core import Appliance
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import CLIENT, ROUTER, Stand, catalogue, kinds, one


def test_whoever_asks_for_it_is_answered() -> None:
    stand = Stand()
    assert stand.drain() == [fx.Probe(b"operator")]
    assert stand.core.snapshot(stand.now)["draining"] is True
    stand.drain(on=False)
    assert stand.core.snapshot(stand.now)["draining"] is False


@pytest.mark.parametrize("op", ["chat", "completion", "decide", "validate", "register"])
def test_new_work_is_refused_and_may_be_repeated(op: str) -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    stand.store()
    stand.drain()
    refused = one(stand.ask(name=ROUTER, op=op), fx.Refuse)
    assert (refused.status, refused.code) == (503, "draining")
    assert (refused.facts, refused.retry_after_s) == ({"retryable": True}, 10.0)


def test_an_outside_lane_is_refused_too() -> None:
    stand = Stand()
    stand.worker()
    stand.drain()
    assert one(stand.hold(), fx.Refuse).code == "draining"


def test_what_holds_waits_or_is_being_decided_ends_with_its_answer() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.scorer()
    first = stand.run("first")
    stand.ask("second")
    question = stand.question("third")
    stand.drain()
    assert stand.core.snapshot(stand.now)["open"] == 3
    stand.decided(question, "M")
    second = one(stand.finish(first), fx.Dispatch)
    third = one(stand.finish(second), fx.Dispatch)
    assert one(stand.finish(third), fx.Answer).rid == "third"
    assert stand.core.snapshot(stand.now)["open"] == 0
    assert worker.route in stand.epochs


def test_a_holder_keeps_its_device_and_renews() -> None:
    stand = Stand()
    stand.worker()
    grant = stand.held()
    stand.drain()
    assert kinds(stand.renew(grant)) == ["Grant"]
    stand.release(grant)
    assert stand.core.snapshot(stand.now)["open"] == 0


def test_a_request_that_is_sent_again_is_acknowledged() -> None:
    stand = Stand()
    stand.ask("r")
    stand.drain()
    assert kinds(stand.ask("r")) == ["Acknowledge"]


def test_a_scorer_may_ask_models_for_a_request_that_was_accepted() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    question = stand.question("routed")
    stand.drain()
    asked = one(stand.ask("inner", client=b"scorer", for_ticket=question.ticket), fx.Dispatch)
    assert asked.model == "M"


@pytest.mark.parametrize("ticket", [0, 7])
def test_nobody_else_slips_in_that_way(ticket: int) -> None:
    stand = Stand()
    stand.worker()
    stand.drain()
    assert one(stand.ask(for_ticket=ticket), fx.Refuse).code == "draining"


def test_it_takes_work_again_when_told() -> None:
    stand = Stand()
    stand.worker()
    stand.drain()
    stand.drain(on=False)
    assert kinds(stand.ask()) == ["Dispatch"]


def test_it_goes_on_after_a_thaw_and_ends_with_the_broker() -> None:
    stand = Stand()
    stand.drain()
    again = Appliance.restored(stand.core.freeze())
    assert again.snapshot(stand.now)["draining"] is True
    restarted = ev.Restarted(stand.now, 2, True, 0.0, catalogue(), stand.limits, {})
    again.handle(restarted)
    assert again.snapshot(stand.now)["draining"] is False


def test_a_refusal_names_the_client_and_is_counted() -> None:
    stand = Stand()
    stand.drain()
    assert one(stand.ask(), fx.Refuse).client == CLIENT
    counts: dict[str, int] = stand.core.snapshot(stand.now)["counts"]  # type: ignore[assignment]  # JSON
    assert counts["refused_draining"] == 1
