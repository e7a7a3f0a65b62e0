"""The readings that the core keeps: whose they are, how old they get, and what is written down of them."""

import math

import msgspec
import pytest

from scheduler.core.checkpoint import thaw
from scheduler.core.entry import kept
from scheduler.core.events import Reading, Sensed
from scheduler.core.senses import STALE_S, Senses
from support.stand import Stand, kinds


def said(name: str = "tctl", value: float | str | None = 71.0, **fields: object) -> Reading:
    """Return a reading as the sensors say it."""
    known: dict[str, object] = {
        "unit": "C", "source": "k10temp", "label": "Tctl", "age_s": 0.25, "valid": True,
        "reason": "",
    }  # fmt: skip
    return Reading(name, value, **(known | fields))  # type: ignore[arg-type]  # a table of fields


def test_the_status_shows_each_reading_with_its_age() -> None:
    stand = Stand()
    stand.sense(stand.sensors(), said())
    stand.now += 1.5
    view = stand.core.snapshot(stand.now)
    assert view["senses"] == {
        "readings": [{
            "name": "tctl", "value": 71.0, "unit": "C", "source": "k10temp", "label": "Tctl",
            "age_s": 1.75, "valid": True, "reason": "",
        }],
        "doubts": {},
    }  # fmt: skip
    assert view["sensors"][0]["name"] == "sensors-6"  # type: ignore[index]  # a view


def test_a_reading_that_is_not_renewed_becomes_unknown() -> None:
    senses = Senses()
    senses.take([said(age_s=1.0)], 100.0)
    assert senses.number("tctl", 100.0 + STALE_S - 1.0) == 71.0
    late = senses.reading("tctl", 100.5 + STALE_S)
    assert (late.value, late.valid, late.reason) == (None, False, "stale")
    assert senses.number("tctl", 100.5 + STALE_S) is None


def test_what_was_never_said_is_unknown_and_a_word_is_no_number() -> None:
    senses = Senses()
    senses.take([said("npu_state", "D0")], 1.0)
    assert senses.reading("tctl", 1.0).reason == "missing"
    assert senses.number("tctl", 1.0) is None
    assert senses.number("npu_state", 1.0) is None
    assert senses.reading("npu_state", 1.0).value == "D0"


def test_what_is_no_longer_spoken_of_is_forgotten() -> None:
    senses = Senses()
    senses.take([said(), said("uptime", 5.0)], 1.0)
    senses.take([said("uptime", 6.0)], 2.0)
    assert set(senses.latest) == {"uptime"}


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        (said(value=None), "missing"),
        (said(value=math.nan), "no number"),
        (said(value=math.inf), "no number"),
        (said(value=97.0, valid=False, reason="frozen"), "frozen"),
    ],
)
def test_value_and_validity_agree_whatever_was_said(reading: Reading, reason: str) -> None:
    senses = Senses()
    senses.take([reading], 1.0)
    kept_one = senses.latest["tctl"]
    assert (kept_one.value, kept_one.valid, kept_one.reason) == (None, False, reason)
    senses.take([reading], 2.0)
    assert senses.doubts == {f"tctl {reason}": 2}


def test_doubts_are_bounded_whatever_reasons_are_made_up() -> None:
    senses = Senses()
    for n in range(1000):
        senses.take([said(value=None, valid=False, reason=f"r{n}")], float(n))
    assert len(senses.doubts) == 256


def test_only_the_sensors_may_say_what_they_read() -> None:
    stand = Stand()
    stand.ready()
    own = stand.sensors()
    stand.sense(own, tctl=60.0)
    impostor = own._replace(route=b"hrx", epoch=stand.epochs[b"hrx"])
    assert stand.sense(impostor, tctl=99.0) == []
    assert kinds(stand.sense(own._replace(epoch=own.epoch - 1), tctl=99.0)) == ["Expel"]
    senses = stand.core.snapshot(stand.now)["senses"]
    assert [one["value"] for one in senses["readings"]] == [60.0]  # type: ignore[index]  # a view
    assert stand.core.snapshot(stand.now)["counts"]["fenced"] == 2  # type: ignore[index]  # a view


def test_a_second_sensors_worker_is_sent_away_while_the_first_lives() -> None:
    stand = Stand()
    stand.sensors()
    assert kinds(stand.ready(b"second", "sensors", "", pid=7)) == ["Expel"]
    stand.ended(6)
    assert "Admit" in kinds(stand.ready(b"second", "sensors", "", pid=7))


def test_a_box_is_ready_without_sensors() -> None:
    stand = Stand()
    stand.ready()
    stand.ready(b"npu", "npu", "npu0")
    stand.ready(b"scorer", "scorer", "")
    view = stand.core.snapshot(stand.now)
    assert view["ready"] is True
    assert view["senses"] == {"readings": [], "doubts": {}}


def test_the_journal_keeps_what_decides_and_no_words() -> None:
    event = Sensed(1.0, b"p", 3, [said(), said("package_energy", 5.0)])
    bare = said(unit="", source="", label="")
    assert kept(event, []) == (Sensed(1.0, b"p", 3, [bare]), [])
    assert len(msgspec.msgpack.encode(kept(event, [])[0])) < 64


def test_a_checkpoint_has_the_readings_that_decide_without_their_words() -> None:
    stand = Stand()
    stand.sense(stand.sensors(), said(), said("gpu_edge", None, valid=False, reason="frozen"))
    kept_ = thaw(stand.core.freeze()).senses
    assert kept_.number("tctl", stand.now) == said().value
    assert kept_.reading("gpu_edge", stand.now).reason == "frozen"
    assert kept_.reading("tctl", stand.now).source == ""


@pytest.mark.parametrize(
    ("percent", "held", "seconds"),
    [
        (97.0, False, {"busy": 1.0}),
        (97.0, True, {}),
        (0.0, True, {"idle": 1.0}),
        (0.0, False, {}),
        (None, True, {}),
    ],
)
def test_where_the_counter_and_the_tickets_disagree_is_counted_and_decides_nothing(
    percent: float | None, seconds: dict[str, float], *, held: bool
) -> None:
    stand = Stand()
    stand.ready()
    peer = stand.sensors()
    if held:
        stand.run("r", lane="a")
    for _ in range(2):
        stand.sense(peer, said("gpu_busy", percent, unit="%", valid=percent is not None))
        stand.now += 1.0
    shown = stand.core.metrics(stand.now)["gpu_busy_disagreement_seconds_total"]
    assert {label: value for label, value in shown if value} == seconds
