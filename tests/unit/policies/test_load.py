"""Load from outside the queue: sustained, corroborated, and never our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.load import MARGIN_W, Load

Reading = tuple[float | None, float | None, float | None]

IDLE: Reading = (0.0, 8.0, None)
WORK: Reading = (0.97, 91.0, None)
PINNED: Reading = (1.0, 30.0, None)


def fed(readings: list[Reading], *, held: bool = False, load: Load | None = None) -> Load:
    load = load or Load(0.9)
    start = load.read_at or 0.0
    for second, (busy, socket_w, gfx_w) in enumerate(readings, start=1):
        load.feed(start + second, busy, socket_w, gfx_w, held=held)
    return load


def is_busy(load: Load) -> bool:
    assert load.read_at is not None
    return load.is_busy(load.read_at)


def test_five_readings_of_work_over_a_known_idleness_are_load() -> None:
    load = fed([IDLE] * 5 + [WORK] * 4)
    assert not is_busy(load)
    assert is_busy(fed([WORK], load=load))
    assert load.idle_w == 8.0


@pytest.mark.parametrize(
    "readings",
    [
        [WORK] * 60,  # was there before idleness could be learned
        [IDLE] * 60 + [PINNED] * 600,  # two idle processes pin the counter
        [IDLE] * 60 + [WORK] * 4 + [IDLE] + [WORK] * 4,
        [IDLE] * 60 + [WORK] * 4 + [(None, 91.0, None)] + [WORK] * 4,
        [IDLE] * 60 + [WORK] * 4 + [(0.97, None, None)] + [WORK] * 4,
        [IDLE] * 60 + [(0.89, 91.0, None)] * 60,
        [IDLE] * 60 + [(1.0, 120.0, 0.03)] * 60,  # the power is the cores'
        [(0.0, 0.5, None), *[(0.0, 60.0, None)] * 60, *[WORK] * 60],  # one reading taught nothing
    ],
)
def test_what_is_no_load(readings: list[Reading]) -> None:
    assert not is_busy(fed(readings))


def test_a_held_ticket_explains_the_load() -> None:
    load = fed([WORK] * 60, held=True, load=fed([IDLE] * 5))
    assert not is_busy(load)
    assert not is_busy(fed([WORK] * 4, load=load))
    assert is_busy(fed([WORK], load=load))


def test_old_readings_say_nothing() -> None:
    load = fed([IDLE] * 5 + [WORK] * 5)
    assert load.read_at == 10.0
    assert load.is_busy(15.0)
    assert not load.is_busy(15.1)
    load.feed(16.0, 0.97, 91.0, None, held=False)
    assert not load.is_busy(16.0)


def test_a_reading_said_again_is_no_second_one() -> None:
    load = fed([IDLE] * 5)
    for delay_s in (0.0, 0.0, 0.02, 0.01, 0.1):
        load.feed(6.0 + delay_s, 0.97, 91.0, None, held=False)
    assert not load.is_busy(6.0)


readings = st.tuples(
    st.one_of(st.none(), st.floats(0.0, 1.0), st.just(1.0)),
    st.one_of(st.none(), st.floats(1.0, 160.0), st.sampled_from([8.0, 91.0])),
    st.one_of(st.none(), st.sampled_from([0.03, 60.0])),
)


@given(st.lists(st.tuples(readings, st.booleans()), max_size=60))
def test_load_is_five_agreeing_readings_and_nothing_less(
    steps: list[tuple[Reading, bool]],
) -> None:
    load = Load(0.9)
    load.idle_w = 8.0
    for second, (reading, held) in enumerate(steps, start=1):
        load.feed(float(second), *reading, held=held)
        assert load.idle_w <= 8.0
        if load.is_busy(float(second)):
            for (busy, socket_w, gfx_w), ours in steps[second - 5 : second]:
                assert not ours
                assert busy is not None
                assert busy >= 0.9
                assert socket_w is not None
                assert socket_w >= load.idle_w + MARGIN_W
                assert gfx_w != 0.03
