"""The points of the live page's curves: ten minutes, and unknown is never zero."""

import pytest

from scheduler.gateway.curves import KEEP_S, STEP_S, Curves, Pulse


def pulse(at: float, busy_s: float = 0.0, *, boot: int = 1, tctl: float | None = 70.0) -> Pulse:
    return Pulse(boot, at, {"tctl": tctl}, {"hrx0": busy_s})


def test_the_first_point_knows_no_occupancy() -> None:
    assert Curves().add(pulse(10.0, 500.0)).busy == {"hrx0": None}


@pytest.mark.parametrize(("held_s", "part"), [(0.0, 0.0), (0.5, 0.25), (2.0, 1.0), (2.5, 1.0)])
def test_occupancy_is_the_part_of_the_time_between_two_pulses(held_s: float, part: float) -> None:
    curves = Curves()
    curves.add(pulse(10.0, 100.0))
    assert curves.add(pulse(12.0, 100.0 + held_s)).busy == {"hrx0": part}


def test_what_another_start_of_the_broker_counted_says_nothing() -> None:
    curves = Curves()
    curves.add(pulse(10.0, 100.0))
    assert curves.add(pulse(12.0, 3.0, boot=2)).busy == {"hrx0": None}
    assert curves.add(pulse(14.0, 4.0, boot=2)).busy == {"hrx0": 0.5}


def test_after_a_pulse_that_did_not_come_nothing_is_known_of_the_time_before() -> None:
    curves = Curves()
    curves.add(pulse(10.0, 100.0))
    curves.lose()
    assert curves.add(pulse(20.0, 101.0)).busy == {"hrx0": None}


def test_an_unknown_reading_stays_unknown() -> None:
    assert Curves().add(pulse(10.0, tctl=None)).curves == {"tctl": None}


def test_ten_minutes_are_kept_and_no_more() -> None:
    curves = Curves()
    for n in range(1000):
        curves.add(pulse(n * STEP_S))
    first, last = curves.points[0].at, curves.points[-1].at
    assert last - first == KEEP_S
    assert len(curves.points) == KEEP_S / STEP_S + 1


def test_points_grow_old_by_time_also_where_few_come() -> None:
    curves = Curves()
    curves.add(pulse(0.0))
    curves.add(pulse(KEEP_S + 1.0))
    assert [point.at for point in curves.points] == [KEEP_S + 1.0]


def test_who_follows_gets_each_point_once() -> None:
    curves = Curves()
    for at in (1.0, 3.0, 5.0):
        curves.add(pulse(at))
    assert [point.at for point in curves.since(1.0)] == [3.0, 5.0]
    assert curves.since(5.0) == []
