"""Workers that come, beat, stop, vanish, and come twice."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import Peer, Stand, kinds, of, one


def test_a_worker_is_admitted_under_an_epoch_of_this_boot() -> None:
    stand = Stand(boot=3)
    effects = stand.ready()
    assert kinds(effects) == ["Admit", "Record"]
    assert one(effects, fx.Admit).epoch >> 32 == 3
    assert one(effects, fx.Record).action == "worker_up"


def test_what_waits_starts_when_its_worker_comes() -> None:
    stand = Stand()
    stand.ask("a")
    assert kinds(stand.ready()) == ["Admit", "Record", "Dispatch"]


def test_a_second_ready_of_the_same_process_gets_the_same_epoch() -> None:
    stand = Stand()
    worker = stand.worker()
    assert stand.ready() == [fx.Admit(worker.route, worker.epoch)]


def test_another_process_on_the_same_route_takes_the_place_of_the_first() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a")
    effects = stand.ready(nonce="another")
    assert kinds(effects) == ["Record", "Admit", "Record", "Dispatch"]
    assert one(effects, fx.Admit).epoch > worker.epoch


def test_a_twin_on_a_held_device_is_expelled_and_told_by_whom_it_is_held() -> None:
    stand = Stand()
    stand.worker(pid=7)
    effects = stand.ready(b"twin", pid=8)
    assert kinds(effects) == ["Expel"]
    assert "hrx0 is served by hrx-7, pid 7" in one(effects, fx.Expel).reason


def test_a_twin_is_admitted_once_the_first_is_gone() -> None:
    stand = Stand()
    stand.worker()
    stand.lose(b"hrx")
    assert "Admit" in kinds(stand.ready(b"twin"))


@pytest.mark.parametrize(
    ("kind", "device"),
    [("hrx", "hrx1"), ("hrx", ""), ("hrx", "npu0"), ("npu", "hrx0"), ("scorer", "hrx0")],
)
def test_a_worker_for_a_device_it_cannot_serve_is_expelled(kind: str, device: str) -> None:
    assert kinds(Stand().ready(kind=kind, device=device)) == ["Expel"]


def test_a_box_takes_any_number_of_scorers() -> None:
    stand = Stand()
    assert [
        kinds(stand.ready(b"s%d" % n, "scorer", "", pid=n)) for n in range(3)
    ] == [["Admit", "Record"]] * 3  # fmt: skip


def test_a_beat_under_a_stale_epoch_is_answered_with_expel() -> None:
    stand = Stand()
    worker = stand.worker()
    assert kinds(stand.beat(Peer(worker.route, worker.epoch - 1))) == ["Expel"]
    assert kinds(stand.beat(Peer(b"stranger", worker.epoch))) == ["Expel"]


def test_a_worker_that_beats_is_kept() -> None:
    stand = Stand()
    worker = stand.worker()
    assert stand.wait(60.0, worker) == []


def test_a_worker_silent_for_three_beats_is_lost_and_told_so() -> None:
    stand = Stand()
    stand.worker()
    assert stand.wait(3.0) == []
    assert kinds(stand.wait(1.1)) == ["Kill", "Record", "Expel"]


def test_the_device_of_a_silent_worker_is_nobodys_until_it_has_ended() -> None:
    stand = Stand()
    stand.worker(pid=7)
    first = stand.run()
    kill = one(stand.wait(4.1), fx.Kill)
    assert (kill.pid, kill.pgid, kill.pid_started, kill.grace_s) == (7, 0, 1.0, 0.0)
    assert "not free before the end of hrx-7" in one(stand.ready(b"next"), fx.Expel).reason
    assert of(stand.hold(), fx.Grant) == []
    assert kinds(stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]))) == ["Expel"]  # it woke up
    assert kinds(stand.ready(pid=7)) == ["Expel"]
    stand.gone(kill)
    stand.cancel("h", b"holder")
    assert one(stand.ready(b"next"), fx.Dispatch).ticket == first.ticket


def test_an_outside_lane_has_its_turn_before_a_new_worker_comes() -> None:
    stand = Stand()
    stand.worker()
    kill = one(stand.wait(4.1), fx.Kill)
    stand.hold()
    assert kinds(stand.gone(kill)) == ["Grant"]


def test_a_silent_helper_is_let_go_and_ended_so_that_another_is_started() -> None:
    stand = Stand()
    stand.scorer()
    assert kinds(stand.wait(4.1)) == ["Kill", "Record", "Expel"]


def test_a_supervisor_that_comes_late_is_told_what_must_end() -> None:
    stand = Stand()
    stand.worker(pid=7)
    assert one(stand.wait(4.1), fx.Kill).supervisor == b""
    kill = one(stand.send(ev.Supervised(stand.now, b"up")), fx.Kill)
    assert (kill.supervisor, kill.pid) == (b"up", 7)
    assert one(stand.lose_client(b"up"), fx.Kill).supervisor == b""


def test_the_end_of_a_process_is_believed_at_once() -> None:
    stand = Stand()
    stand.worker(pid=42)
    record = one(stand.ended(42), fx.Record)
    assert (record.action, record.fields["reason"]) == ("worker_down", "its process ended")
    assert stand.ended(42) == []


def test_all_workers_of_a_process_end_with_it() -> None:
    stand = Stand()
    stand.worker(pid=42)
    stand.scorer(pid=42)
    assert kinds(stand.ended(42)) == ["Record", "Record"]


def test_losing_an_unknown_worker_does_nothing() -> None:
    assert Stand().lose(b"stranger") == []


def test_a_lost_workers_ticket_runs_again_under_a_new_lease() -> None:
    stand = Stand()
    stand.worker()
    first = stand.run()
    assert of(stand.lose(b"hrx"), fx.Refuse) == []
    again = one(stand.ready(b"next"), fx.Dispatch)
    assert (again.ticket, again.worker) == (first.ticket, b"next")
    assert again.lease > first.lease


def test_a_ticket_whose_second_worker_is_lost_is_refused() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    stand.lose(b"hrx")
    stand.ready(b"next")
    refused = one(stand.lose(b"next"), fx.Refuse)
    assert (refused.status, refused.code) == (502, "worker_lost")
    assert refused.facts["retryable"] is True


def test_a_ticket_whose_answer_began_is_not_run_again() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run(stream=True)
    stand.now += 2.0
    stand.produce(run)
    effects = stand.lose(b"hrx")
    assert one(effects, fx.Refuse).began
    assert one(effects, fx.Ended).ran_s == 2.0


def test_without_retries_a_lost_workers_ticket_is_refused() -> None:
    stand = Stand(Limits(retries=0))
    stand.worker()
    stand.run()
    assert one(stand.lose(b"hrx"), fx.Refuse).code == "worker_lost"


def test_a_ticket_that_runs_again_goes_before_the_others_of_its_lane() -> None:
    stand = Stand()
    stand.worker()
    first = stand.run("a")
    stand.ask("b")
    stand.lose(b"hrx")
    assert one(stand.ready(b"next"), fx.Dispatch).ticket == first.ticket


def test_tickets_that_run_again_keep_their_order() -> None:
    stand = Stand()
    stand.worker(seats=3)
    for rid in "abc":
        stand.run(rid)
    stand.lose(b"hrx")
    assert [d.ticket for d in of(stand.ready(b"next", seats=3), fx.Dispatch)] == [1, 2, 3]


def test_a_ticket_that_runs_again_goes_before_one_that_wanted_another_row() -> None:
    stand = Stand()
    stand.worker(seats=2)
    first = stand.run("a")
    stand.ask("b", "N")
    stand.lose(b"hrx")
    assert one(stand.ready(b"next", seats=2), fx.Dispatch).ticket == first.ticket


def test_the_lost_try_is_not_charged() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run()
    stand.wait(3.0, worker)
    stand.lose(b"hrx")
    assert stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"] == {"lane": 0.0}  # type: ignore[index]  # a view


def test_a_late_result_of_a_lost_worker_is_expelled_and_changes_nothing() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    stand.lose(b"hrx")
    assert kinds(stand.finish(run)) == ["Expel"]
    assert len(of(stand.ready(b"next"), fx.Dispatch)) == 1


def test_a_worker_that_stops_hands_its_ticket_back_without_using_up_a_try() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run()
    assert stand.finish(run, cancelled=True) == []
    stand.lose(b"hrx")
    stand.ready(b"next")
    assert of(stand.lose(b"next"), fx.Refuse) == []
    assert len(of(stand.ready(b"third"), fx.Dispatch)) == 1


def test_a_worker_that_stops_gets_nothing_more() -> None:
    stand = Stand()
    stand.worker()
    stand.finish(stand.run("a"), cancelled=True)
    assert stand.ask("b") == []
    stand.lose(b"hrx")
    assert one(stand.ready(b"next"), fx.Dispatch).ticket == 1


def test_a_worker_that_stops_in_mid_answer_ends_the_request_with_an_error() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run(stream=True)
    stand.produce(run)
    assert one(stand.finish(run, cancelled=True), fx.Refuse).code == "worker_lost"


def test_a_device_without_a_worker_for_too_long_refuses_what_waits() -> None:
    stand = Stand()
    stand.ask("r")
    assert of(stand.wait(29.0), fx.Refuse) == []
    refused = one(stand.wait(2.0), fx.Refuse)
    assert (refused.status, refused.code) == (503, "device_unavailable")
    assert refused.facts == {"device": "hrx0", "retryable": True}


def test_absence_counts_from_the_loss_of_the_worker() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.wait(60.0, worker)
    stand.lose(b"hrx")
    stand.ask("r")
    assert of(stand.wait(29.0), fx.Refuse) == []
    assert len(of(stand.wait(2.0), fx.Refuse)) == 1


def test_an_absent_device_refuses_nothing_of_another_one() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a", "M")
    stand.ask("b", "M")
    stand.ask("c", "P")
    assert [r.rid for r in of(stand.wait(31.0, worker), fx.Refuse)] == ["c"]


def test_a_worker_that_handed_back_and_did_not_leave_is_used_again() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.finish(stand.run(), cancelled=True)
    assert of(stand.wait(2.0, worker), fx.Dispatch) == []
    assert len(of(stand.wait(3.0, worker), fx.Dispatch)) == 1


def test_a_broker_that_was_stopped_itself_lets_go_of_nobody_before_it_has_read_their_beats() -> (
    None
):
    stand = Stand()
    worker, scorer = stand.worker(), stand.scorer()
    stand.now += 60.0
    assert of(stand.tick(), fx.Kill) == []
    stand.beat(worker)
    stand.beat(scorer)
    assert of(stand.wait(2.0, worker, scorer), fx.Kill) == []


# --- a worker from before the broker's restart ---------------------------------------------------------


def kept(stand: Stand) -> None:
    stand.send(ev.WorkerKept(stand.now, "hrx-1", "hrx0", 1, 1.0))


def test_a_device_waits_for_the_worker_that_may_still_compute_for_the_broker_before() -> None:
    stand = Stand()
    kept(stand)
    stand.hold("h")
    stand.ask("r")
    assert of(stand.wait(2.0), fx.Grant) == []
    effects = stand.ready()  # it offers itself only when its void work has ended
    assert kinds(effects)[:2] == ["Admit", "Record"]
    assert len(of(effects, fx.Grant)) == 1


def test_a_worker_that_comes_back_gets_nothing_beside_a_holder_from_before_the_restart() -> None:
    stand = Stand(boot=2)
    kept(stand)  # it lives, and was idle while the outside lane held its device
    stand.kept((1 << 32) + 5)
    stand.ask("r")
    assert of(stand.ready(), fx.Dispatch) == []
    grant = one(stand.hold(lease=(1 << 32) + 5), fx.Grant)
    assert len(of(stand.release(grant), fx.Dispatch)) == 1


def test_one_that_does_not_come_back_is_ended_and_then_the_device_is_free() -> None:
    stand = Stand()
    kept(stand)
    stand.hold("h")
    kill = one(stand.wait(5.0), fx.Kill)
    assert kill.pid == 1
    assert len(of(stand.gone(kill), fx.Grant)) == 1


def test_another_process_does_not_take_its_place_before_its_end() -> None:
    stand = Stand()
    kept(stand)
    assert of(stand.ready(pid=2), fx.Expel) != []


def test_a_supervisor_that_comes_back_does_not_end_who_may_still_come_back() -> None:
    stand = Stand()
    kept(stand)
    assert of(stand.send(ev.Supervised(stand.now, b"up")), fx.Kill) == []
