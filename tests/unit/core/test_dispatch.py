"""From the queue to a seat to the end of an answer."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import CLIENT, Stand, kinds, of, one


def test_a_grant_hands_the_request_over_as_it_came() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("r", "M", op="completion", stream=True, conversation="k", body=b"the request")
    assert run == fx.Dispatch(
        worker.route, 1, run.lease, "completion", "M", True, "k", b"the request"
    )


def test_an_answer_ends_its_request_with_all_facts_on_its_record() -> None:
    stand = Stand()
    stand.worker()
    first = stand.run("first")
    stand.ask("second")
    stand.now += 2.0
    run = one(stand.finish(first), fx.Dispatch)
    stand.now += 3.0
    answer, ended = stand.finish(run, body=b"the reply")
    assert answer == fx.Answer(CLIENT, "second", None, None, None, b"the reply")
    assert isinstance(ended, fx.Ended)
    assert (ended.outcome, ended.waited_s, ended.ran_s) == ("answered", 2.0, 3.0)
    assert (ended.prompt_tokens, ended.cached_tokens, ended.output_tokens) == (7, 3, 5)


def test_the_next_ticket_starts_in_the_same_instant() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("a")
    stand.ask("b")
    assert kinds(stand.finish(run)) == ["Answer", "Ended", "Dispatch"]


def routed(stand: Stand, *, stream: bool = False) -> fx.Dispatch:
    """Ask for `auto`, half a second before a worker is there."""
    stand.scorer()
    stand.decided(stand.question(stream=stream))
    stand.now += 0.5
    return one(stand.ready(), fx.Dispatch)


def test_a_routed_answer_says_how_long_it_waited_loaded_and_thought() -> None:
    stand = Stand()
    run = routed(stand)
    stand.now += 4.0
    done = ev.Finished(
        stand.now, run.worker, stand.epochs[b"hrx"], run.ticket, run.lease, False, 1.5, 2.0, 0, 0, 0,
        b"",
    )  # fmt: skip
    answer = one(stand.send(done), fx.Answer)
    assert (answer.queue_ms, answer.load_ms, answer.ttft_ms) == (500.0, 1500.0, 2500.0)


def test_the_first_piece_of_a_routed_answer_carries_the_times_and_later_ones_do_not() -> None:
    stand = Stand()
    run = routed(stand, stream=True)
    stand.now += 0.25
    first = ev.Produced(
        stand.now, run.worker, stand.epochs[b"hrx"], run.ticket, run.lease, 1, 0.125, b"p"
    )
    relay = one(stand.send(first), fx.Relay)
    assert (relay.seq, relay.queue_ms, relay.load_ms, relay.ttft_ms) == (1, 500.0, 125.0, 750.0)
    assert one(stand.produce(run, 2), fx.Relay) == fx.Relay(
        CLIENT, "r", 2, None, None, None, b"piece"
    )


def test_an_explicit_names_answer_carries_no_times() -> None:
    stand = Stand()
    stand.worker()
    relay = one(stand.produce(stand.run(stream=True)), fx.Relay)
    assert (relay.queue_ms, relay.load_ms, relay.ttft_ms) == (None, None, None)


def test_a_stage_is_told_to_the_client() -> None:
    stand = Stand()
    stand.worker()
    assert stand.stage(stand.run(), "load") == [fx.Tell(CLIENT, "r", "load", 0, None)]


def test_a_failure_is_the_clients_answer() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.now += 5.0
    refused, ended = stand.fail(run, 400, "context_length_exceeded")
    assert isinstance(refused, fx.Refuse)
    assert isinstance(ended, fx.Ended)
    assert (refused.status, refused.code, refused.began) == (400, "context_length_exceeded", False)
    assert (ended.outcome, ended.ran_s) == ("context_length_exceeded", 5.0)


def test_a_failure_in_mid_answer_says_that_it_began() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run(stream=True)
    stand.produce(run)
    assert one(stand.fail(run), fx.Refuse).began


def test_a_failure_frees_the_seat() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("a")
    stand.ask("b")
    assert kinds(stand.fail(run)) == ["Refuse", "Ended", "Dispatch"]


# --- seats ------------------------------------------------------------------------------------------


def test_no_more_tickets_run_than_there_are_seats() -> None:
    stand = Stand()
    stand.worker(seats=2)
    assert [kinds(stand.ask(f"r{n}")) for n in range(3)] == [["Dispatch"], ["Dispatch"], []]


def test_another_row_waits_until_the_device_is_empty() -> None:
    stand = Stand()
    stand.worker(seats=2)
    first, second = stand.run("a"), stand.run("b")
    assert stand.ask("other", "N") == []
    assert of(stand.finish(first), fx.Dispatch) == []
    assert one(stand.finish(second), fx.Dispatch).model == "N"


def test_nobody_joins_past_a_head_that_wants_another_row() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.run("a", lane="one")
    stand.ask("other", "N", lane="two")
    assert stand.ask("b", lane="three") == []


def test_a_switch_of_rows_goes_there_and_back() -> None:
    stand = Stand(Limits(collate_s=0.0))
    stand.worker(seats=2)
    run = stand.run("a")
    stand.ask("b", "N")
    stand.ask("c", "M")
    order = []
    for _ in range(3):
        order.append(run.model)
        run = next(iter(of(stand.finish(run), fx.Dispatch)), run)
    assert order == ["M", "N", "M"]


def test_a_cancelled_head_that_wanted_another_row_lets_the_others_join_again() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.run("a")
    stand.ask("other", "N")
    stand.ask("b")
    assert one(stand.cancel("other"), fx.Dispatch).model == "M"


def test_the_devices_do_not_wait_for_each_other() -> None:
    stand = Stand()
    stand.worker()
    stand.ready(b"npu", "npu", "npu0", pid=3)
    stand.run("a", "M")
    assert stand.run("b", "P").worker == b"npu"


def test_device_seconds_are_split_among_the_active() -> None:
    stand = Stand()
    stand.worker(seats=2)
    first, second = stand.run("a", lane="one"), stand.run("b", lane="two")
    stand.now += 10.0
    assert one(stand.finish(first), fx.Ended).ran_s == pytest.approx(5.0)
    stand.now += 4.0
    assert one(stand.finish(second), fx.Ended).ran_s == pytest.approx(9.0)


# --- fencing ----------------------------------------------------------------------------------------


def test_a_late_result_of_an_old_lease_is_fenced() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    assert stand.finish(run, lease=run.lease - 1) == []
    assert kinds(stand.finish(run)) == ["Answer", "Ended"]


def test_a_second_result_is_fenced() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.finish(run)
    assert stand.finish(run) == []
    assert stand.produce(run) == []
    assert stand.fail(run) == []
    assert stand.stage(run) == []


def test_a_worker_cannot_speak_of_a_ticket_another_one_holds() -> None:
    stand = Stand()
    stand.worker()
    npu = stand.ready(b"npu", "npu", "npu0", pid=3)
    run = stand.run()
    epoch = one(npu, fx.Admit).epoch
    done = ev.Finished(
        stand.now, b"npu", epoch, run.ticket, run.lease, False, None, None, 0, 0, 0, b"x"
    )
    assert stand.send(done) == []
    assert kinds(stand.finish(run)) == ["Answer", "Ended"]


def test_a_message_under_a_stale_epoch_is_answered_with_expel() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.epochs[b"hrx"] -= 1
    assert kinds(stand.finish(run)) == ["Expel"]


def test_leases_grow_and_the_next_boots_are_above_all_of_this_one() -> None:
    stand, after = Stand(boot=1), Stand(boot=2)
    stand.worker()
    after.worker()
    first = stand.run("a")
    second = one([*stand.finish(first), *stand.ask("b")], fx.Dispatch)
    assert first.lease < second.lease < after.run("a").lease
    assert after.run is not stand.run


# --- expiry -----------------------------------------------------------------------------------------


def test_a_ticket_that_expired_in_the_queue_is_not_run() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("a")
    stand.ask("b", expires_in=1.0)
    stand.ask("c")
    stand.now += 1.0
    effects = stand.finish(run)
    refused = one(effects, fx.Refuse)
    assert (refused.rid, refused.status, refused.code) == ("b", 504, "deadline_exceeded")
    assert one(effects, fx.Dispatch).ticket == 3


def test_an_expired_ticket_is_refused_by_the_next_beat_though_no_seat_is_free() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a")
    stand.ask("b", expires_in=0.5)
    assert one(stand.wait(1.1, worker), fx.Refuse).rid == "b"


def test_a_ticket_that_expired_is_charged_nothing() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("a", lane="one")
    stand.ask("b", lane="two", expires_in=0.5)
    stand.wait(2.0, worker)
    stand.finish(run)
    assert stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"] == {"one": 2.0, "two": 0.0}  # type: ignore[index]  # a view


def test_what_runs_is_not_cut_by_its_deadline() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run(expires_in=1.0)
    stand.wait(5.0, worker)
    assert kinds(stand.finish(run)) == ["Answer", "Ended"]


# --- order ------------------------------------------------------------------------------------------


def test_interactive_goes_before_batch_inside_a_lane() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("first")
    stand.ask("batch", batch=True)
    stand.ask("interactive")
    assert one(stand.finish(run), fx.Dispatch).ticket == 3


def test_a_lanes_batch_ticket_does_not_wait_for_another_lanes_interactive_ones() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("first", lane="one")
    stand.ask("batch", lane="two", batch=True)
    stand.ask("interactive", lane="one")
    assert one(stand.finish(run), fx.Dispatch).ticket == 2


def test_an_estimate_is_learned_from_the_truth() -> None:
    stand = Stand(Limits(queue_total=100))
    worker = stand.worker()
    for n in range(20):
        run = stand.run(f"slow{n}", lane="slow", max_tokens=10)
        stand.wait(100.0, worker)
        stand.finish(run)
    run = stand.run("hold", lane="other", max_tokens=10)
    stand.ask("a", lane="slow", max_tokens=10)
    stand.finish(run)
    served = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]  # a view
    assert served["slow"] == pytest.approx(2100.0, rel=0.05)
