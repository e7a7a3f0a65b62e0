"""Deciding where a conversation goes, and what happens when nobody does."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from support.stand import CLIENT, Peer, Stand, kinds, of, one, row

LATE_S = 0.7  # past the 627 ms a decision may take


def test_a_scorer_is_asked_with_the_body_and_the_instant_it_must_answer_by() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question(body=b"the request")
    assert asked.body == b"the request"
    assert asked.expires_at == pytest.approx(stand.now + 0.627)


def test_a_decision_places_the_request_and_queues_it() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    asked = stand.question()
    stand.now += 0.01
    placed, run = stand.decided(asked, "N", rule="laya-code")
    assert isinstance(placed, fx.Place)
    assert isinstance(run, fx.Dispatch)
    assert (placed.rule, placed.class_, placed.model, placed.device) == (
        "laya-code",
        "code",
        "N",
        "hrx",
    )
    assert (placed.why, placed.wanted, placed.decision) == ("", "", b"{D}")
    assert placed.decide_ms == pytest.approx(10.0)
    assert run.model == "N"


def test_a_row_on_the_npu_is_queued_there() -> None:
    stand = Stand()
    stand.worker()
    stand.ready(b"npu", "npu", "npu0", pid=3)
    stand.scorer()
    placed, run = stand.decided(stand.question(), "P")
    assert isinstance(placed, fx.Place)
    assert isinstance(run, fx.Dispatch)
    assert (placed.device, run.worker) == ("npu", b"npu")


def test_two_first_turns_of_one_conversation_at_once_are_one_question() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question("a", conversation="k")
    assert stand.ask("b", "auto", conversation="k") == []
    placed = of(stand.decided(asked), fx.Place)
    assert [p.rid for p in placed] == ["a", "b"]


def test_a_question_outlives_the_cancel_of_the_request_that_put_it() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question("a", conversation="k")
    stand.ask("b", "auto", conversation="k")
    stand.cancel("a")
    assert [p.rid for p in of(stand.decided(asked), fx.Place)] == ["b"]


def test_a_bound_conversation_asks_no_scorer_and_repeats_its_decision() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    stand.decided(stand.question("a", conversation="k"), "N")
    placed = one(stand.ask("b", "auto", conversation="k"), fx.Place)
    assert (placed.rule, placed.model, placed.decision) == ("laya-code", "N", b"{D}")
    assert placed.decide_ms is None


def test_one_lane_does_not_meet_the_binding_of_another() -> None:
    stand = Stand()
    stand.scorer()
    stand.decided(stand.question("a", conversation="k", lane="one"))
    assert kinds(stand.ask("b", "auto", conversation="k", lane="two")) == ["AskHelper"]


def test_without_a_decision_in_time_the_default_answers_and_says_so() -> None:
    stand = Stand()
    stand.worker()
    scorer = stand.scorer()
    stand.question()
    placed = one(stand.wait(LATE_S, scorer), fx.Place)
    assert (placed.rule, placed.model, placed.why) == ("default", "M", "scorer_down")
    assert (placed.class_, placed.confidence, placed.decision) == ("", None, b"")
    assert placed.decide_ms == pytest.approx(627.0)


def test_the_default_answers_at_the_deadline_and_not_before() -> None:
    stand = Stand()
    stand.scorer()
    stand.question()
    stand.now += 0.6269
    assert of(stand.tick(), fx.Place) == []
    stand.now += 0.0002
    assert len(of(stand.tick(), fx.Place)) == 1


def test_a_late_decision_changes_nothing() -> None:
    stand = Stand()
    scorer = stand.scorer()
    asked = stand.question()
    stand.wait(LATE_S, scorer)
    assert stand.decided(asked) == []


def test_a_second_decision_changes_nothing() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question()
    stand.decided(asked)
    assert stand.decided(asked, "M") == []


def test_scorer_down_binds_nothing() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.question("a", conversation="k")
    stand.wait(LATE_S, scorer)
    stand.beat(scorer)
    assert kinds(stand.ask("b", "auto", conversation="k")) == ["AskHelper"]


def test_a_classifier_that_failed_is_scorer_down_and_binds_nothing() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question("a", conversation="k")
    assert one(stand.decided(asked, "M", rule="default", down=True), fx.Place).why == "scorer_down"
    assert kinds(stand.ask("b", "auto", conversation="k")) == ["AskHelper"]


def test_a_lost_scorers_questions_go_to_another() -> None:
    stand = Stand()
    stand.scorer(b"one", pid=2)
    asked = stand.question()
    stand.scorer(b"two", pid=3)
    again = one(stand.lose(b"one"), fx.AskHelper)
    assert (again.worker, again.ticket) == (b"two", asked.ticket)
    assert again.expires_at == asked.expires_at
    assert len(of(stand.decided(again), fx.Place)) == 1


def test_a_lost_scorers_word_does_not_count_any_more() -> None:
    stand = Stand()
    gone = stand.scorer(b"one", pid=2)
    asked = stand.question()
    stand.scorer(b"two", pid=3)
    stand.lose(b"one")
    assert kinds(stand.decided(asked, peer=gone)) == ["Expel"]


def test_the_last_scorer_lost_while_deciding_leaves_the_question_to_the_next_one() -> None:
    stand = Stand()
    stand.scorer(b"one")
    asked = stand.question()
    assert of(stand.lose(b"one"), fx.AskHelper) == []
    stand.now += 0.1
    again = one(stand.ready(b"two", "scorer", "", pid=5), fx.AskHelper)
    assert again.ticket == asked.ticket


def test_without_any_scorer_a_request_waits_for_one_up_to_the_deadline() -> None:
    stand = Stand()
    assert stand.ask("r", "auto") == []
    effects = stand.wait(LATE_S)
    assert one(effects, fx.Place).why == "scorer_down"
    assert of(stand.wait(1.0), fx.Place) == []


def test_a_suspect_scorer_is_not_asked_and_the_default_answers_at_once() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.question("a")
    stand.now += LATE_S
    stand.tick()
    placed = one(stand.ask("b", "auto"), fx.Place)
    assert (placed.why, placed.decide_ms) == ("scorer_down", 0.0)
    stand.beat(scorer)
    assert kinds(stand.ask("c", "auto")) == ["AskHelper"]


def test_a_scorer_that_lives_again_gets_one_question_until_it_answers_one() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.question("a")
    stand.now += LATE_S
    stand.tick()
    stand.beat(scorer)
    trial = stand.question("b")
    assert one(stand.ask("c", "auto"), fx.Place).decide_ms == 0.0
    assert len(of(stand.decided(trial), fx.Place)) == 1
    assert [stand.question(rid).worker for rid in ("d", "e")] == [scorer.route] * 2


def test_a_scorer_that_fails_its_trial_costs_nobody_but_the_one_that_tried() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.question("a")
    stand.now += LATE_S
    stand.tick()
    stand.beat(scorer)
    stand.question("b")
    stand.now += LATE_S
    assert one(stand.tick(), fx.Place).rid == "b"
    assert one(stand.ask("c", "auto"), fx.Place).decide_ms == 0.0


def test_a_suspect_scorer_does_not_keep_questions_from_a_sound_one() -> None:
    stand = Stand()
    stand.scorer(b"one", pid=2)
    stand.scorer(b"two", pid=3)
    late = stand.question("a")
    stand.now += LATE_S
    stand.tick()
    others = {stand.question(f"r{n}").worker for n in range(3)}
    assert others == {b"one", b"two"} - {late.worker}


def test_where_the_last_scorer_went_away_owing_an_answer_nobody_waits_for_the_next() -> None:
    stand = Stand()
    stand.scorer()
    stand.question("a")
    stand.now += LATE_S
    stand.tick()
    stand.lose(b"scorer")
    placed = one(stand.ask("b", "auto"), fx.Place)
    assert (placed.why, placed.decide_ms) == ("scorer_down", 0.0)
    stand.scorer(b"next", pid=9)
    asked = stand.question("c")
    assert asked.worker == b"next"
    stand.decided(asked)
    stand.lose(b"next")
    assert stand.ask("d", "auto") == []  # that one owed nothing: the next one is waited for


def test_without_any_scorer_only_the_first_request_waits() -> None:
    stand = Stand()
    assert stand.ask("a", "auto") == []
    assert one(stand.wait(LATE_S), fx.Place).decide_ms == pytest.approx(627.0)
    assert one(stand.ask("b", "auto"), fx.Place).decide_ms == 0.0
    stand.scorer()
    assert stand.question("c").worker == b"scorer"


def test_a_late_decision_clears_the_suspicion() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question("a")
    stand.now += LATE_S
    stand.tick()
    stand.decided(asked)
    assert kinds(stand.ask("b", "auto")) == ["AskHelper"]


def test_the_least_busy_scorer_is_asked() -> None:
    stand = Stand()
    stand.scorer(b"one", pid=2)
    stand.scorer(b"two", pid=3)
    assert [stand.question(f"r{n}").worker for n in range(4)] == [b"one", b"two", b"one", b"two"]


def test_a_scorer_takes_no_more_questions_than_its_credit() -> None:
    stand = Stand(Limits(scorer_credit=2))
    stand.scorer()
    first = stand.question("a")
    stand.question("b")
    assert stand.ask("c", "auto") == []
    again = one(stand.decided(first), fx.AskHelper)
    assert again.ticket == 3


@pytest.mark.parametrize("way", ["cancelled", "expired"])
def test_a_scorer_that_never_answers_gets_its_credit_back(way: str) -> None:
    stand = Stand(Limits(scorer_credit=1))
    scorer = stand.scorer()
    stand.question("a")
    if way == "cancelled":
        stand.cancel("a")
    else:
        stand.wait(LATE_S, scorer)
        stand.beat(scorer)
    assert kinds(stand.ask("b", "auto")) == ["AskHelper"]


def test_only_the_scorer_that_was_asked_may_decide() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.scorer(b"one", pid=2)
    other = stand.scorer(b"two", pid=3)
    asked = stand.question()
    assert stand.decided(asked, peer=worker) == []
    assert stand.decided(asked, peer=other) == []
    assert len(of(stand.decided(asked), fx.Place)) == 1


def test_a_decision_under_a_stale_epoch_is_answered_with_expel() -> None:
    stand = Stand()
    scorer = stand.scorer()
    asked = stand.question()
    stale = Peer(scorer.route, scorer.epoch - 1)
    assert kinds(stand.decided(asked, peer=stale)) == ["Expel"]


def test_the_op_decide_ends_after_its_place_and_binds_nothing() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    asked = stand.question("a", op="decide", conversation="k")
    effects = stand.decided(asked)
    assert kinds(effects) == ["Place", "Answer", "Ended"]
    assert one(effects, fx.Ended).outcome == "decided"
    assert kinds(stand.ask("b", "auto", conversation="k")) == ["AskHelper"]


def test_two_decide_ops_of_one_conversation_are_two_questions() -> None:
    stand = Stand()
    stand.scorer()
    stand.question("a", op="decide", conversation="k")
    assert kinds(stand.ask("b", "auto", op="decide", conversation="k")) == ["AskHelper"]


def test_the_op_decide_does_not_read_a_binding() -> None:
    stand = Stand()
    stand.scorer()
    stand.decided(stand.question("a", conversation="k"))
    assert kinds(stand.ask("b", "auto", op="decide", conversation="k")) == ["AskHelper"]


def test_a_conversation_named_like_an_inner_key_does_not_join_a_decide_op() -> None:
    stand = Stand()
    stand.scorer()
    stand.question("a", op="decide")
    assert kinds(stand.ask("b", "auto", conversation="decide 1")) == ["AskHelper"]


@pytest.mark.parametrize("name", ["M", "em"])
def test_the_op_decide_of_an_explicit_name_has_nothing_to_decide(name: str) -> None:
    stand = Stand()
    stand.scorer()
    assert kinds(stand.ask("a", name, op="decide")) == ["Answer", "Ended"]


def test_a_row_that_cannot_serve_the_request_gives_way_to_the_default() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    placed = one(stand.decided(stand.question(tools=True), "plain"), fx.Place)
    assert (placed.model, placed.rule, placed.wanted) == ("M", "default", "laya-code")


def test_a_decision_for_a_row_nobody_knows_gives_way_to_the_default() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    assert one(stand.decided(stand.question(), "ghost"), fx.Place).model == "M"


def test_a_request_neither_the_row_nor_the_default_can_serve_is_400() -> None:
    stand = Stand(rows=[row("M", tools=False), row("N", tools=False)])
    stand.scorer()
    effects = stand.decided(stand.question(tools=True), "N")
    refused = one(effects, fx.Refuse)
    assert (refused.status, refused.facts) == (400, {"missing": "tools"})
    assert kinds(effects) == ["Refuse", "Ended"]


def test_the_next_turn_of_a_degraded_conversation_gets_the_row_it_wanted() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.scorer()
    run = one(
        stand.decided(stand.question("a", tools=True, conversation="k"), "plain"), fx.Dispatch
    )
    stand.finish(run)
    placed = one(stand.ask("b", "auto", conversation="k"), fx.Place)
    assert (placed.model, placed.wanted) == ("plain", "")


def test_the_place_is_told_before_anything_else_of_the_request() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    effects = stand.decided(stand.question())
    assert kinds(effects) == ["Place", "Dispatch"]
    assert one(effects, fx.Place).client == CLIENT


def test_one_lanes_question_is_not_joined_by_another_lane() -> None:
    stand = Stand()
    stand.scorer()
    stand.question("a", lane="one", conversation="k")
    assert kinds(stand.ask("b", "auto", lane="two", conversation="k")) == ["AskHelper"]
