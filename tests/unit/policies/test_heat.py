"""Heat: two lines, two fresh readings, a shortest stay, and what is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.heat import FRESH_S, Heat, Lines, cores_alone, hold_lines, rule_lines
from policies.on_busy import judge
from policies.row import OnBusy
from support.rule_cases import Case, judged, spoken

LINES = Lines(95.0, 85.0, 30.0)
RULE = OnBusy(device="npu", model="N", tctl_c=95.0)


def fed(lines: Lines, readings: list[float | None]) -> list[bool | None]:
    """Return what a fresh state says after each reading, one a second."""
    heat, said = Heat(lines), list[bool | None]()
    for second, reading in enumerate(readings):
        heat.feed(float(second), reading)
        said.append(heat.is_hot(float(second)))
    return said


def flips(said: list[bool | None]) -> list[int]:
    return [n for n in range(1, len(said)) if said[n] != said[n - 1]]


def test_a_trace_through_the_band_enters_once_and_leaves_once() -> None:
    trace = [value for value in (70.0, 96.0, 88.0, 94.0, 80.0) for _ in range(10)]
    said = fed(LINES, list(trace))
    # The second reading of 96 enters; of the readings of 80 the first after 30 s of hot leaves.
    assert flips(said) == [11, 41]
    assert (said[0], said[11], said[49]) == (False, True, False)


@pytest.mark.parametrize(
    ("readings", "hot", "verdict"),
    [
        ([94.9, 94.9], False, "stay"),
        ([95.0, 95.0], True, "move gpu_hot"),
        ([110.0, 110.0], True, "move gpu_hot"),
        ([110.0], False, "stay"),
        ([94.0, 96.0] * 20, False, "stay"),
        ([96.0, None, 96.0], False, "stay"),
        ([96.0, 96.0, None], None, "suppressed sensor_unknown"),
        ([96.0, 96.0, None, 96.0], True, "move gpu_hot"),
        ([96.0, 96.0, None, 90.0], True, "move gpu_hot"),
        ([96.0, 96.0, *[90.0] * 60], True, "move gpu_hot"),
        ([96.0, 96.0, *[89.9] * 29], True, "move gpu_hot"),
        ([96.0, 96.0, *[89.9] * 30], False, "stay"),
        ([96.0, 96.0, *[80.0] * 30, 96.0, 96.0], False, "stay"),
        ([96.0, 96.0, *[80.0] * 30, *[96.0] * 30], True, "move gpu_hot"),
        ([None, None], None, "suppressed sensor_unknown"),
        ([], None, "suppressed sensor_unknown"),
    ],
)
def test_the_rule_sees(readings: list[float | None], hot: bool | None, verdict: str) -> None:
    lines = rule_lines(RULE)
    assert lines == Lines(95.0, 90.0, 30.0)
    said = fed(lines, readings)
    assert (said[-1] if said else Heat(lines).is_hot(0.0)) is hot
    assert spoken(judge(*judged(Case(tctl_c=95.0, hot=hot)))) == verdict


def test_a_stale_reading_is_unknown_and_one_said_again_is_no_second_one() -> None:
    heat = Heat(LINES)
    heat.feed(1.0, 96.0)
    heat.feed(1.0, 96.0)
    heat.feed(1.01, 96.0)  # said again, by a message that was longer under way
    assert heat.is_hot(1.0) is False
    heat.feed(2.0, 96.0)
    assert (heat.is_hot(2.0), heat.is_hot(2.0 + FRESH_S)) == (True, True)
    assert heat.is_hot(2.1 + FRESH_S) is None
    heat.feed(90.0, 90.0)
    assert heat.is_hot(90.0) is True  # goes on where it was


def test_readings_far_apart_are_not_two_in_a_row() -> None:
    heat = Heat(LINES)
    heat.feed(0.0, 96.0)
    heat.feed(6.0, 96.0)
    assert heat.is_hot(6.0) is False


def test_heat_of_the_cores_alone_is_not_the_gpus() -> None:
    heat = Heat(Lines(95.0, 85.0))
    for second in range(10):
        heat.feed(float(second), 99.0, counts=not cores_alone(100.0, 0.03))
    assert heat.is_hot(9.0) is False


@pytest.mark.parametrize(
    ("socket_w", "gfx_w", "alone"),
    [
        (100.0, 0.03, True),
        (120.0, 84.0, False),
        (25.0, 0.03, False),  # nothing of the socket burns
        (45.0, 0.0, True),
        (120.0, 5.0, False),
        (None, 0.0, False),
        (120.0, None, False),
    ],
)
def test_the_split_is_believed_where_it_can_be_read(
    socket_w: float | None, gfx_w: float | None, alone: bool
) -> None:
    assert cores_alone(socket_w, gfx_w) is alone


def test_a_rule_without_a_line_has_none() -> None:
    assert rule_lines(OnBusy(device="npu", model="N")) is None
    rule = OnBusy(device="npu", model="N", tctl_c=90.0, tctl_clear_c=70.0, min_stay_s=5.0)
    assert rule_lines(rule) == Lines(90.0, 70.0, 5.0)


def test_a_heat_hold_begins_and_ends_with_the_heat() -> None:
    assert hold_lines(None, 60.0) is None
    lines = hold_lines(100.0, None)
    assert lines == Lines(100.0, 90.0)
    assert hold_lines(100.0, 80.0) == Lines(100.0, 80.0)
    said = fed(lines, [99.0, 100.0, 100.0, 90.0, 89.9, 101.0, 101.0, None])
    assert said == [False, False, True, True, False, False, True, None]


temperatures = st.one_of(st.none(), st.floats(60.0, 110.0), st.sampled_from([84.9, 85.0, 95.0]))
gaps = st.sampled_from([1.0, 1.0, 1.0, 2.0, 6.0, 31.0])


@given(st.lists(st.tuples(gaps, temperatures), max_size=120), st.sampled_from([0.0, 5.0, 30.0]))
def test_no_state_is_left_before_its_shortest_stay_and_none_is_entered_on_one_reading(
    steps: list[tuple[float, float | None]], min_stay_s: float
) -> None:
    heat, at, turned_at = Heat(Lines(95.0, 85.0, min_stay_s)), 0.0, None
    previous: tuple[float, float | None] = (-100.0, None)
    for gap, reading in steps:
        at, was = at + gap, heat.hot
        heat.feed(at, reading)
        assert (heat.is_hot(at) is None) == (reading is None)
        if heat.hot is not was:
            assert reading is not None
            assert turned_at is None or at - turned_at >= min_stay_s
            if heat.hot:
                assert reading >= 95.0
                assert previous[1] is not None
                assert previous[1] >= 95.0
                assert at - previous[0] <= FRESH_S
            else:
                assert reading < 85.0
            turned_at = at
        previous = (at, reading)


@given(
    readings=st.lists(st.one_of(st.none(), st.floats(85.0, 94.99)), max_size=60),
    was_hot=st.booleans(),
)
def test_between_the_lines_nothing_changes(readings: list[float | None], *, was_hot: bool) -> None:
    heat = Heat(Lines(95.0, 85.0), hot=was_hot)
    for second, reading in enumerate(readings):
        heat.feed(float(second), reading)
        assert heat.is_hot(float(second)) is (None if reading is None else was_hot)


@given(st.lists(st.floats(95.0, 120.0), min_size=2, max_size=40))
def test_lasting_heat_is_seen_at_its_second_reading(readings: list[float]) -> None:
    assert fed(LINES, list(readings))[1:] == [True] * (len(readings) - 1)
