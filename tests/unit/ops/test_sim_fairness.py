"""What the fair queue promises, read from the JSON of the real command, FIFO and round robin beside it.

The figures come from the modelled device's own log; the queue's books are not asked.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ops

pytestmark = pytest.mark.slow
ROUNDING = 1e-9
HOURS = 4


@pytest.fixture(scope="module")
def told() -> Any:
    tree = str(Path(ops.__file__).parents[1])
    command = [sys.executable, "-m", "ops.cli", "sim", "fairness", "--seed", "7", "--json"]
    ran = subprocess.run(command, cwd=tree, capture_output=True, check=True, timeout=300)
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def fair(told: Any) -> Any:
    return told["schedulers"]["fair"]


def test_it_says_what_was_run_and_that_it_is_simulated(told: Any) -> None:
    assert told["simulated"] is True
    assert (told["scenario"], told["seed"], told["virtual_hours"]) == ("fairness", 7, HOURS)
    assert set(told["schedulers"]) == {"fair", "fifo", "round_robin"}
    assert told["tickets"] > 8000
    assert told["wall_s"] > 0
    assert not told["interrupted"]


def test_each_part_ran_all_its_hours_with_the_device_never_idle(told: Any) -> None:
    for scheduler in told["schedulers"].values():
        for part in scheduler["parts"].values():
            assert part["virtual_s"] == HOURS * 3600
            assert part["busy"] == pytest.approx(1.0, abs=1e-6)
            assert part["idle_while_waiting_s"] == pytest.approx(0.0, abs=1e-6)


def test_saturating_lanes_of_unlike_sizes_get_the_same_service(told: Any, fair: Any) -> None:
    assert fair["jain"] >= 0.99
    for name in ("fifo", "round_robin"):
        assert told["schedulers"][name]["parts"]["skewed"]["jain"] < 0.5


def test_no_pair_of_lanes_drifts_apart_by_more_than_a_largest_ticket_of_each(
    told: Any, fair: Any
) -> None:
    for part in fair["parts"].values():
        assert part["gap_s"] <= part["gap_bound_s"] + ROUNDING
    assert fair["gap_over_bound"] <= 1 + ROUNDING
    for name in ("fifo", "round_robin"):
        assert told["schedulers"][name]["gap_over_bound"] > 50


def test_tickets_lasted_as_long_as_the_scenario_says(fair: Any) -> None:
    lanes = fair["parts"]["skewed"]["lanes"].values()
    assert [lane["largest_s"] for lane in lanes] == pytest.approx([1, 4, 16, 64])


def test_weights_are_respected_within_two_percent(told: Any, fair: Any) -> None:
    lanes = fair["parts"]["weighted"]["lanes"].values()
    for lane in lanes:
        assert lane["share"] == pytest.approx(lane["weight"] / 7, rel=0.02)
    assert fair["weight_error"] <= 0.02
    assert told["schedulers"]["fifo"]["weight_error"] > 1


def test_a_light_lane_waits_at_most_one_largest_ticket_of_each_other(fair: Any) -> None:
    assert fair["light_lane_bound_s"] == pytest.approx(4 + 16 + 64)
    assert fair["light_lane_max_wait_s"] <= fair["light_lane_bound_s"] + ROUNDING
    assert fair["parts"]["light"]["lanes"]["light"]["tickets"] > 100


def test_its_median_wait_is_at_most_one_hold(told: Any, fair: Any) -> None:
    assert fair["light_lane_hold_s"] == pytest.approx(64)
    assert fair["light_lane_median_wait_s"] <= fair["light_lane_hold_s"]
    for name in ("fifo", "round_robin"):
        other = told["schedulers"][name]
        assert other["light_lane_median_wait_s"] > other["light_lane_hold_s"]
        assert other["light_lane_max_wait_s"] > other["light_lane_bound_s"]
