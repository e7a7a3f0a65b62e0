"""The package's energy, over the place where its counter wraps."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workers.sensors.energy import Energy

LARGEST = 65_532_610_987


@given(st.integers(0, LARGEST), st.lists(st.integers(0, 300_000_000), max_size=200))
def test_the_sum_of_the_steps_is_what_was_used_however_often_it_wraps(
    start: int, steps: list[int]
) -> None:
    energy, counter, used = Energy(), start, 0
    first = energy.total(counter, LARGEST, 0.0)
    for second, step in enumerate(steps, 1):
        used += step
        counter = (counter + step) % LARGEST
        assert energy.total(counter, LARGEST, float(second)) - first == used


def test_it_is_the_counter_itself_until_it_wraps() -> None:
    energy = Energy()
    assert energy.total(240_422_366_267, None, 0.0) == 240_422_366_267


def test_a_counter_that_began_anew_goes_on_from_where_it_was() -> None:
    energy = Energy()
    told = [energy.total(n, LARGEST, float(at)) for at, n in enumerate([30_000_000_000, 500, 900])]
    assert told == [30_000_000_000, 30_000_000_000, 30_000_000_400]


def test_it_never_falls_even_where_nobody_knows_where_it_wraps() -> None:
    energy = Energy()
    told = [energy.total(n, None, float(at)) for at, n in enumerate([7, 9, 3, 5, 0, 10])]
    assert all(a <= b for a, b in pairwise(told))


def test_a_long_pause_does_not_make_a_wrap_a_new_beginning() -> None:
    energy = Energy()
    energy.total(LARGEST - 1_000_000, LARGEST, 0.0)
    assert energy.total(9_000_000_000, LARGEST, 300.0) == LARGEST + 9_000_000_000
