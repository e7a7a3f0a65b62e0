"""The queue as people see it: order, times, shares, and no word of any prompt."""

import json
from typing import Any

import pytest

from scheduler.core import Limits
from scheduler.core.queueview import SHOWN
from support.stand import Stand


def view(stand: Stand) -> Any:
    """Return the view."""
    return stand.core.queue(stand.now)


def test_an_empty_box_has_devices_bounds_and_nothing_else() -> None:
    seen = view(Stand())
    hrx = seen["devices"]["hrx0"]
    assert (hrx["backend"], hrx["seats"], hrx["holders"], hrx["waiting"]) == (None, 0, [], [])
    assert seen["totals"] == {"waiting": 0, "deciding": 0, "running": 0}
    assert (seen["bounds"]["queue_total"], seen["bounds"]["queue_per_lane"]) == (256, 64)
    assert seen["lanes"] == {}


def test_a_holder_is_shown_with_what_it_had_and_what_it_needs_still() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run("a", lane="one", max_tokens=1530, batch=True)
    stand.wait(30.0, worker)
    assert view(stand)["devices"]["hrx0"]["holders"] == [
        {
            "lane": "one", "request": "a", "model": "M", "priority": "batch", "outside": False,
            "rule": "", "why": "", "stays": "", "state": "running", "held_s": 30.0, "left_s": 70.0,
        }
    ]  # fmt: skip


def test_who_waits_is_shown_in_the_order_of_service() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run("a", lane="one", max_tokens=1530)
    stand.ask("b", lane="one", max_tokens=153)
    stand.wait(1.0, worker)
    stand.ask("c", lane="two", max_tokens=306)
    stand.wait(4.0, worker)
    waiting = view(stand)["devices"]["hrx0"]["waiting"]
    assert [(t["position"], t["request"], t["lane"]) for t in waiting] == [
        (1, "c", "two"),
        (2, "b", "one"),
    ]
    assert [(t["waited_s"], t["eta_s"]) for t in waiting] == [(4.0, 95.0), (5.0, 115.0)]
    assert {t["priority"] for t in waiting} == {"interactive"}


def test_without_a_worker_nobody_knows_how_long() -> None:
    stand = Stand()
    stand.ask("a")
    assert [t["eta_s"] for t in view(stand)["devices"]["hrx0"]["waiting"]] == [None]


def test_what_is_being_decided_waits_too_under_the_name_it_asked_for() -> None:
    stand = Stand()
    stand.scorer()
    stand.ask("a", "auto")
    seen = view(stand)
    assert [(t["request"], t["model"]) for t in seen["deciding"]] == [("a", "auto")]
    assert seen["totals"] == {"waiting": 1, "deciding": 1, "running": 0}
    assert seen["lanes"]["lane"]["waiting"] == 1


def test_lanes_are_shown_with_what_they_were_really_served() -> None:
    stand = Stand(weights={"heavy": 3.0})
    worker = stand.worker(seats=2)
    stand.beat(worker, ["M", "N"])
    first = stand.run("a", lane="heavy", max_tokens=1530)
    stand.run("b", lane="light", max_tokens=1530)
    stand.wait(10.0, worker)
    stand.finish(first)
    stand.wait(5.0, worker)
    stand.ask("c", "N", lane="waits")  # picked, and charged, but not served
    lanes = view(stand)["lanes"]
    assert {name: (lane["weight"], lane["served_s"]) for name, lane in lanes.items()} == {
        "heavy": (3.0, 5.0),
        "light": (1.0, 10.0),
        "waits": (1.0, 0.0),
    }
    assert [lane["share"] for lane in lanes.values()] == pytest.approx([0.333, 0.667, 0.0])
    assert [(lane["waiting"], lane["running"]) for lane in lanes.values()] == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert lanes["light"]["served_by_device_s"] == {"hrx0": 10.0}


def test_the_rate_measured_is_shown_beside_how_much_was_measured() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    run = stand.run()
    assert view(stand)["devices"]["hrx0"]["measured"] == {"endings": 0, "held_s": None}
    stand.wait(8.0, worker)
    stand.finish(run)
    assert view(stand)["devices"]["hrx0"]["measured"] == {"endings": 1, "held_s": 8.0}


def test_no_prompt_is_shown() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    for n, name in enumerate(("M", "M", "auto")):
        stand.ask(f"r{n}", name, body=b'{"prompt": "a secret"}')
    assert "secret" not in json.dumps(view(stand))


def test_a_very_long_queue_is_cut_and_counted() -> None:
    stand = Stand(Limits(queue_total=1000, queue_per_lane=1000))
    for n in range(SHOWN + 3):
        stand.core.handle(stand_ask(stand, n))
    hrx = view(stand)["devices"]["hrx0"]
    assert (len(hrx["waiting"]), hrx["waiting_total"]) == (SHOWN, SHOWN + 3)


def stand_ask(stand: Stand, n: int) -> Any:
    """Return an ask that is handed in without the checks, which take a minute for so many."""
    from scheduler.core.events import Asked

    return Asked(
        stand.now, b"c", f"r{n}", "chat", "M", "lane", f"c{n}", True, False, False,
        stand.now + 600, 0, 1, False, False, False, b"{}",
    )  # fmt: skip


def test_looking_changes_nothing() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    stand.ask("b")
    assert view(stand) == view(stand)


def test_an_outside_lane_is_of_no_row_and_the_one_loaded_before_stays_named() -> None:
    stand = Stand()
    stand.worker()
    stand.finish(stand.run())
    stand.held()
    stand.hold("i", lane="another")
    device = view(stand)["devices"]["hrx0"]
    assert [one["model"] for one in (*device["holders"], *device["waiting"])] == ["", ""]
    assert device["loaded"] == "M"
    status: Any = stand.core.snapshot(stand.now)
    assert status["devices"]["hrx0"]["loaded"] == "M"
