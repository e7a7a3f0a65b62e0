"""Policies that are only looked at or kept, and the catalogue they make."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from support.stand import CLIENT, POLICIES, ROUTER, Stand, kinds, of, one


@pytest.mark.parametrize(("op", "helper"), [("validate", b"scorer"), ("register", b"store")])
def test_a_call_goes_to_the_helper_that_can_serve_it(op: str, helper: bytes) -> None:
    stand = Stand()
    stand.scorer()
    stand.store()
    asked = one(stand.ask("r", "user.Mine", op=op, body=b"policy"), fx.AskHelper)
    assert (asked.worker, asked.op, asked.name, asked.body) == (helper, op, "user.Mine", b"policy")
    assert asked.expires_at == stand.now + 15.0


def test_what_a_helper_says_is_the_clients_answer() -> None:
    stand = Stand()
    stand.store()
    asked = one(stand.ask("r", "x", op="register"), fx.AskHelper)
    answer, ended = stand.served(asked, 422)
    assert answer == fx.Answer(CLIENT, "r", None, None, None, b"served", 422)
    assert isinstance(ended, fx.Ended)
    assert ended.outcome == "served"


def test_a_call_holds_no_device_and_binds_nothing() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    stand.served(one(stand.ask("r", ROUTER, op="validate", conversation="k"), fx.AskHelper))
    assert kinds(stand.ask("b", "auto", conversation="k")) == ["AskHelper"]


@pytest.mark.parametrize(
    ("op", "code"), [("validate", "scorer_unavailable"), ("register", "store_unavailable")]
)
def test_a_call_nobody_serves_in_time_is_refused(op: str, code: str) -> None:
    stand = Stand()
    stand.ask("r", "x", op=op)
    assert of(stand.wait(14.9), fx.Refuse) == []
    refused = one(stand.wait(0.2), fx.Refuse)
    assert (refused.status, refused.code, refused.facts) == (503, code, {"retryable": True})


def test_a_call_waits_for_a_helper_that_comes_in_time() -> None:
    stand = Stand()
    stand.ask("r", "x", op="register")
    stand.now += 1.0
    assert one(stand.ready(b"store", "store", ""), fx.AskHelper).op == "register"


def test_two_calls_of_one_conversation_are_two_questions() -> None:
    stand = Stand()
    stand.store()
    for rid in "ab":
        assert kinds(stand.ask(rid, "x", op="register", conversation="k")) == ["AskHelper"]


def test_a_call_is_not_answered_by_a_decision_nor_a_decision_by_a_call() -> None:
    stand = Stand()
    stand.scorer()
    call = one(stand.ask("a", "x", op="validate"), fx.AskHelper)
    question = stand.question("b")
    assert of(stand.decided(call), fx.Place) == []
    assert of(stand.served(question), fx.Answer) == []


def test_another_helper_or_a_device_worker_cannot_serve_a_call() -> None:
    stand = Stand()
    worker = stand.worker()
    scorer = stand.scorer()
    stand.store()
    asked = one(stand.ask("r", "x", op="register"), fx.AskHelper)
    assert stand.served(asked, peer=worker) == []
    assert stand.served(asked, peer=scorer) == []
    assert kinds(stand.served(asked)) == ["Answer", "Ended"]


def test_a_cancelled_call_is_over_and_gives_the_helper_its_credit_back() -> None:
    stand = Stand(Limits(scorer_credit=1))
    stand.store()
    asked = one(stand.ask("a", "x", op="register"), fx.AskHelper)
    assert kinds(stand.cancel("a")) == ["Ended"]
    assert kinds(stand.ask("b", "x", op="register")) == ["AskHelper"]
    assert stand.served(asked) == []


def test_calls_are_counted_in_the_bounds() -> None:
    stand = Stand(Limits(queue_total=2, queue_per_lane=1))
    stand.ask("a", "x", op="register")
    assert one(stand.ask("b", "x", op="register"), fx.Refuse).status == 429


def test_calls_leave_a_helper_room_for_decisions() -> None:
    stand = Stand(Limits(call_credit=2))
    stand.scorer()
    calls = [stand.ask(f"r{n}", "x", op="validate") for n in range(3)]
    assert [kinds(effects) for effects in calls] == [["AskHelper"], ["AskHelper"], []]
    assert kinds(stand.ask("d", "auto")) == ["AskHelper"]
    assert of(stand.served(one(calls[0], fx.AskHelper)), fx.AskHelper) != []


def test_a_call_goes_to_a_busier_helper_when_the_idlest_has_its_share_of_calls() -> None:
    stand = Stand(Limits(call_credit=1))
    stand.scorer(b"one", pid=2)
    stand.ask("call", "x", op="validate")
    stand.scorer(b"two", pid=3)
    for n in range(3):
        stand.question(f"d{n}")
    assert one(stand.ask("another", "x", op="validate"), fx.AskHelper).worker == b"two"


# --- the shelf --------------------------------------------------------------------------------------


def test_a_shelf_makes_the_next_catalogue_and_sends_it_to_every_other_worker() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    store = stand.store()
    before = stand.core.snapshot(stand.now)["catalogue_version"]
    published = one(stand.shelved(store, {"user.Mine": "N"}), fx.Publish)
    assert (published.workers, published.policies) == ([b"hrx", b"scorer"], POLICIES)
    assert [before, published.version] == [1, 2]


def test_a_registered_policy_can_be_asked_for_and_a_removed_one_cannot() -> None:
    stand = Stand()
    store = stand.store()
    scorer = stand.scorer()
    stand.shelved(store, {"user.Mine": "N"})
    assert one(stand.ask("a", "user.Mine"), fx.AskHelper).name == "user.Mine"
    assert one(stand.wait(0.7, scorer), fx.Place).model == "N"
    stand.shelved(store, {})
    assert one(stand.ask("b", "user.Mine"), fx.Refuse).code == "model_not_found"


def test_no_registration_replaces_the_tables_own_policy() -> None:
    stand = Stand()
    stand.shelved(stand.store(), {ROUTER: "N"}, ROUTER)
    stand.ask("a", "auto")
    placed = one(stand.wait(0.7), fx.Place)
    assert placed.model == "M"


def test_only_the_store_may_say_what_is_on_the_shelf() -> None:
    stand = Stand()
    assert stand.shelved(stand.scorer(), {"user.Mine": "N"}) == []
    assert stand.shelved(stand.worker(), {"user.Mine": "N"}) == []
    assert one(stand.ask("a", "user.Mine"), fx.Refuse).code == "store_unavailable"


def test_a_policy_that_calls_models_has_more_time_and_its_scorer_is_not_suspected() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.shelved(stand.store(), {"user.Slow": "N"}, "user.Slow")
    asked = one(stand.ask("a", "user.Slow"), fx.AskHelper)
    assert asked.expires_at == stand.now + 10.0
    assert of(stand.wait(9.9, scorer), fx.Place) == []
    assert one(stand.wait(0.2, scorer), fx.Place).why == "scorer_down"
    assert kinds(stand.ask("b", "auto")) == ["AskHelper"]


def test_a_quick_decision_is_not_held_up_by_a_slow_one_before_it() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.shelved(stand.store(), {"user.Slow": "N"}, "user.Slow")
    stand.ask("slow", "user.Slow")
    stand.ask("quick", "auto")
    assert [p.rid for p in of(stand.wait(0.7, scorer), fx.Place)] == ["quick"]


# --- rows that cannot be used -----------------------------------------------------------------------


def deciding(stand: Stand, model: str = "N", *, tools: bool = False) -> fx.Dispatch:
    """Return the dispatch of a request that was decided for a row, class code."""
    stand.worker()
    stand.scorer()
    return one(stand.decided(stand.question(conversation="k", tools=tools), model), fx.Dispatch)


def test_another_failure_has_no_stand_in() -> None:
    stand = Stand()
    assert kinds(stand.fail(deciding(stand), 400, "context_length_exceeded")) == ["Refuse", "Ended"]
