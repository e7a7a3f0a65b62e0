"""What is believed of a value over time: frozen, stale, and that each doubt is counted once a second."""

import math

import pytest

from workers.sensors.raw import Raw, Reason
from workers.sensors.specs import SPECS
from workers.sensors.validity import FROZEN_S, STALE_S, Judge, in_unit


def tctl(milli: int) -> Raw:
    return Raw(milli, "k10temp", "Tctl")


def watch(
    judge: Judge, seconds: range, milli: int | list[int], watts: list[float | None]
) -> list[str]:
    """Judge a temperature once a second beside the socket's power; return the reasons."""
    reasons: list[str] = []
    for n, second in enumerate(seconds):
        judge.powered(watts[n % len(watts)], float(second))
        value = milli if isinstance(milli, int) else milli[n % len(milli)]
        reasons.append(judge.judge("tctl", tctl(value), float(second), float(second)).reason)
    return reasons


def test_a_value_that_stands_while_the_power_moves_is_frozen_after_a_minute() -> None:
    reasons = watch(Judge(), range(70), 50000, [20.0, 26.0])
    assert reasons == [""] * 60 + ["frozen"] * 10


def test_a_value_that_stands_while_the_power_stands_is_believed() -> None:
    assert set(watch(Judge(), range(300), 50000, [20.0, 25.0])) == {""}


def test_a_value_that_moves_is_believed_however_the_power_moves() -> None:
    assert set(watch(Judge(), range(300), [50000, 50125], [20.0, 120.0])) == {""}


def test_a_frozen_value_is_believed_again_when_it_moves_and_not_before() -> None:
    judge = Judge()
    watch(judge, range(61), 50000, [20.0, 90.0])
    assert set(watch(judge, range(61, 400), 50000, [20.0])) == {"frozen"}
    assert watch(judge, range(400, 402), [50125, 50250], [20.0]) == ["", ""]


def test_without_the_socket_power_nothing_is_called_frozen() -> None:
    assert set(watch(Judge(), range(200), 50000, [None])) == {""}


def test_power_that_moved_before_the_last_minute_freezes_nothing() -> None:
    judge = Judge()
    watch(judge, range(30), [40000, 40125], [20.0, 120.0])
    assert set(watch(judge, range(30, 30 + 59), 50000, [20.0])) == {""}
    assert set(watch(judge, range(89, 200), 50000, [20.0])) == {""}


@pytest.mark.parametrize("name", ["gpu_busy", "gfx_clock", "npu_power", "socket_power"])
def test_what_may_stand_still_truthfully_is_never_frozen(name: str) -> None:
    judge = Judge()
    for second in range(200):
        judge.powered(20.0 + second % 2 * 50, float(second))
        raw = Raw(90 if name == "gpu_busy" else 90_000, "amdgpu")
        assert judge.judge(name, raw, float(second), float(second)).reason != "frozen"


def test_an_old_value_is_stale_and_its_age_is_told() -> None:
    judge = Judge()
    young = judge.judge("tctl", tctl(50000), 10.0, 10.0 + STALE_S)
    assert (young.value, young.age_s) == (50.0, STALE_S)
    old = judge.judge("tctl", tctl(50000), 10.0, 10.5 + STALE_S)
    assert (old.value, old.valid, old.reason, old.age_s) == (None, False, "stale", STALE_S + 0.5)


def test_every_doubt_is_counted_by_name_and_reason() -> None:
    judge = Judge()
    for second in range(5):
        judge.judge("tctl", tctl(0), float(second), float(second))
        judge.judge("gpu_edge", Raw(None, "amdgpu", "edge", Reason.MISSING), 0.0, 0.0)
    judge.judge("tctl", tctl(130_000), 5.0, 5.0)
    assert judge.counts == {
        ("tctl", Reason.ZERO): 5,
        ("gpu_edge", Reason.MISSING): 5,
        ("tctl", Reason.TOO_HOT): 1,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -5])
def test_no_reading_takes_a_number_that_is_none(value: float) -> None:
    for name, spec in SPECS.items():
        if name != "npu_state":
            assert in_unit(name, spec, Raw(value, "s"))[1] is not None, name


@pytest.mark.parametrize("word", ["", "D5", "unknown", "error", "D0 ", "d0", 0, 0.0])
def test_a_power_state_is_one_of_those_there_are(word: object) -> None:
    told = in_unit("npu_state", SPECS["npu_state"], Raw(word, "accel"))  # type: ignore[arg-type]  # anything
    assert told == (None, Reason.UNREADABLE)


def test_a_minute_is_a_minute() -> None:
    assert FROZEN_S == 60.0
