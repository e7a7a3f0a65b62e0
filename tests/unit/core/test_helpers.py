"""Requests that a helper serves: who is asked, what becomes of the answer, and of a lost helper."""

import msgspec
import pytest

from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.limits import Limits
from support.helped import CLIENT, COLLECTION, Helped, Peer, of, one

OPS = [("validate", "scorer"), ("register", "store")]


@pytest.mark.parametrize(("op", "kind"), OPS)
def test_a_call_goes_to_the_helper_of_its_kind(op: str, kind: str) -> None:
    box = Helped()
    peers = {"scorer": box.join("scorer"), "store": box.join("store")}
    asked = one(box.ask(op, body=b"body"), fx.AskHelper)
    assert (asked.worker, asked.op, asked.body) == (peers[kind].route, op, b"body")
    assert (asked.lane, asked.expires_at) == ("lane", box.now + box.limits.call_s)


@pytest.mark.parametrize(("op", "kind"), OPS)
@pytest.mark.parametrize("status", [200, 400])
def test_a_helpers_answer_is_the_clients(op: str, kind: str, status: int) -> None:
    box = Helped()
    peer = box.join(kind)
    box.ask(op, "a")
    answer = one(box.serve(peer, status, b"reply"), fx.Answer)
    assert (answer.client, answer.rid, answer.status, answer.body) == (
        CLIENT,
        "a",
        status,
        b"reply",
    )
    assert box.open == 0


def test_a_call_binds_nothing_and_places_nothing() -> None:
    box = Helped()
    peer = box.join("scorer")
    box.ask("validate", conversation="k")
    assert not of(box.serve(peer), fx.Place)
    assert one(box.chat(conversation="k"), fx.AskHelper).op == "decide"


def test_two_calls_of_one_conversation_are_two_questions() -> None:
    box = Helped()
    box.join("scorer")
    first = one(box.ask("validate", "a", conversation="k"), fx.AskHelper)
    second = one(box.ask("validate", "b", conversation="k"), fx.AskHelper)
    assert first.ticket != second.ticket


@pytest.mark.parametrize(("op", "kind"), OPS)
def test_a_call_waits_for_a_helper_that_comes(op: str, kind: str) -> None:
    box = Helped()
    assert not of(box.ask(op), fx.AskHelper)
    assert one(box.joining(kind), fx.AskHelper).op == op


@pytest.mark.parametrize(("op", "kind"), OPS)
def test_a_call_that_nobody_serves_is_refused_after_call_s(op: str, kind: str) -> None:
    box = Helped()
    box.ask(op)
    assert not of(box.wait(box.limits.call_s - 0.01), fx.Refuse)
    refused = one(box.wait(0.02), fx.Refuse)
    assert (refused.status, refused.code) == (503, f"{kind}_unavailable")
    assert refused.message == f"No {kind} worker answered; see `fairlane status`."
    assert refused.facts == {"retryable": True}
    assert box.open == 0


@pytest.mark.parametrize(("op", "kind"), OPS)
def test_a_call_of_a_silent_helper_is_refused_after_call_s(op: str, kind: str) -> None:
    box = Helped()
    peer = box.join(kind)
    box.ask(op)
    assert one(box.wait(box.limits.call_s + 0.01, peer), fx.Refuse).status == 503
    assert not of(box.serve(peer), fx.Answer)


@pytest.mark.parametrize(("op", "kind"), OPS)
def test_a_call_of_a_lost_helper_is_asked_again(op: str, kind: str) -> None:
    box = Helped()
    first, second = box.join(kind), box.join(kind)
    asked = one(box.ask(op), fx.AskHelper)
    survivor = second if asked.worker == first.route else first
    again = one(box.lose(asked.worker), fx.AskHelper)
    assert (again.worker, again.ticket) == (survivor.route, asked.ticket)
    assert again.expires_at == asked.expires_at
    assert one(box.serve(survivor), fx.Answer).status == 200


def test_the_answer_of_a_lost_helper_is_void() -> None:
    box = Helped()
    store = box.join("store")
    ticket = one(box.ask("register"), fx.AskHelper).ticket
    box.lose(store.route)
    late = box.send(ev.Served(box.now, store.route, store.epoch, ticket, 200, b"late"))
    assert not of(late, fx.Answer)
    assert box.open == 1


def test_a_call_is_asked_again_of_the_next_life_of_its_helper() -> None:
    box = Helped()
    store = box.join("store")
    ticket = one(box.ask("register"), fx.AskHelper).ticket
    box.lose(store.route)
    assert one(box.joining("store"), fx.AskHelper).ticket == ticket


def test_an_answer_from_a_helper_that_was_not_asked_is_void() -> None:
    box = Helped()
    scorer, store = box.join("scorer"), box.join("store")
    asked = one(box.ask("register"), fx.AskHelper)
    for peer, epoch in ((scorer, scorer.epoch), (store, store.epoch - 1)):
        void = box.send(ev.Served(box.now, peer.route, epoch, asked.ticket, 200, b"forged"))
        assert not of(void, fx.Answer)
    assert one(box.serve(store), fx.Answer).body == b"{}"


def test_a_device_worker_serves_no_calls() -> None:
    box = Helped()
    box.join("store")
    asked = one(box.ask("register"), fx.AskHelper)
    void = box.send(ev.Served(box.now, box.hrx.route, box.hrx.epoch, asked.ticket, 200, b"x"))
    assert not of(void, fx.Answer)
    assert box.count("fenced") == 1


def test_a_decision_ends_no_call_and_an_answer_no_decision() -> None:
    box = Helped()
    scorer = box.join("scorer")
    call = one(box.ask("validate", "a"), fx.AskHelper).ticket
    question = one(box.chat("b"), fx.AskHelper).ticket
    decided = ev.Decided(
        box.now, scorer.route, scorer.epoch, call, "r", "M", "", None, False, b"{}"
    )
    assert not of(box.send(decided), fx.Place)
    crossed = ev.Served(box.now, scorer.route, scorer.epoch, question, 200, b"x")
    assert not of(box.send(crossed), fx.Answer)
    assert box.open == 2


def test_a_second_answer_is_void() -> None:
    box = Helped()
    scorer = box.join("scorer")
    ticket = one(box.ask("validate"), fx.AskHelper).ticket
    box.serve(scorer)
    again = box.send(ev.Served(box.now, scorer.route, scorer.epoch, ticket, 200, b"x"))
    assert not of(again, fx.Answer)


def test_a_client_that_leaves_takes_its_call_along() -> None:
    box = Helped()
    scorer = box.join("scorer")
    ticket = one(box.ask("validate"), fx.AskHelper).ticket
    box.send(ev.ClientLost(box.now, CLIENT))
    assert box.open == 0
    late = box.send(ev.Served(box.now, scorer.route, scorer.epoch, ticket, 200, b"x"))
    assert not of(late, fx.Answer)


def test_calls_are_bounded_like_all_that_waits() -> None:
    box = Helped(Limits(queue_per_lane=2))
    box.ask("validate", "a")
    box.ask("register", "b")
    assert one(box.ask("validate", "c"), fx.Refuse).status == 429
    assert not of(box.ask("validate", "d", lane="other"), fx.Refuse)


def test_slow_trials_of_one_lane_leave_the_scorer_to_the_decisions_of_others() -> None:
    box = Helped()
    box.join("scorer")
    for number in range(box.limits.scorer_credit):
        box.ask("validate", f"v{number}")
    assert one(box.chat("a", lane="other"), fx.AskHelper).op == "decide"


def test_trials_that_waited_for_credit_are_asked_as_answers_come() -> None:
    box = Helped()
    scorer = box.join("scorer")
    asked = [a for n in range(40) for a in of(box.ask("validate", f"v{n}"), fx.AskHelper)]
    answered = 0
    while asked:
        served = box.serve_ticket(scorer, asked.pop(0).ticket)
        answered += len(of(served, fx.Answer))
        asked += of(served, fx.AskHelper)
    assert (answered, box.open) == (40, 0)


# --- the catalogue --------------------------------------------------------------------------------


def test_a_shelf_makes_its_policies_routable_by_the_next_version() -> None:
    box = Helped()
    store = box.join("store")
    assert one(box.chat(name="user.Mine"), fx.Refuse).code == "store_unavailable"
    assert one(box.shelve(store, {"user.Mine": "M"}), fx.Publish).version == 2
    assert one(box.shelve(store, {"user.Mine": "N"}), fx.Publish).version == 3
    box.join("scorer")
    assert one(box.chat(name="user.Mine"), fx.AskHelper).name == "user.Mine"


def test_a_shelf_goes_to_all_other_workers() -> None:
    box = Helped()
    scorer, store = box.join("scorer"), box.join("store")
    published = one(box.shelve(store, {"user.Mine": "M"}), fx.Publish)
    assert published.workers == sorted([scorer.route, box.hrx.route, box.npu.route])
    assert published.policies == {"user.Mine": msgspec.Raw(b"{}")}


@pytest.mark.parametrize("kind", ["scorer", "hrx"])
def test_only_a_store_changes_the_catalogue(kind: str) -> None:
    box = Helped()
    peer = box.hrx if kind == "hrx" else box.join(kind)
    assert not of(box.shelve(peer, {"user.Mine": "M"}), fx.Publish)
    assert one(box.chat(name="user.Mine"), fx.Refuse).code == "store_unavailable"


def test_a_store_of_a_former_life_changes_nothing() -> None:
    box = Helped()
    store = box.join("store")
    former = Peer(store.route, store.epoch - 1)
    assert not of(box.shelve(former, {"user.Mine": "M"}), fx.Publish)


def test_a_shelf_leaves_the_tables_collection_alone() -> None:
    box = Helped()
    box.shelve(box.join("store"), {COLLECTION: "N"}, slow=[COLLECTION])
    box.join("scorer")
    asked = one(box.chat(), fx.AskHelper)
    assert asked.expires_at == box.now + box.limits.decide_s
    assert one(box.wait(box.limits.decide_s + 0.01), fx.Place).model == "M"


def test_a_policy_that_left_the_shelf_is_no_longer_known() -> None:
    box = Helped()
    store = box.join("store")
    box.shelve(store, {"user.Mine": "M"})
    box.shelve(store, {})
    assert one(box.chat(name="user.Mine"), fx.Refuse).code == "model_not_found"


def test_a_policy_that_leaves_while_it_decides_falls_open_to_no_row() -> None:
    box = Helped()
    store = box.join("store")
    box.shelve(store, {"user.Mine": "M"})
    box.chat(name="user.Mine")
    box.shelve(store, {})
    assert one(box.wait(box.limits.decide_s + 0.01), fx.Refuse).status >= 400


def test_a_lost_store_takes_no_policy_along() -> None:
    box = Helped()
    store = box.join("store")
    box.shelve(store, {"user.Mine": "M"})
    box.lose(store.route)
    box.join("scorer")
    assert one(box.chat(name="user.Mine"), fx.AskHelper).name == "user.Mine"


def test_a_policy_that_calls_models_gets_its_own_deadline() -> None:
    box = Helped()
    box.shelve(box.join("store"), {"user.Slow": "M"}, slow=["user.Slow"])
    scorer = box.join("scorer")
    asked = one(box.chat(name="user.Slow"), fx.AskHelper)
    assert asked.expires_at == box.now + box.limits.decide_slow_s
    assert not of(box.wait(box.limits.decide_slow_s - 0.01, scorer), fx.Place)
    placed = one(box.wait(0.02, scorer), fx.Place)
    assert (placed.why, placed.model) == ("scorer_down", "M")


def test_a_policy_that_waits_for_models_makes_no_scorer_suspect() -> None:
    box = Helped()
    box.shelve(box.join("store"), {"user.Slow": "M"}, slow=["user.Slow"])
    scorer = box.join("scorer")
    box.chat("a", name="user.Slow")
    box.wait(box.limits.decide_slow_s + 0.01, scorer)
    assert of(box.chat("b"), fx.AskHelper)


def test_a_policy_whose_default_is_no_row_any_more_refuses_and_names_it() -> None:
    box = Helped()
    box.shelve(box.join("store"), {"user.Old": "gone"})
    box.chat(name="user.Old")
    assert "gone" in one(box.wait(box.limits.decide_s + 0.01), fx.Refuse).message


def full_of_calls(box: Helped, kind: str = "scorer") -> tuple[Peer, list[str]]:
    """Give a helper all the calls it may have; return it and the ids of those."""
    peer = box.join(kind)
    rids = [f"v{number}" for number in range(box.limits.call_credit)]
    assert all(of(box.ask("validate", rid), fx.AskHelper) for rid in rids)
    return peer, rids


def test_a_withdrawn_call_makes_room_for_one_that_waits() -> None:
    box = Helped()
    _, rids = full_of_calls(box)
    assert not of(box.ask("validate", "late"), fx.AskHelper)
    assert of(box.send(ev.Cancelled(box.now, CLIENT, rids[0])), fx.AskHelper)


def test_a_call_that_is_given_up_makes_room_for_one_that_waits() -> None:
    box = Helped()
    scorer, _ = full_of_calls(box)
    box.wait(1.0, scorer)
    box.ask("validate", "late")
    assert of(box.wait(box.limits.call_s - 0.5, scorer), fx.AskHelper)


def test_a_free_scorer_is_asked_though_a_less_busy_one_has_all_its_calls() -> None:
    box = Helped()
    full_of_calls(box)
    second = box.join("scorer")
    for number in range(box.limits.call_credit + 4):
        box.chat(f"c{number}")
    assert one(box.ask("validate", "late"), fx.AskHelper).worker == second.route


def test_a_users_policy_that_is_late_hurts_no_other_collection() -> None:
    box = Helped()
    box.shelve(box.join("store"), {"user.Late": "M"})
    box.join("scorer")
    box.chat("a", name="user.Late")
    box.wait(box.limits.decide_s + 0.01)
    assert one(box.chat("b", lane="other"), fx.AskHelper).op == "decide"
