"""Programs of outside lanes: a whole device, by the same queue, under a lease that is fenced both ways."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from support.stand import Stand, kinds, of, one

HOLDER = b"holder"


def outside(stand: Stand, device: str = "hrx0") -> dict[str, list[dict[str, object]]]:
    """Return the view of one device."""
    return stand.core.outside(stand.now)[device]  # type: ignore[return-value]  # a view


# --- the device is the holder's alone -----------------------------------------------------------------


def test_an_idle_device_is_granted_at_once() -> None:
    stand = Stand()
    stand.worker(seats=4)
    grant = one(stand.hold(), fx.Grant)
    assert (grant.client, grant.rid, grant.ttl_s, grant.max_hold_s) == (HOLDER, "h", 20.0, 600.0)


def test_nobody_joins_a_holder_however_many_seats_there_are() -> None:
    stand = Stand()
    worker = stand.worker(seats=4)
    grant = stand.held()
    assert of(stand.ask("a"), fx.Dispatch) == []
    assert of(stand.hold("h2", pid=71, pgid=71), fx.Grant) == []
    assert of(stand.wait(1.0, worker), fx.Dispatch) == []
    assert [d.ticket for d in of(stand.release(grant), fx.Dispatch)] == [2]


def test_a_hold_waits_until_the_last_seat_is_free() -> None:
    stand = Stand()
    stand.worker(seats=2)
    runs = [stand.run("a"), stand.run("b")]
    assert of(stand.hold(), fx.Grant) == []
    assert of(stand.finish(runs[0]), fx.Grant) == []
    assert len(of(stand.finish(runs[1]), fx.Grant)) == 1


def test_while_a_hold_is_next_nobody_starts_before_it() -> None:
    stand = Stand()
    stand.worker(seats=2)
    run = stand.run("a")
    stand.hold()
    assert of(stand.ask("b"), fx.Dispatch) == []
    assert kinds(stand.finish(run))[-1] == "Grant"


def test_a_hold_does_not_use_the_seconds_in_which_a_worker_is_started_again() -> None:
    stand = Stand()
    stand.worker()
    stand.run("r", lane="one")
    stand.lose(b"hrx", "its process ended")
    stand.hold(lane="two")
    stand.now += 2.0
    assert [d.ticket for d in of(stand.ready(b"again", pid=2), fx.Dispatch)] == [1]


def test_where_no_worker_comes_a_hold_waits_for_a_request_no_longer_than_that_does() -> None:
    stand = Stand()
    stand.wait(stand.limits.absent_s)
    stand.ask("r", lane="one")
    assert of(stand.hold(lane="two"), fx.Grant) == []
    effects = stand.wait(stand.limits.beat_s)
    assert one(effects, fx.Refuse).code == "device_unavailable"
    assert one(effects, fx.Grant).rid == "h"


def test_a_device_without_a_worker_can_be_held_and_its_worker_waits() -> None:
    stand = Stand()
    grant = stand.held()
    stand.ask("a")
    assert of(stand.ready(), fx.Dispatch) == []
    assert len(of(stand.release(grant), fx.Dispatch)) == 1


def test_a_hold_outlives_the_absence_that_refuses_requests() -> None:
    stand = Stand()
    grant = stand.held()
    stand.ask("a")
    stand.hold("h2", pid=71, pgid=71)
    refused = of(stand.wait_renewing(32, grant), fx.Refuse)
    assert [r.rid for r in refused] == ["a"]
    assert [r.rid for r in of(stand.release(grant), fx.Grant)] == ["h2"]


def test_the_loss_of_the_worker_takes_nothing_from_a_holder() -> None:
    stand = Stand()
    stand.worker()
    grant = stand.held()
    assert kinds(stand.lose(b"hrx")) == ["Record"]
    assert kinds(stand.renew(grant)) == ["Grant"]


def test_a_holder_hides_no_loaded_row() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.finish(stand.run())
    grant = stand.held()
    stand.release(grant)
    status = stand.core.snapshot(stand.now)
    assert status["devices"]["hrx0"]["loaded"] == "M"  # type: ignore[index]  # a view
    assert worker


@pytest.mark.parametrize(
    ("asked", "granted"), [("", "hrx0"), ("hrx", "hrx0"), ("hrx0", "hrx0"), ("npu", "npu0")]
)
def test_a_device_is_named_by_instance_or_kind(asked: str, granted: str) -> None:
    stand = Stand()
    stand.held(device=asked)
    assert len(outside(stand, granted)["holders"]) == 1


def test_an_unknown_device_is_refused_with_the_devices_there_are() -> None:
    refusal = one(Stand().hold(device="tpu0"), fx.Refuse)
    assert (refusal.status, refusal.code) == (404, "device_not_found")
    assert "hrx0, npu0" in refusal.message


def test_the_bound_of_the_queue_is_the_same_for_holds() -> None:
    stand = Stand(Limits(queue_total=2, queue_per_lane=1))
    stand.held("h1")
    stand.hold("h2", pid=71, pgid=71)
    refusal = one(stand.hold("h3", pid=72, pgid=72), fx.Refuse)
    assert (refusal.status, refusal.code, refusal.retry_after_s) == (429, "queue_full", 60)


def test_a_hold_that_was_not_granted_in_time_is_refused() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a")
    stand.hold(expires_in=2.0)
    assert one(stand.wait(3.0, worker), fx.Refuse).code == "deadline_exceeded"


def test_a_waiting_hold_is_told_its_place_and_can_be_withdrawn() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("a")
    stand.hold()
    told = of(stand.wait(1.0, worker), fx.Tell)
    assert [(t.rid, t.stage, t.position) for t in told] == [("h", "queue", 1)]
    stand.cancel("h", HOLDER)
    assert of(stand.finish(run), fx.Grant) == []


def test_outside_lanes_and_workers_take_turns_by_their_shares() -> None:
    stand = Stand()
    worker = stand.worker()
    first = stand.held("h1", lane="outside")
    stand.hold("h2", lane="outside", pid=71, pgid=71)
    stand.ask("a", lane="agent")
    for _ in range(10):
        stand.wait(1.0, worker)
        stand.renew(first)
    assert len(of(stand.release(first), fx.Dispatch)) == 1


def test_a_holders_time_is_charged_to_its_lane() -> None:
    stand = Stand()
    grant = stand.held()
    stand.wait_renewing(30, grant)
    ended = one(stand.release(grant), fx.Ended)
    assert (ended.op, ended.lane, ended.outcome) == ("hold", "outside", "released")
    assert ended.ran_s == pytest.approx(30.0)
    served = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]  # a view
    assert served == {"outside": pytest.approx(30.0)}


# --- the lease ----------------------------------------------------------------------------------------


def test_a_grant_that_nobody_acknowledges_is_taken_back() -> None:
    stand = Stand()
    stand.hold()
    effects = stand.wait(3.1)
    assert one(effects, fx.Revoke).reason == "unacknowledged"
    assert one(effects, fx.Kill).pgid == 70


def test_a_renewed_lease_goes_on() -> None:
    stand = Stand()
    grant = stand.held()
    assert set(kinds(stand.wait_renewing(60, grant))) == {"Probe"}


def test_a_silent_holder_is_told_and_its_group_ended() -> None:
    stand = Stand()
    grant = stand.held()
    assert set(kinds(stand.wait(19.9))) == {"Probe"}
    effects = stand.wait(0.05)
    assert effects == []
    effects = stand.wait(0.1)
    assert kinds(effects) == ["Revoke", "Record", "Kill"]
    assert one(effects, fx.Revoke).reason == "lease_lost"
    assert one(effects, fx.Kill) == fx.Kill(b"", "h", grant.lease, 70, 70, 1.0, 5.0)


def test_the_device_is_free_only_when_the_group_has_ended() -> None:
    stand = Stand()
    stand.held()
    stand.hold("h2", client=b"other", pid=71, pgid=71)
    kill = one(stand.wait(20.1), fx.Kill)
    assert of(stand.wait(60.0), fx.Grant) == []
    assert [grant.rid for grant in of(stand.gone(kill), fx.Grant)] == ["h2"]


def test_the_end_of_another_process_of_that_pid_frees_nothing() -> None:
    stand = Stand()
    stand.held()
    kill = one(stand.wait(20.1), fx.Kill)
    assert stand.ended(kill.pid) == []
    assert stand.send(ev.ProcessEnded(stand.now, kill.pid, kill.lease - 1)) == []
    assert kinds(stand.gone(kill)) == ["Ended"]


def test_the_end_of_the_group_does_not_take_a_lease_that_is_good() -> None:
    stand = Stand()
    grant = stand.held()
    assert stand.send(ev.ProcessEnded(stand.now, 70, grant.lease)) == []
    assert kinds(stand.renew(grant)) == ["Grant"]


def test_a_hold_of_no_group_is_free_when_its_lease_ends() -> None:
    stand = Stand()
    stand.held(pgid=0)
    assert kinds(stand.wait(20.1))[-3:] == ["Revoke", "Record", "Ended"]


def test_a_vanished_holders_group_is_ended_at_once() -> None:
    stand = Stand()
    stand.held()
    effects = stand.lose_client(HOLDER)
    assert kinds(effects) == ["Record", "Kill"]
    assert one(stand.gone(one(effects, fx.Kill)), fx.Ended).outcome == "client_gone"


def test_nothing_of_a_vanished_client_takes_the_device_that_it_leaves() -> None:
    stand = Stand()
    stand.hold("h1", pid=0, pgid=0)
    stand.hold("h2", pid=0, pgid=0)
    effects = stand.lose_client(HOLDER)
    assert of(effects, fx.Grant) == []
    assert (outside(stand)["holders"], outside(stand)["waiters"]) == ([], [])


def test_near_its_longest_time_a_holder_is_warned_and_then_told_to_end() -> None:
    stand = Stand()
    grant = stand.held(max_hold_s=100.0)
    warned = one(stand.wait_renewing(76, grant), fx.Warn)
    assert warned.left_s == pytest.approx(25.0)
    effects = stand.wait_renewing(24, grant)
    assert of(effects, fx.Revoke)[0].reason == "max_hold"
    assert of(effects, fx.Kill) == []  # it ends its group itself, and has time for it
    assert one(stand.release(grant), fx.Ended).outcome == "max_hold"


def test_a_holder_that_does_not_end_its_group_in_time_has_it_ended() -> None:
    stand = Stand()
    grant = stand.held(max_hold_s=8.0)
    stand.wait_renewing(9, grant)
    kill = one(stand.wait(6.0), fx.Kill)
    assert (kill.pgid, kill.grace_s) == (70, 5.0)
    assert one(stand.gone(kill), fx.Ended).outcome == "max_hold"


def test_nobody_holds_longer_than_the_box_allows() -> None:
    stand = Stand(Limits(hold_longest_s=60.0))
    assert one(stand.hold(max_hold_s=3600.0), fx.Grant).max_hold_s == 60.0


# --- fencing ------------------------------------------------------------------------------------------


def lost(stand: Stand) -> fx.Grant:
    """Return a grant whose lease is over and whose group has ended; another holds the device."""
    old = stand.held()
    stand.hold("h2", client=b"other", pid=71, pgid=71)
    stand.gone(one(stand.wait(20.1), fx.Kill))
    return old


@pytest.mark.parametrize("say", ["renew", "release"])
def test_a_late_holder_changes_nothing_is_counted_and_told_so(say: str) -> None:
    stand = Stand()
    old = lost(stand)
    assert kinds(getattr(stand, say)(old)) == ["Revoke"]
    assert stand.core.snapshot(stand.now)["counts"]["fenced"] == 1  # type: ignore[index]  # a view
    assert [holder["id"] for holder in outside(stand)["holders"]] == ["h2"]


def test_an_old_lease_of_a_hold_that_goes_on_releases_nothing() -> None:
    stand = Stand()
    grant = stand.held()
    assert kinds(stand.release(grant, lease=grant.lease - 1)) == ["Revoke"]
    assert kinds(stand.renew(grant)) == ["Grant"]


def test_a_stranger_cannot_renew() -> None:
    stand = Stand()
    grant = stand.held()
    assert kinds(stand.renew(grant, client=b"stranger")) == ["Revoke"]


def test_leases_and_worker_epochs_grow_together() -> None:
    stand = Stand()
    worker = stand.worker()
    first = stand.held()
    stand.release(first)
    run = stand.run()
    stand.finish(run)
    assert worker.epoch < first.lease < run.lease < stand.held().lease


def test_a_worker_cannot_speak_of_a_hold() -> None:
    stand = Stand()
    worker = stand.worker()
    grant = stand.held()
    late = ev.Finished(
        stand.now, worker.route, worker.epoch, 1, grant.lease, False, None, None, 0, 0, 0, b""
    )
    assert stand.send(late) == []
    assert len(outside(stand)["holders"]) == 1


def test_another_client_can_end_a_hold() -> None:
    stand = Stand()
    grant = stand.held()
    effects = stand.release(grant, client=b"operator")
    assert kinds(effects) == ["Answer", "Revoke", "Record"]
    assert one(effects, fx.Revoke).reason == "released_by_another"
    assert kinds(stand.release(grant)) == ["Answer", "Ended"]


# --- a restart of the broker --------------------------------------------------------------------------


def test_a_holder_from_before_the_restart_goes_on_if_the_device_is_free() -> None:
    stand = Stand(boot=2)
    grant = one(stand.hold(lease=(1 << 32) + 5), fx.Grant)
    assert grant.lease >> 32 == 2
    assert kinds(stand.renew(grant)) == ["Record", "Grant"]


def test_a_holder_that_comes_too_late_is_told_so() -> None:
    stand = Stand(boot=2)
    stand.worker()
    stand.run()
    revoked = one(stand.hold(lease=(1 << 32) + 5), fx.Revoke)
    assert revoked.lease == (1 << 32) + 5


def test_a_lease_of_an_earlier_start_is_answered_with_this_starts_number() -> None:
    stand = Stand(boot=2)
    old = fx.Grant(HOLDER, "h", (1 << 32) + 5, 0, 0, 0)
    assert kinds(stand.renew(old)) == ["Probe"]


def test_what_was_held_before_the_restart_is_nobody_elses() -> None:
    stand = Stand(boot=2)
    assert stand.kept((1 << 32) + 5) == []
    stand.worker()
    assert of(stand.ask("a"), fx.Dispatch) == []
    grant = one(stand.hold(lease=(1 << 32) + 5), fx.Grant)
    assert kinds(stand.renew(grant)) == ["Grant"]
    assert outside(stand)["holders"][0]["max_hold_left_s"] == pytest.approx(550.0)
    assert kinds(stand.release(grant)) == ["Answer", "Ended", "Dispatch"]


def test_a_holder_that_does_not_come_back_loses_its_lease() -> None:
    stand = Stand(boot=2)
    stand.kept((1 << 32) + 5)
    effects = stand.wait(20.1)
    assert kinds(effects) == ["Record", "Kill"]
    assert kinds(stand.gone(one(effects, fx.Kill))) == ["Ended"]


def test_a_holder_that_never_heard_of_its_grant_finds_it_after_the_restart() -> None:
    stand = Stand(boot=2)
    stand.kept((1 << 32) + 5)
    assert len(of(stand.hold(lease=0), fx.Grant)) == 1


def test_another_process_does_not_inherit_a_hold_by_its_name() -> None:
    stand = Stand(boot=2)
    stand.kept((1 << 32) + 5)
    assert of(stand.hold(pid=99), fx.Grant) == []


def test_nothing_is_warned_while_nobody_is_there_who_could_hear_it() -> None:
    stand = Stand(boot=2)
    stand.kept((1 << 32) + 5, held_s=580.0)
    assert stand.wait(5.0) == []
    stand.hold(lease=(1 << 32) + 5)
    assert len(of(stand.wait(1.0), fx.Warn)) == 1


# --- what is seen of it -------------------------------------------------------------------------------


def test_the_view_shows_holders_and_waiters_with_lane_command_pid_and_times() -> None:
    stand = Stand()
    worker = stand.worker()
    grant = stand.held(max_hold_s=100.0)
    stand.ask("a", lane="agent")
    stand.wait(10.0, worker)
    view = outside(stand)
    holder, waiter = view["holders"][0], view["waiters"][0]
    assert (holder["lane"], holder["what"], holder["pid"]) == ("outside", "bench", 70)
    assert (holder["held_s"], holder["max_hold_left_s"]) == (10.0, 90.0)
    assert holder["lease"] == grant.lease
    assert (waiter["lane"], waiter["outside"], waiter["held_s"]) == ("agent", False, None)


def test_a_name_may_be_asked_for_again_while_its_old_hold_is_being_ended() -> None:
    stand = Stand()
    stand.held("h", device="npu0")
    stand.cancel("h", client=b"holder")
    assert kinds(stand.hold("h", device="hrx0")) == ["Grant"]
