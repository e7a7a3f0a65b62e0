"""A row that cannot be used: who stands in, what is said of it, and where it ends."""

import pytest

from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.helped import CLIENT, Helped, Peer, facts, of, one


def routed(
    box: Helped, rid: str = "r", *, model: str = "N", class_: str = "code", **fields: object
) -> fx.Dispatch:
    """Have a request decided for a row and return its grant."""
    scorer = box.join("scorer")
    box.chat(rid, **fields)
    return one(box.decide(scorer, model, f"laya-{class_}", class_), fx.Dispatch)


@pytest.mark.parametrize("cause", ["pull_failed", "pull_timeout", "load_failed", ""])
def test_the_fallback_of_the_class_stands_in_and_the_client_is_told(cause: str) -> None:
    box = Helped()
    box.join("store")
    effects = box.unusable(routed(box), cause)
    placed = one(effects, fx.Place)
    assert (placed.rule, placed.wanted, placed.why) == ("default", "laya-code", "")
    assert (placed.model, placed.device, placed.degraded) == ("S", "hrx", cause or "load_failed")
    assert (placed.class_, placed.decision) == ("code", b"{D}")
    assert one(effects, fx.Dispatch).model == "S"
    assert not of(effects, fx.Refuse)


def test_another_template_is_a_why_and_no_reason() -> None:
    box = Helped()
    placed = one(box.unusable(routed(box), "template_mismatch"), fx.Place)
    assert (placed.rule, placed.wanted) == ("default", "laya-code")
    assert (placed.why, placed.degraded) == ("template_mismatch", "")


def test_the_stand_ins_answer_is_the_clients() -> None:
    box = Helped()
    stand_in = one(box.unusable(routed(box), "load_failed"), fx.Dispatch)
    assert one(box.finish(stand_in), fx.Answer).body == b"reply"
    assert (box.open, box.count("degraded")) == (0, 1)


def test_without_a_fallback_the_default_stands_in() -> None:
    box = Helped(fallback="")
    assert one(box.unusable(routed(box), "load_failed"), fx.Place).model == "M"


def test_a_class_without_a_fallback_of_its_own_gets_the_default() -> None:
    box = Helped()
    placed = one(box.unusable(routed(box, class_="prose"), "load_failed"), fx.Place)
    assert (placed.model, placed.wanted) == ("M", "laya-prose")


def test_a_fallback_that_is_the_broken_row_itself_is_passed_over() -> None:
    box = Helped(fallback="N")
    assert one(box.unusable(routed(box), "load_failed"), fx.Place).model == "M"


def test_a_fallback_that_cannot_serve_this_request_is_passed_over() -> None:
    box = Helped(rows=[facts("N", tools=True), facts("M", tools=True)])
    assert one(box.unusable(routed(box, tools=True), "load_failed"), fx.Place).model == "M"


def test_where_no_row_can_serve_this_request_the_failure_is_the_answer() -> None:
    box = Helped(rows=[facts("N", tools=True)])
    effects = box.unusable(routed(box, tools=True), "load_failed")
    refused = one(effects, fx.Refuse)
    assert (refused.status, refused.code) == (503, "model_not_usable")
    assert not of(effects, fx.Place)


def test_a_stand_in_on_another_device_runs_there() -> None:
    box = Helped(fallback="P")
    effects = box.unusable(routed(box), "load_failed")
    assert one(effects, fx.Place).device == "npu"
    assert one(effects, fx.Dispatch).worker == box.npu.route


@pytest.mark.parametrize("first", ["load_failed", "template_mismatch"])
@pytest.mark.parametrize("second", ["load_failed", "template_mismatch"])
def test_where_the_fallback_is_broken_too_the_default_answers_for_the_first_reason(
    first: str, second: str
) -> None:
    box = Helped()
    fallback = one(box.unusable(routed(box), first), fx.Dispatch)
    effects = box.unusable(fallback, second)
    placed = one(effects, fx.Place)
    assert (placed.model, placed.wanted) == ("M", "laya-code")
    assert {placed.why, placed.degraded} == {first, ""}
    refused = one(box.unusable(one(effects, fx.Dispatch), second), fx.Refuse)
    assert (refused.status, refused.code) == (503, "model_not_usable")
    assert (box.open, box.count("degraded")) == (0, 1)


@pytest.mark.parametrize("cause", ["load_failed", "template_mismatch"])
def test_a_broken_default_has_nobody_to_stand_in(cause: str) -> None:
    box = Helped()
    run = routed(box, model="M", class_="short")
    assert one(box.unusable(run, cause), fx.Refuse).code == "model_not_usable"
    assert box.open == 0


def test_a_broken_default_has_the_fallback_of_its_class() -> None:
    box = Helped()
    assert one(box.unusable(routed(box, model="M"), "load_failed"), fx.Place).model == "S"


def test_a_default_for_want_of_a_scorer_that_is_broken_too_ends_in_503() -> None:
    box = Helped()
    box.chat()
    run = one(box.wait(box.limits.decide_s + 0.01), fx.Dispatch)
    assert one(box.unusable(run, "load_failed"), fx.Refuse).status == 503


@pytest.mark.parametrize("cause", ["load_failed", "template_mismatch"])
def test_an_explicit_name_never_degrades(cause: str) -> None:
    box = Helped()
    effects = box.unusable(one(box.chat(name="N"), fx.Dispatch), cause)
    assert one(effects, fx.Refuse).code == "model_not_usable"
    assert not of(effects, fx.Place)


@pytest.mark.parametrize("code", ["engine_failed", "context_length_exceeded", "unsupported_field"])
def test_a_failure_of_the_job_and_not_of_the_row_degrades_nothing(code: str) -> None:
    box = Helped()
    effects = box.fail(routed(box), code=code)
    assert one(effects, fx.Refuse).code == code
    assert not of(effects, fx.Place)


def test_an_answer_that_began_is_not_begun_again() -> None:
    box = Helped()
    run = routed(box, stream=True)
    box.produce(run)
    assert one(box.fail(run, "load_failed"), fx.Refuse).began
    assert box.open == 0


def test_a_withdrawn_request_has_nobody_to_stand_in() -> None:
    box = Helped()
    run = routed(box)
    box.send(ev.Cancelled(box.now, CLIENT, "r"))
    effects = box.fail(run, "load_failed")
    assert not of(effects, fx.Place)
    assert not of(effects, fx.Refuse)
    assert box.open == 0


def test_a_withdrawn_stand_in_leaves_the_box_empty() -> None:
    box = Helped()
    stand_in = one(box.unusable(routed(box), "load_failed"), fx.Dispatch)
    box.send(ev.Cancelled(box.now, CLIENT, "r"))
    box.finish(stand_in)
    assert box.open == 0


def test_the_next_turn_has_the_wanted_row_again_once_it_has_rested() -> None:
    box = Helped()
    box.finish(one(box.unusable(routed(box, "a", conversation="k"), "load_failed"), fx.Dispatch))
    last = of(box.chat("b", conversation="k"), fx.Place)[-1]
    assert (last.model, last.wanted, last.degraded) == ("S", "laya-code", "load_failed")
    box.wait(6.0)
    effects = box.chat("c", conversation="k")
    placed = one(effects, fx.Place)
    assert (placed.rule, placed.model, placed.wanted, placed.degraded) == ("laya-code", "N", "", "")
    assert placed.decide_ms is None


def test_the_time_of_the_decision_is_said_with_the_stand_in() -> None:
    box = Helped()
    scorer = box.join("scorer")
    box.chat()
    box.now += 0.02
    run = one(box.decide(scorer), fx.Dispatch)
    assert one(box.unusable(run, "load_failed"), fx.Place).decide_ms == pytest.approx(20.0)


def test_a_stand_in_and_what_waited_both_get_their_turn() -> None:
    box = Helped()
    run = routed(box, "a")
    box.chat("b", name="M")
    first = one(box.unusable(run, "load_failed"), fx.Dispatch)
    second = one(box.finish(first), fx.Dispatch)
    assert {first.model, second.model} == {"M", "S"}


def test_a_stand_in_survives_the_loss_of_its_worker() -> None:
    box = Helped()
    box.unusable(routed(box), "load_failed")
    box.lose(box.hrx.route)
    effects = box.joining("hrx", "hrx0")
    box.hrx = Peer(one(effects, fx.Admit).worker, one(effects, fx.Admit).epoch)
    assert one(effects, fx.Dispatch).model == "S"
    assert one(box.finish(one(effects, fx.Dispatch)), fx.Answer).body == b"reply"


def test_the_record_of_the_end_says_that_it_was_degraded() -> None:
    box = Helped()
    stand_in = one(box.unusable(routed(box), "load_failed"), fx.Dispatch)
    ended = one(box.finish(stand_in), fx.Ended)
    assert (ended.model, ended.degraded, ended.outcome) == ("S", "load_failed", "answered")
