"""The live feed in words."""

from typing import Any

import pytest

from ops.live_words import headline, landing, reading, sparkline
from scheduler.core import Limits
from scheduler.core.events import DrainAsked
from support.stand import Stand


def view(stand: Stand) -> dict[str, Any]:
    return stand.core.live(stand.now)


def test_the_headline_of_an_empty_box_knows_that_it_knows_nothing() -> None:
    assert headline(view(Stand())) == (
        "Nobody holds hrx0, which has no worker. Nobody waits. Tctl is unknown (missing)."
    )


def test_the_headline_says_who_holds_who_waits_and_how_hot_it_is() -> None:
    stand = Stand()
    worker, sensors = stand.worker(), stand.sensors()
    stand.run("a", lane="one", max_tokens=1530)
    stand.wait(20.0, worker, sensors)
    stand.ask("b", lane="two")
    stand.sense(sensors, tctl=71.4)
    said = headline(view(stand))
    assert said.startswith("one has held hrx0 for 20.0 s. 1 waits, the last to start in ")
    assert said.endswith(" 71 .")  # the test's sensors name no unit


def test_the_headline_of_a_box_that_drains_begins_with_that() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    stand.send(DrainAsked(stand.now, b"operator", True))
    assert headline(view(stand)).startswith("This box drains: no new work, 1 still open. lane has ")


def test_under_a_heat_hold_nobody_is_told_when_it_ends() -> None:
    stand = Stand(Limits(stop_tctl_c=90.0))
    stand.worker()
    sensors = stand.sensors()
    for _ in range(3):
        stand.sense(sensors, tctl=95.0)
        stand.wait(1.0, sensors)
    stand.ask("a")
    seen = view(stand)
    assert [one["eta_s"] for one in seen["devices"]["hrx0"]["waiting"]] == [None]
    assert headline(seen) == "Nobody holds hrx0. 1 waits until hrx0 has cooled. 95 , hot."


TICKET = {"rule": "laya-code", "why": "", "stays": "", "degraded": "", "outside": False}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "laya-code"),
        ({"rule": ""}, "by name"),
        ({"why": "gpu_busy"}, "laya-code, gpu_busy"),
        ({"stays": "warmup"}, "laya-code, stays (warmup)"),
        ({"degraded": "pull_timeout"}, "laya-code, a stand-in (pull_timeout)"),
        ({"outside": True}, "a program of its own"),
    ],
)
def test_a_landing_says_by_what_and_why(facts: dict[str, object], said: str) -> None:
    assert landing(TICKET | facts) == said


def test_a_reading_has_its_unit_or_its_reason() -> None:
    readings = {
        "tctl": {"value": 71.25, "unit": "C", "reason": ""},
        "socket_power": {"value": None, "unit": "", "reason": "stale"},
    }
    assert reading({"readings": readings}, "tctl", 1) == "71.2 °C"
    assert reading({"readings": readings}, "socket_power") == "unknown (stale)"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0.0, 50.0, 100.0], "▁▅█"),
        ([0.0, None, 100.0], "▁ █"),
        ([None], " "),
        ([], ""),
        ([200.0, 0.0], "█▁"),
        ([7.0, 0.0, 0.0, 0.0, 0.0, 100.0], "▁▁▁▁█"),
    ],
)
def test_a_line_of_blocks_shows_the_latest_and_leaves_the_unknown_empty(
    values: list[float | None], line: str
) -> None:
    assert sparkline(values, 0.0, 100.0, 5) == line
