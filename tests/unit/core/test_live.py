"""What people who watch are shown of one instant, and what of the last endings is kept."""

import json
from typing import Any

import msgspec
import pytest

from policies.row import OnBusy
from scheduler.core import Appliance, Limits
from scheduler.core.effects import Dispatch, Ended
from scheduler.core.events import DrainAsked
from scheduler.core.live import CURVES, LANES, SHOWN
from scheduler.core.recent import KEEP, REFUSED, Recent
from scheduler.core.senses import STALE_S
from support.stand import Stand, catalogue, one

SECRET = b'{"prompt": "a secret"}'


def live(stand: Stand) -> Any:
    """Return the view as it is sent."""
    return json.loads(json.dumps(stand.core.live(stand.now)))


def ended(number: int) -> Ended:
    return Ended(
        f"r{number}", "lane", "chat", "M", "hrx", "", "", "", "answered", 0.0, 1.0, 1, 0, 1
    )


def test_a_box_with_nothing_in_it_shows_what_it_does_not_know_as_unknown() -> None:
    seen = live(Stand(boot=7))
    assert (seen["boot"], seen["ready"], seen["heat"]) == (7, False, [])
    assert seen["devices"]["hrx0"]["state"] == "no worker"
    assert seen["curves"] == dict.fromkeys(CURVES)
    assert {(said["value"], said["reason"]) for said in seen["readings"].values()} == {
        (None, "missing")
    }
    assert [(w["device"], w["backend"]) for w in seen["workers"]] == [
        ("hrx0", None),
        ("npu0", None),
    ]
    assert {model["bytes"] for model in seen["models"]} == {None}
    assert seen["recent"] == {"total": 0, "ended": [], "refused": []}


def test_who_holds_and_who_waits_stand_beside_why_they_are_there() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.scorer()
    asked = stand.question("a", lane="one", body=SECRET)
    stand.decided(asked, "M", rule="laya-code")
    stand.ask("b", "M", lane="two", body=SECRET)
    stand.wait(2.0, worker)
    seen = live(stand)
    hrx = seen["devices"]["hrx0"]
    assert hrx["state"] == "held"
    assert [(h["lane"], h["rule"], h["held_s"]) for h in hrx["holders"]] == [
        ("one", "laya-code", 2.0)
    ]
    assert [(w["lane"], w["rule"], w["position"]) for w in hrx["waiting"]] == [("two", "", 1)]
    assert seen["totals"] == {"waiting": 1, "deciding": 0, "running": 1}
    assert "secret" not in json.dumps(seen)


def test_of_very_many_lanes_the_busiest_are_listed_and_all_are_counted() -> None:
    stand = Stand(Limits(lanes=1000, queue_total=1000))
    stand.worker()
    for n in range(LANES + 50):
        stand.finish(stand.run(f"r{n}", lane=f"lane-{n}"))
    stand.run("holds", lane="holder")
    stand.ask("waits", lane="lane-3")
    seen = live(stand)
    assert (len(seen["lanes"]), seen["lanes_total"]) == (LANES, LANES + 51)
    assert {"holder", "lane-3"} <= seen["lanes"].keys()


def test_a_box_that_drains_says_so_and_how_much_is_left() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    before = live(stand)
    stand.send(DrainAsked(stand.now, b"operator", True))
    after = live(stand)
    assert (before["draining"], before["open"]) == (False, 1)
    assert (after["draining"], after["open"]) == (True, 1)


def test_an_outside_hold_is_one_and_its_command_is_not_shown() -> None:
    stand = Stand()
    stand.held("h")
    (holder,) = live(stand)["devices"]["hrx0"]["holders"]
    assert (holder["lane"], holder["outside"]) == ("outside", True)
    assert "bench" not in json.dumps(live(stand))


def test_the_seconds_a_device_was_held_grow_while_it_is() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("a")
    seen: list[float] = []
    for _ in range(3):
        stand.wait(1.5, worker)
        seen.append(stand.core.pulse(stand.now)["busy_s"]["hrx0"])  # type: ignore[index]  # JSON
    stand.finish(run)
    stand.wait(5.0, worker)
    seen.append(stand.core.pulse(stand.now)["busy_s"]["hrx0"])  # type: ignore[index]  # JSON
    assert seen == [1.5, 3.0, 4.5, 4.5]


def test_a_reading_that_grew_old_is_no_point_of_a_curve() -> None:
    stand = Stand()
    sensors = stand.sensors()
    stand.sense(sensors, tctl=71.0, socket_power=91.0)
    assert stand.core.pulse(stand.now)["curves"] == {"tctl": 71.0, "socket_power": 91.0}
    stand.wait(STALE_S + 1.0, sensors)
    assert stand.core.pulse(stand.now)["curves"] == {"tctl": None, "socket_power": None}
    assert live(stand)["readings"]["tctl"]["reason"] == "stale"


def test_the_lines_of_heat_are_shown_and_whether_they_are_passed() -> None:
    stand = Stand(Limits(stop_tctl_c=95.0))
    sensors = stand.sensors()
    line = {"what": "hold", "class": "", "on_c": 95.0, "off_c": 85.0}
    assert live(stand)["heat"] == [{**line, "is_hot": None}]
    for expected, value in ((False, 60.0), (False, 96.0), (True, 97.0)):
        stand.sense(sensors, tctl=value)
        stand.wait(1.0, sensors)
        assert live(stand)["heat"] == [{**line, "is_hot": expected}]
    stand.worker()
    assert live(stand)["devices"]["hrx0"]["state"] == "hot"


def test_a_rule_that_asks_for_heat_has_a_line_of_its_own() -> None:
    stand = Stand()
    known = msgspec.structs.replace(
        catalogue(),
        on_busy={"prose": OnBusy("npu", "P"), "long_doc": OnBusy("npu", "P", tctl_c=90.0)},
    )
    stand.core = Appliance(known, stand.limits, boot=1, at=stand.now)
    assert live(stand)["heat"] == [
        {"what": "move", "class": "long_doc", "on_c": 90.0, "off_c": 85.0, "is_hot": None}
    ]


def test_an_ending_tells_where_it_landed_and_why() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.scorer()
    asked = stand.question("a", lane="one")
    run = one(stand.decided(asked, "M", rule="laya-code"), Dispatch)
    stand.wait(2.0, worker)
    stand.finish(run)
    stand.wait(3.0, worker)
    (last,) = live(stand)["recent"]["ended"]
    assert (last["n"], last["request"], last["lane"], last["rule"]) == (1, "a", "one", "laya-code")
    assert (last["model"], last["device"], last["outcome"]) == ("M", "hrx", "answered")
    assert (last["ago_s"], last["ran_s"], last["output_tokens"]) == (3.0, 2.0, 5)


def test_the_newest_endings_are_kept_and_numbered_for_who_follows() -> None:
    recent = Recent()
    for number in range(KEEP + 10):
        recent.add(float(number), ended(number))
    assert (recent.total, len(recent.endings)) == (KEEP + 10, KEEP)
    assert recent.endings[0][1].request == "r10"


def test_endings_outlive_the_broker_by_its_new_clock() -> None:
    old, new = Recent(), Recent()
    old.add(10.0, ended(1))
    new.inherit(old, 5.0)
    assert (new.total, list(new.endings)) == (1, [(15.0, ended(1))])


def test_what_is_refused_at_the_door_is_shown_and_hides_no_ending() -> None:
    stand = Stand()
    stand.worker()
    stand.finish(stand.run("a"))
    for number in range(KEEP + 1):
        stand.ask(f"no{number}", "nope")
    recent = live(stand)["recent"]
    assert [past["request"] for past in recent["ended"]] == ["a"]
    assert [past["request"] for past in recent["refused"]] == [
        f"no{KEEP - back}" for back in range(REFUSED)
    ]
    assert {(past["name"], past["lane"]) for past in recent["refused"]} == {("nope", "lane")}


def test_a_long_queue_is_cut_and_counted() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    for number in range(SHOWN + 5):
        stand.ask(f"w{number}")
    hrx = live(stand)["devices"]["hrx0"]
    assert (len(hrx["waiting"]), hrx["waiting_total"]) == (SHOWN, SHOWN + 5)


@pytest.mark.parametrize("look", ["live", "pulse"])
def test_looking_changes_nothing(look: str) -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    stand.ask("b")
    view = getattr(stand.core, look)
    assert view(stand.now) == view(stand.now)


def test_a_row_on_its_way_is_shown_with_who_waits_for_it() -> None:
    stand = Stand()
    stand.worker()
    store = stand.store()
    stand.stocked(store, N="missing", M="ready")
    stand.ask("a", "N")
    stand.ask("b", "N")
    (pull,) = live(stand)["pulls"]
    assert (pull["model"], pull["total_bytes"], pull["asked"], pull["waiting"]) == (
        "N",
        None,
        True,
        2,
    )
    assert live(stand)["totals"]["waiting"] == 2
