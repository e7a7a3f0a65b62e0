"""Rows that are not on disk: who waits, for how long, what clients hear, and what becomes of them."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import CLIENT, Peer, Stand, kinds, of, one, row

ROWS = (row("M"), row("N"), row("S"), row("P", "npu"))


def cold(*, budget_s: float = 600.0, **states: str) -> tuple[Stand, Peer]:
    """Return a box with workers and a store that has said of N and others that they are missing."""
    stand = Stand(rows=ROWS, budget_s=budget_s)
    stand.worker()
    stand.scorer()
    store = stand.store()
    stand.stocked(store, **({"N": "missing", "M": "ready"} | states))
    return stand, store


def routed(stand: Stand, rid: str = "r", model: str = "N", **fields: object) -> list[fx.Effect]:
    """Have a request decided for a row, class code."""
    asked = stand.question(rid, **fields)
    return stand.decided(asked, model)


def alive(stand: Stand) -> list[Peer]:
    """Return all workers of a box, to beat while time passes."""
    return [Peer(route, epoch) for route, epoch in stand.epochs.items()]


def state(stand: Stand, rid: str = "r") -> str:
    """Return the last thing in a request's story."""
    story = stand.core.story(rid)
    assert story is not None
    return story[-1][1]


# --- pulling ----------------------------------------------------------------------------------------


def test_a_row_that_is_missing_is_pulled_and_its_ticket_holds_no_device() -> None:
    stand, store = cold()
    effects = stand.ask("r", "N")
    assert one(effects, fx.Fetch) == fx.Fetch(store.route, "N")
    assert not of(effects, fx.Dispatch)
    assert state(stand) == "pulling"
    assert one(stand.ask("other", "M"), fx.Dispatch).model == "M"


def test_one_pull_and_one_load_serve_all_who_wait() -> None:
    stand, store = cold()
    first = stand.ask("a", "N")
    later = [effect for rid in "bcd" for effect in stand.ask(rid, "N")]
    assert kinds(of(first + later, fx.Fetch)) == ["Fetch"]
    run = one(stand.pulled(store, "N"), fx.Dispatch)
    answered = [run.model]
    for _ in range(3):
        run = one(stand.finish(run), fx.Dispatch)
        answered.append(run.model)
    stand.finish(run)
    assert answered == ["N"] * 4
    assert stand.core.snapshot(stand.now)["counts"]["pulls"] == 1  # type: ignore[index]  # a view


def test_the_times_of_pull_and_load_are_told_apart() -> None:
    stand, store = cold()
    routed(stand)
    stand.now += 2.5
    run = one(stand.pulled(store, "N"), fx.Dispatch)
    stand.now += 1.0
    effects = stand.finish(run, load_s=0.75)
    answer, ended = one(effects, fx.Answer), one(effects, fx.Ended)
    assert answer.pull_ms == pytest.approx(2500.0)
    assert answer.load_ms == pytest.approx(750.0)
    assert answer.queue_ms == pytest.approx(0.0)
    assert ended.pulled_s == pytest.approx(2.5)
    assert ended.loaded_s == pytest.approx(0.75)
    (seen,) = stand.core.live(stand.now)["recent"]["ended"]  # type: ignore[index]  # a view
    assert (seen["pulled_s"], seen["loaded_s"]) == (2.5, 0.75)


def test_the_record_of_a_degraded_answer_names_its_class_and_the_rule_it_wanted() -> None:
    stand, store = cold()
    routed(stand)
    run = one(stand.pulled(store, "N", "pull_failed"), fx.Dispatch)
    ended = one(stand.finish(run), fx.Ended)
    assert (ended.rule, ended.wanted, ended.class_) == ("default", "laya-code", "code")
    assert (ended.model, ended.degraded) == ("M", "pull_failed")


def test_the_record_of_a_wanted_rows_answer_names_no_other_rule_and_no_pull() -> None:
    stand, _ = cold(N="ready")
    ended = one(stand.finish(one(routed(stand), fx.Dispatch)), fx.Ended)
    assert (ended.rule, ended.wanted, ended.class_) == ("laya-code", "", "code")
    assert (ended.pulled_s, ended.loaded_s) == (None, None)


def test_an_explicit_names_answer_tells_no_times() -> None:
    stand, store = cold()
    stand.ask("r", "N")
    run = one(stand.pulled(store, "N"), fx.Dispatch)
    assert one(stand.finish(run), fx.Answer).pull_ms is None


def test_a_second_request_finds_the_file() -> None:
    stand, store = cold()
    routed(stand)
    stand.finish(one(stand.pulled(store, "N"), fx.Dispatch))
    run = one(routed(stand, "again"), fx.Dispatch)
    assert one(stand.finish(run), fx.Answer).pull_ms is None


def test_what_nobody_has_said_anything_of_is_left_to_its_devices_worker() -> None:
    stand = Stand(rows=ROWS)
    stand.worker()
    stand.store()
    assert one(stand.ask("r", "N"), fx.Dispatch).model == "N"


def test_a_workers_word_that_a_row_is_missing_starts_the_pull() -> None:
    stand = Stand(rows=ROWS)
    stand.worker()
    store = stand.store()
    run = one(stand.ask("r", "N"), fx.Dispatch)
    effects = stand.fail(run, code="model_not_usable", cause="pull_failed")
    assert one(effects, fx.Fetch).model == "N"
    assert one(stand.pulled(store, "N"), fx.Dispatch).model == "N"


def test_a_row_that_is_still_missing_for_its_worker_after_the_pull_is_not_pulled_for_ever() -> None:
    stand, store = cold()
    routed(stand)
    run = one(stand.pulled(store, "N"), fx.Dispatch)
    effects = stand.fail(run, code="model_not_usable", cause="pull_failed")
    assert not of(effects, fx.Fetch)
    assert one(effects, fx.Place).degraded == "pull_failed"


def test_the_store_is_asked_by_the_row_of_the_table_and_nothing_else() -> None:
    stand, store = cold()
    stand.stocked(store, ghost="missing")
    assert one(stand.ask("r", "ghost"), fx.Refuse).code == "model_not_found"
    assert one(stand.ask("p", "ghost", op="pull"), fx.Refuse).code == "model_not_found"


# --- what clients hear ------------------------------------------------------------------------------


def test_a_stream_hears_at_once_and_then_every_five_seconds() -> None:
    stand, store = cold()
    first = one(stand.ask("r", "N", stream=True), fx.Tell)
    assert (first.stage, first.model, first.done, first.total) == ("pull", "N", 0, None)
    heard: list[tuple[float, int, int | None]] = []
    for second in range(1, 16):
        stand.moved(store, "N", second, 100)
        told = of(stand.wait(1.0, *alive(stand)), fx.Tell)
        heard += [(second, one.done, one.total) for one in told]
    assert [at for at, _, _ in heard] == [5, 10, 15]
    assert heard[-1][1:] == (15, 100)


def test_a_whole_answer_is_acknowledged_and_hears_nothing_of_the_pull() -> None:
    stand, store = cold()
    assert not of(stand.ask("r", "N"), fx.Tell)
    effects = stand.wait(12.0, store)
    assert not of(effects, fx.Tell)
    assert len(of(effects, fx.Acknowledge)) == 1


def test_who_waits_for_a_pull_is_placed_and_told_so() -> None:
    stand, _ = cold()
    placed = one(routed(stand), fx.Place)
    assert (placed.rule, placed.model, placed.degraded) == ("laya-code", "N", "")


# --- bounds and withdrawal --------------------------------------------------------------------------


def test_who_waits_for_a_pull_counts_in_the_bounds() -> None:
    stand = Stand(Limits(queue_per_lane=2), rows=ROWS)
    stand.worker()
    store = stand.store()
    stand.stocked(store, N="missing")
    stand.ask("a", "N")
    stand.ask("b", "N")
    assert one(stand.ask("c", "N"), fx.Refuse).status == 429
    stand.cancel("a")
    assert not of(stand.ask("d", "N"), fx.Refuse)


def test_a_client_that_leaves_ends_its_wait_and_not_the_pull() -> None:
    stand, store = cold()
    stand.ask("a", "N")
    stand.ask("b", "N")
    assert one(stand.cancel("a"), fx.Ended).outcome == "cancelled"
    stand.lose_client()
    assert stand.core.snapshot(stand.now)["counts"]["cancelled"] == 2  # type: ignore[index]  # a view
    assert not of(stand.ask("c", "N"), fx.Fetch)  # it is under way
    assert one(stand.pulled(store, "N"), fx.Dispatch).model == "N"


def test_who_waits_for_a_pull_is_not_seen_by_on_busy_and_not_picked() -> None:
    stand, _ = cold()
    stand.ask("a", "N", lane="other")
    view = stand.core.snapshot(stand.now)["devices"]["hrx0"]  # type: ignore[index]  # a view
    assert (view["waiting"], view["holders"]) == (0, [])


# --- the budget -------------------------------------------------------------------------------------


def test_at_the_end_of_the_budget_another_row_answers_and_the_pull_goes_on() -> None:
    stand, store = cold(budget_s=30.0)
    routed(stand)
    assert not of(stand.wait(29.0, *alive(stand)), fx.Dispatch)
    effects = stand.wait(1.5, *alive(stand))
    placed = one(effects, fx.Place)
    assert (placed.rule, placed.model, placed.wanted) == ("default", "M", "laya-code")
    assert (placed.degraded, placed.why) == ("pull_timeout", "")
    answer = one(stand.finish(one(effects, fx.Dispatch)), fx.Answer)
    assert answer.pull_ms == pytest.approx(30_000.0)
    stand.pulled(store, "N")
    assert one(routed(stand, "next"), fx.Dispatch).model == "N"


def test_each_request_has_a_budget_of_its_own_from_when_it_began_to_wait() -> None:
    stand, _ = cold(budget_s=30.0)
    routed(stand, "early")
    stand.wait(20.0, *alive(stand))
    routed(stand, "late")
    assert [p.rid for p in of(stand.wait(15.0, *alive(stand)), fx.Place)] == ["early"]
    assert [p.rid for p in of(stand.wait(16.0, *alive(stand)), fx.Place)] == ["late"]


def test_a_deadline_before_the_budgets_end_leaves_time_for_the_stand_in() -> None:
    stand, _ = cold()
    routed(stand, expires_in=40.0)
    effects = stand.wait(31.0, *alive(stand))
    assert one(effects, fx.Place).degraded == "pull_timeout"
    assert one(effects, fx.Dispatch).model == "M"


def test_no_budget_at_all_means_the_stand_in_at_once_and_the_file_for_the_next() -> None:
    stand, store = cold(budget_s=0.0)
    effects = routed(stand)
    assert one(effects, fx.Fetch).model == "N"
    assert of(effects, fx.Place)[-1].degraded == "pull_timeout"
    stand.finish(one(effects, fx.Dispatch))
    stand.pulled(store, "N")
    assert one(routed(stand, "next"), fx.Dispatch).model == "N"


def test_an_explicit_name_whose_time_is_over_hears_that_the_pull_goes_on() -> None:
    stand, store = cold(budget_s=30.0)
    stand.ask("r", "N")
    stand.moved(store, "N", 1, 4)
    refused = one(stand.wait(31.0, store), fx.Refuse)
    assert (refused.status, refused.code, refused.facts["cause"]) == (
        503, "model_not_usable", "pull_timeout",
    )  # fmt: skip
    assert "the pull goes on" in refused.message
    assert "`fairlane pull N`" in refused.message
    assert refused.retry_after_s == 60.0  # 90 s are expected, and clients ignore more than 60


# --- failures ---------------------------------------------------------------------------------------


def test_a_pull_that_fails_lets_the_default_answer_and_the_next_ones_at_once() -> None:
    stand, store = cold()
    routed(stand, "a", conversation="k")
    effects = stand.pulled(store, "N", "pull_failed", "HTTP 404")
    assert one(effects, fx.Place).degraded == "pull_failed"
    stand.finish(one(effects, fx.Dispatch))
    again = stand.ask("b", "auto", conversation="k")
    assert not of(again, fx.Fetch)
    assert of(again, fx.Place)[-1].degraded == "pull_failed"
    stand.finish(one(again, fx.Dispatch))
    stand.wait(6.0, *alive(stand))
    assert one(stand.ask("c", "auto", conversation="k"), fx.Fetch).model == "N"


def test_the_classes_fallback_answers_if_it_is_ready() -> None:
    stand, store = cold(P="ready")
    stand.ready(b"npu", "npu", "npu0", pid=3)
    routed(stand)
    effects = stand.pulled(store, "N", "pull_failed")
    assert one(effects, fx.Place).model == "P"
    assert one(effects, fx.Dispatch).worker == b"npu"


def test_a_fallback_that_is_missing_itself_is_not_pulled() -> None:
    stand, store = cold(P="missing")
    routed(stand)
    effects = stand.pulled(store, "N", "pull_failed")
    assert not of(effects, fx.Fetch)
    assert one(effects, fx.Place).model == "M"


def test_another_template_is_a_why_and_no_reason_and_nothing_is_pulled_again() -> None:
    stand, store = cold()
    routed(stand, "a")
    placed = one(stand.pulled(store, "N", "template_mismatch", "other digest"), fx.Place)
    assert (placed.why, placed.degraded, placed.wanted) == ("template_mismatch", "", "laya-code")
    stand.wait(1000.0, *alive(stand))
    effects = routed(stand, "b")
    assert not of(effects, fx.Fetch)
    assert of(effects, fx.Place)[-1].why == "template_mismatch"
    refused = one(stand.ask("c", "N"), fx.Refuse)
    assert (refused.code, refused.facts["cause"]) == ("model_not_usable", "template_mismatch")
    assert "fairlane template show" in refused.message
    assert refused.retry_after_s is None


def test_a_row_is_in_again_when_the_store_says_so() -> None:
    stand, store = cold(N="mismatch")
    assert of(routed(stand, "a"), fx.Place)[-1].why == "template_mismatch"
    stand.cancel("a")

    stand.stocked(store, N="ready")
    assert of(routed(stand, "b"), fx.Place)[-1].why == ""


def test_a_mismatch_found_while_requests_wait_ends_their_wait() -> None:
    stand, store = cold()
    routed(stand)
    assert one(stand.stocked(store, N="mismatch"), fx.Place).why == "template_mismatch"


def test_the_default_is_pulled_too_where_nothing_is_here_to_stand_in() -> None:
    stand, store = cold(M="missing")
    assert [f.model for f in of(routed(stand), fx.Fetch)] == ["N", "M"]
    effects = stand.pulled(store, "N", "pull_failed")
    assert one(effects, fx.Place).model == "M"
    assert not of(effects, fx.Dispatch)
    run = one(stand.pulled(store, "M"), fx.Dispatch)
    assert run.model == "M"


def test_the_default_is_left_alone_where_the_fallback_is_ready() -> None:
    stand, _ = cold(M="missing", P="ready")
    stand.ready(b"npu", "npu", "npu0", pid=3)
    assert [f.model for f in of(routed(stand), fx.Fetch)] == ["N"]


def test_where_not_even_the_default_comes_the_client_is_told_what_to_do() -> None:
    stand, store = cold(M="missing")
    routed(stand)
    stand.pulled(store, "N", "pull_failed", "HTTP 404")
    refused = one(stand.pulled(store, "M", "pull_failed", "the disk is full"), fx.Refuse)
    assert (refused.status, refused.code) == (503, "model_not_usable")
    assert refused.message == (
        "Model 'M' cannot be used: the disk is full. "
        "`fairlane pull M` tries again and shows how far it is."
    )
    assert refused.facts["retryable"] is True


def test_the_default_has_what_is_left_of_the_budget() -> None:
    stand, store = cold(budget_s=30.0, M="missing")
    routed(stand)
    stand.wait(20.0, *alive(stand))
    stand.pulled(store, "N", "pull_failed")
    assert not of(stand.wait(9.0, *alive(stand)), fx.Refuse)
    assert one(stand.wait(2.0, *alive(stand)), fx.Refuse).facts["cause"] == "pull_timeout"


def test_a_stand_in_that_cannot_serve_the_request_is_passed_over() -> None:
    stand = Stand(rows=[row("M", tools=False), row("N"), row("P", "npu")])
    stand.worker()
    stand.scorer()
    store = stand.store()
    stand.stocked(store, N="missing", M="ready", P="missing")
    routed(stand, tools=True)
    refused = one(stand.pulled(store, "N", "pull_failed", "HTTP 500"), fx.Refuse)
    assert (refused.status, refused.facts["cause"]) == (503, "pull_failed")


# --- the store comes and goes -----------------------------------------------------------------------


def test_a_store_that_comes_back_is_asked_again_and_no_ticket_is_lost() -> None:
    stand, store = cold()
    stand.ask("r", "N")
    stand.lose(store.route)
    del stand.epochs[store.route]
    stand.wait(10.0, *alive(stand))
    effects = stand.ready(b"store 2", "store", "", pid=14)
    assert one(effects, fx.Fetch) == fx.Fetch(b"store 2", "N")
    back = Peer(b"store 2", stand.epochs[b"store 2"])
    assert one(stand.pulled(back, "N"), fx.Dispatch).model == "N"


def test_a_row_asked_for_while_the_store_is_away_is_pulled_when_it_is_there() -> None:
    stand, store = cold()
    stand.lose(store.route)
    assert not of(stand.ask("r", "N"), fx.Fetch)
    assert one(stand.ready(b"store 2", "store", "", pid=14), fx.Fetch).model == "N"


def test_a_store_that_stays_away_is_not_waited_for_any_longer() -> None:
    stand, store = cold()
    routed(stand)
    stand.lose(store.route)
    del stand.epochs[store.route]
    effects = stand.wait(31.5, *alive(stand))
    assert one(effects, fx.Place).degraded == "pull_failed"
    stand.finish(one(effects, fx.Dispatch))
    refused = one(stand.ask("next", "N"), fx.Refuse)
    assert (refused.status, refused.facts["cause"]) == (503, "pull_failed")
    assert "no store worker" in refused.message


def test_what_the_store_said_of_the_rows_outlives_a_restart_of_the_broker() -> None:
    stand, _ = cold()
    restarted = ev.Restarted(stand.now, 2, True, 0.0, stand.core._box.catalogue, stand.limits, {})
    stand.send(restarted)
    stand.worker()
    assert not of(stand.ask("r", "N"), fx.Dispatch)
    stand.store()
    assert state(stand) == "pulling"


def test_a_pull_that_an_earlier_broker_began_is_shown_and_joined() -> None:
    stand, store = cold()
    stand.moved(store, "N", 5, 10)
    assert not of(stand.ask("r", "N"), fx.Fetch)
    assert one(stand.pulled(store, "N"), fx.Dispatch).model == "N"


@pytest.mark.parametrize("kind", ["scorer", "hrx"])
def test_only_a_store_may_say_what_is_on_disk(kind: str) -> None:
    stand, _ = cold()
    peer = Peer(kind.encode(), stand.epochs[kind.encode()])
    stand.ask("r", "N")
    for said in (
        stand.stocked(peer, N="ready"), stand.moved(peer, "N", 1), stand.pulled(peer, "N"),
    ):  # fmt: skip
        assert said == []
    assert state(stand) == "pulling"
    assert stand.core.snapshot(stand.now)["counts"]["fenced"] == 3  # type: ignore[index]  # a view


# --- loads that fail --------------------------------------------------------------------------------


def test_a_load_that_fails_is_tried_once_more() -> None:
    stand, _ = cold(N="ready")
    run = one(routed(stand), fx.Dispatch)
    again = one(stand.fail(run, code="model_not_usable", cause="load_failed"), fx.Dispatch)
    assert (again.model, again.ticket) == ("N", run.ticket)
    answer = one(stand.finish(again), fx.Answer)
    assert answer.status == 200
    assert stand.core.snapshot(stand.now)["counts"]["load_retries"] == 1  # type: ignore[index]  # a view


def break_row(stand: Stand, run: fx.Dispatch) -> list[fx.Effect]:
    """Let a row's load fail twice."""
    again = one(stand.fail(run, code="model_not_usable", cause="load_failed"), fx.Dispatch)
    return stand.fail(again, code="model_not_usable", cause="load_failed")


def test_a_row_that_does_not_load_rests_and_longer_each_time() -> None:
    stand, _ = cold(N="ready")
    run = one(routed(stand, "first", conversation="k"), fx.Dispatch)
    stand.finish(one(break_row(stand, run), fx.Dispatch))
    for pause_s in (5.0, 15.0, 60.0, 300.0, 300.0):
        refused = one(stand.ask("explicit", "N"), fx.Refuse)
        assert (refused.status, refused.facts["cause"]) == (503, "load_failed")
        assert refused.retry_after_s == min(60.0, pause_s)
        effects = stand.ask("routed", "auto", conversation="k")
        assert of(effects, fx.Place)[-1].degraded == "load_failed"
        stand.finish(one(effects, fx.Dispatch))
        stand.wait(pause_s + 0.1, *alive(stand))
        probe = one(stand.ask("probe", "N"), fx.Dispatch)
        assert probe.model == "N"
        assert one(stand.fail(probe, code="model_not_usable"), fx.Refuse).status == 503


def test_a_row_that_loads_again_has_no_past() -> None:
    stand, _ = cold(N="ready")
    effects = break_row(stand, one(routed(stand), fx.Dispatch))
    stand.finish(one(effects, fx.Dispatch))
    stand.wait(6.0, *alive(stand))
    stand.finish(one(stand.ask("probe", "N"), fx.Dispatch))
    assert stand.core._box.rests.rows == {}


def test_who_waits_for_a_row_that_comes_to_rest_has_another_one_at_once() -> None:
    stand, _ = cold(N="ready")
    run = one(routed(stand, "a"), fx.Dispatch)
    routed(stand, "b")
    stand.ask("explicit", "N")
    effects = break_row(stand, run)
    assert {p.rid: p.degraded for p in of(effects, fx.Place)} == {
        "a": "load_failed", "b": "load_failed",
    }  # fmt: skip
    assert one(effects, fx.Refuse).rid == "explicit"
    assert {d.model for d in of(effects, fx.Dispatch)} == {"M"}


def test_two_seats_that_wait_for_one_load_count_its_failure_once() -> None:
    stand = Stand(rows=[row("M"), row("N", slots=2), row("P", "npu")])
    stand.worker(seats=2)
    runs = [one(stand.ask(rid, "N"), fx.Dispatch) for rid in "ab"]
    stand.now += 1.0
    failed = [stand.fail(run, code="model_not_usable", cause="load_failed") for run in runs]
    again = of([effect for effects in failed for effect in effects], fx.Dispatch)
    assert [run.model for run in again] == ["N", "N"]
    assert stand.core._box.rests.rows["N"].failures == 1


def test_a_client_that_gives_up_on_a_load_costs_the_others_no_second_one() -> None:
    stand, _ = cold(N="ready")
    run = one(stand.ask("a", "N"), fx.Dispatch)
    stand.stage(run, "load")
    stand.ask("b", "N")
    assert kinds(stand.cancel("a")) == ["Halt"]
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), [])
    effects = stand.finish(run, cancelled=True)  # the load ran to its end
    second = one(effects, fx.Dispatch)
    assert (second.model, second.evict) == ("N", [])
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), ["N"])
    answer = one(stand.finish(second), fx.Answer)
    assert answer.status == 200


# --- pulling for its own sake -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["N", "code"])
def test_a_row_is_pulled_by_its_name_or_its_class_with_progress(name: str) -> None:
    stand, store = cold()
    effects = stand.ask("p", name, op="pull")
    assert one(effects, fx.Fetch).model == "N"
    assert one(effects, fx.Tell).model == "N"
    told = one(stand.moved(store, "N", 5, 10), fx.Tell)
    assert (told.stage, told.done, told.total) == ("pull", 5, 10)
    stand.now += 2.0
    effects = stand.pulled(store, "N")
    assert kinds(effects) == ["Record", "Answer", "Ended"]
    assert one(effects, fx.Answer).pull_ms == pytest.approx(2000.0)
    assert not of(effects, fx.Dispatch)


def test_a_row_that_is_here_needs_no_pull() -> None:
    stand, _ = cold()
    effects = stand.ask("p", "M", op="pull")
    assert kinds(effects) == ["Answer", "Ended"]
    assert one(effects, fx.Answer).pull_ms is None


def test_a_row_that_nobody_has_said_anything_of_is_asked_for() -> None:
    stand, store = cold()
    assert one(stand.ask("p", "S", op="pull"), fx.Fetch).model == "S"
    assert one(stand.pulled(store, "S"), fx.Answer).status == 200


@pytest.mark.parametrize("cause", ["pull_failed", "template_mismatch"])
def test_a_pull_that_fails_is_told_to_who_asked_for_it(cause: str) -> None:
    stand, store = cold()
    stand.ask("p", "N", op="pull")
    refused = one(stand.pulled(store, "N", cause, "HTTP 404"), fx.Refuse)
    assert (refused.status, refused.code, refused.facts["cause"]) == (
        503, "model_not_usable", cause,
    )  # fmt: skip
    assert "HTTP 404" in refused.message


def test_a_pull_by_hand_does_not_wait_for_the_rest_of_a_row() -> None:
    stand, store = cold()
    stand.ask("a", "N")
    stand.pulled(store, "N", "pull_failed")
    assert one(stand.ask("b", "N"), fx.Refuse).code == "model_not_usable"
    assert one(stand.ask("p", "N", op="pull"), fx.Fetch).model == "N"
    stand.pulled(store, "N")
    assert one(stand.ask("c", "N"), fx.Dispatch).model == "N"


def test_a_pull_by_hand_has_no_budget_and_may_be_left() -> None:
    stand, store = cold(budget_s=10.0)
    stand.ask("p", "N", op="pull", expires_in=3600.0)
    assert not of(stand.wait(100.0, store), fx.Refuse)
    assert one(stand.cancel("p"), fx.Ended).outcome == "cancelled"
    stand.ask("again", "N", op="pull", expires_in=10.0)
    assert one(stand.wait(11.0, store), fx.Refuse).code == "deadline_exceeded"


def test_of_a_row_with_another_template_the_store_looks_again_by_hand_only() -> None:
    stand, store = cold(N="mismatch")
    assert one(stand.ask("r", "N"), fx.Refuse).facts["cause"] == "template_mismatch"
    assert one(stand.ask("p", "N", op="pull", client=CLIENT), fx.Fetch).model == "N"
    refused = one(stand.pulled(store, "N", "template_mismatch", "still"), fx.Refuse)
    assert refused.facts["cause"] == "template_mismatch"
    stand.ask("p", "N", op="pull")
    stand.pulled(store, "N")
    assert one(stand.ask("r", "N"), fx.Dispatch).model == "N"
