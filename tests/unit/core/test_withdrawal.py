"""Clients that change their mind, or vanish, in every state of a ticket."""

from scheduler.core import effects as fx
from support.stand import Stand, kinds, of, one


def test_cancelling_what_nobody_asked_does_nothing() -> None:
    assert Stand().cancel("r") == []


def test_a_client_cannot_cancel_anothers_request() -> None:
    stand = Stand()
    stand.worker()
    stand.run("r")
    assert stand.cancel("r", client=b"other") == []


def test_cancelled_while_deciding_it_ends_at_once() -> None:
    stand = Stand()
    stand.scorer()
    asked = stand.question()
    assert kinds(stand.cancel("r")) == ["Ended"]
    assert stand.decided(asked) == []


def test_cancelled_in_the_queue_it_ends_at_once_and_never_runs() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("a")
    stand.ask("b")
    ended = one(stand.cancel("b"), fx.Ended)
    assert (ended.outcome, ended.ran_s) == ("cancelled", 0.0)
    assert of(stand.finish(run), fx.Dispatch) == []


def test_cancelled_while_it_runs_its_worker_is_told_and_the_seat_stays_held() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("a")
    stand.ask("b")
    assert stand.cancel("a") == [fx.Halt(worker.route, run.ticket, run.lease)]
    effects = stand.finish(run, cancelled=True)
    assert kinds(effects) == ["Ended", "Dispatch"]
    assert one(effects, fx.Ended).outcome == "cancelled"


def test_a_draining_ticket_says_nothing_more_to_its_client() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run(stream=True)
    stand.cancel("r")
    assert stand.produce(run) == []
    assert stand.stage(run) == []
    assert stand.wait(2.0, worker) == []


def test_a_result_that_crossed_the_cancel_ends_the_ticket_without_an_answer() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.cancel("r")
    assert kinds(stand.finish(run)) == ["Ended"]


def test_a_failure_that_crossed_the_cancel_is_told_to_nobody() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.cancel("r")
    assert kinds(stand.fail(run)) == ["Ended"]


def test_cancelling_twice_halts_once() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    stand.cancel("r")
    assert stand.cancel("r") == []


def test_service_until_the_cancel_is_charged() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run()
    stand.wait(7.0, worker)
    stand.cancel("r")
    assert one(stand.finish(run, cancelled=True), fx.Ended).ran_s == 7.0


def test_a_worker_lost_while_draining_ends_the_ticket_in_silence() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    stand.cancel("r")
    effects = stand.lose(b"hrx")
    assert of(effects, fx.Refuse) == []
    assert len(of(effects, fx.Ended)) == 1


def test_an_id_may_be_used_again_while_its_old_ticket_drains() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.cancel("r")
    assert stand.ask("r") == []
    assert one(stand.finish(run, cancelled=True), fx.Dispatch).ticket == 2


def test_a_lost_client_takes_all_its_requests_along() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    stand.run("runs")
    stand.ask("queued")
    stand.question("deciding")
    stand.ask("others", client=b"other")
    effects = stand.lose_client()
    assert sorted(kinds(effects)) == ["Ended", "Ended", "Halt"]
    assert stand.lose_client() == []


def test_losing_a_client_leaves_the_others_alone() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run("a")
    stand.ask("b", client=b"other")
    stand.lose_client()
    assert one(stand.finish(run, cancelled=True), fx.Dispatch).ticket == 2
