"""A holder's side of its lease, message by message and by its own clock."""

import pytest

from scheduler.bus.holding import Holding, Stage, Turn
from scheduler.wire import messages as wire

ASKED = wire.Hold("h", "lane", 100.0, 7, 1.0, 7)
LEASE = (1 << 32) + 5


def holding() -> Holding:
    """Return a hold that was asked for at 0.0 and knows which start of the broker it asked."""
    hold = Holding(ASKED, 0.0)
    assert hold.due(0.0) == [ASKED, wire.Hello()]
    hold.take(wire.Here(1), 0.0)
    return hold


def granted(lease: int = LEASE) -> wire.Granted:
    return wire.Granted("h", lease, 20.0, 600.0)


def held() -> Holding:
    """Return a hold that was granted and acknowledged at 1.0."""
    hold = holding()
    assert hold.take(granted(), 1.0) is None
    assert said(hold, 1.0) == [wire.Renew("h", LEASE)]
    assert hold.take(granted(), 1.0) is Turn.BEGIN
    return hold


def said(hold: Holding, at: float) -> list[wire.Message]:
    """Return what a hold sends at an instant, less its greetings."""
    return [message for message in hold.due(at) if not isinstance(message, wire.Hello)]


def test_a_grant_counts_once_its_acknowledgement_is_answered() -> None:
    assert held().stage is Stage.HELD


def test_a_grant_that_is_heard_too_late_begins_nothing() -> None:
    hold = holding()
    hold.take(granted(), 1.0)
    hold.due(1.0)
    assert hold.take(granted(), 15.0) is Turn.LOST


def test_it_renews_every_quarter_of_the_lease() -> None:
    hold = held()
    assert said(hold, 5.9) == []
    assert said(hold, 6.0) == [wire.Renew("h", LEASE)]


def test_without_an_answer_it_ends_itself_seven_seconds_before_the_lease_does() -> None:
    hold = held()
    said(hold, 6.0)
    assert hold.watch(13.9) is None
    assert hold.watch(14.0) is Turn.LOST
    assert hold.watch(15.0) is None


def test_an_answer_counts_from_when_the_oldest_unanswered_renewal_was_sent() -> None:
    hold = held()
    said(hold, 6.0)
    said(hold, 11.0)
    hold.take(granted(), 12.0)
    assert hold.own_end_at == pytest.approx(6.0 + 20.0 - 7.0)


def test_a_short_lease_leaves_time_to_hold() -> None:
    hold = holding()
    hold.take(wire.Granted("h", LEASE, 2.0, 600.0), 1.0)
    hold.due(1.0)
    hold.take(wire.Granted("h", LEASE, 2.0, 600.0), 1.0)
    assert hold.own_end_at == pytest.approx(1.0 + 2.0 - 0.7)


def test_the_place_in_the_queue_is_kept() -> None:
    hold = holding()
    hold.take(wire.Note("h", "queue", 3, 12.0), 1.0)
    assert hold.place is not None
    assert hold.place.position == 3


def test_messages_of_other_holds_mean_nothing() -> None:
    hold = held()
    for message in (
        wire.Revoked("other", LEASE, "x"), wire.Granted("other", 1 << 40, 1.0, 1.0),
        wire.Final("other"), wire.Warned("other", LEASE, 1.0), wire.Ack("h"),
    ):  # fmt: skip
        assert hold.take(message, 2.0) is None
    assert hold.stage is Stage.HELD


def test_a_warning_and_a_revocation_are_passed_on() -> None:
    hold = held()
    assert hold.take(wire.Warned("h", LEASE, 30.0), 2.0) is Turn.WARN
    assert hold.left_s == 30.0
    assert hold.take(wire.Revoked("h", LEASE, "max_hold"), 3.0) is Turn.LOST
    assert hold.reason == "max_hold"


def test_the_end_of_an_older_lease_does_not_end_this_one() -> None:
    assert held().take(wire.Revoked("h", LEASE - 1, "old"), 2.0) is None


def test_a_refusal_ends_the_wait() -> None:
    hold = holding()
    assert hold.take(wire.Refused("h", 429, "queue_full", "full"), 1.0) is Turn.REFUSED
    assert hold.refused is not None


def test_a_broker_that_says_nothing_ends_the_wait_but_not_at_once() -> None:
    hold = holding()
    assert hold.watch(14.0) is None
    assert hold.watch(15.1) is Turn.UNREACHABLE


# --- a restart of the broker --------------------------------------------------------------------------


def test_who_waits_asks_the_next_broker_again() -> None:
    hold = holding()
    hold.take(wire.Here(2), 1.0)
    assert said(hold, 1.0) == [ASKED]


def test_who_holds_announces_itself_under_its_old_lease() -> None:
    hold = held()
    hold.take(wire.Here(2), 2.0)
    announced = said(hold, 2.0)[-1]
    assert isinstance(announced, wire.Hold)
    assert (announced.id, announced.lease, announced.pid) == ("h", LEASE, 7)


def test_a_new_lease_takes_the_place_of_the_old_one() -> None:
    hold = held()
    hold.take(wire.Here(2), 2.0)
    hold.due(2.0)
    again = (2 << 32) + 1
    assert hold.take(granted(again), 2.5) is None
    assert said(hold, 2.5)[-1] == wire.Renew("h", again)
    assert hold.take(granted(again), 2.5) is None
    assert (hold.stage, hold.lease) == (Stage.HELD, again)
    assert hold.own_end_at == pytest.approx(2.5 + 13.0)


def test_the_same_broker_is_not_told_twice() -> None:
    hold = held()
    hold.due(2.0)
    hold.take(wire.Here(1), 2.0)
    assert said(hold, 2.0) == []


# --- giving back --------------------------------------------------------------------------------------


def test_a_holder_releases_and_who_waits_cancels() -> None:
    hold, waits = held(), holding()
    hold.due(1.5)
    hold.release()
    waits.release()
    assert said(hold, 1.5) == [wire.Release("h", LEASE)]
    assert said(waits, 1.5) == [wire.Cancel("h")]


def test_who_lost_the_lease_still_says_that_its_group_has_ended() -> None:
    hold = held()
    hold.due(1.5)
    hold.take(wire.Revoked("h", LEASE, "max_hold"), 1.6)
    hold.release()
    assert said(hold, 1.6) == [wire.Release("h", LEASE)]


def test_a_farewell_is_told_from_everything_else() -> None:
    hold = held()
    assert hold.is_farewell(wire.Final("h"))
    assert hold.is_farewell(wire.Revoked("h", LEASE, "x"))
    assert not hold.is_farewell(wire.Final("other"))
    assert not hold.is_farewell(wire.Here(1))
