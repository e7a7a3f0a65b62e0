"""The measured rate at which seats come free."""

import pytest

from scheduler.core.drain import ENDINGS, WINDOW_S, Drain


def test_nothing_measured_is_unknown_and_not_zero() -> None:
    assert Drain().per_seat_s(100.0) is None


def test_it_is_the_mean_time_a_seat_was_held() -> None:
    drain = Drain()
    drain.take(10.0, 2.0)
    drain.take(20.0, 4.0)
    assert drain.per_seat_s(20.0) == 3.0


def test_idle_time_between_endings_makes_no_device_slow() -> None:
    drain = Drain()
    drain.take(10.0, 2.0)
    drain.take(500.0, 2.0)
    assert drain.per_seat_s(500.0) == 2.0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    drain = Drain()
    drain.take(10.0, 100.0)
    drain.take(20.0, 2.0)
    assert drain.per_seat_s(10.0 + WINDOW_S) == 51.0
    assert drain.per_seat_s(10.5 + WINDOW_S) == 2.0
    assert drain.per_seat_s(21.0 + WINDOW_S) is None
    assert drain.endings(21.0 + WINDOW_S) == 0


def test_only_the_latest_endings_count() -> None:
    drain = Drain()
    for n in range(ENDINGS + 10):
        drain.take(float(n), 100.0 if n < 10 else 1.0)
    assert drain.endings(ENDINGS + 10.0) == ENDINGS
    assert drain.per_seat_s(ENDINGS + 10.0) == pytest.approx(1.0)
