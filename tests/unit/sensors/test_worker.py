"""The thread that reads: it goes on whatever happens, and says how old its word is."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler import settings
from scheduler.wire.words import Reading
from support.amd_tree import plant
from support.wait import until
from workers.helper import Sensed
from workers.sensors import worker
from workers.sensors.collector import Collector
from workers.sensors.raw import Reason
from workers.sensors.worker import Sensors


class Scripted:
    """Eyes that make something happen at each look; after the last one there is nothing to see."""

    is_recorded = False

    def __init__(self, *looks: Callable[[], object]) -> None:
        self.counts: dict[tuple[str, Reason], int] = {}
        self._looks = list(looks)

    def collect(self, _at: float) -> list[Reading] | None:
        if not self._looks:
            return None
        self._looks.pop(0)()
        return [Reading("tctl", 70.0, valid=True)]

    def close(self) -> None:
        """Nothing is held."""


def watched(
    monkeypatch: pytest.MonkeyPatch, *eyes: Scripted, until_told: int
) -> list[list[Reading]]:
    """Return what is said to a worker that has one pair of eyes after the other."""
    told: list[list[Reading]] = []
    waiting = list(eyes)
    monkeypatch.setattr(worker, "open_eyes", lambda _conf: waiting.pop(0))
    monkeypatch.setattr(worker, "PERIOD_S", 0.01)

    def tell(said: object) -> None:
        assert isinstance(said, Sensed)
        told.append(said.readings)

    Sensors(settings.Sensors()).joined(tell)
    until(lambda: len(told) >= until_told, "what it says")
    return told


def broken() -> None:
    raise RuntimeError("can't start new thread")


def nothing() -> None:
    """Nothing happens."""


def test_what_nobody_thought_of_costs_a_second_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        bad, good = Scripted(nothing, broken), Scripted(nothing, nothing)
        told = watched(monkeypatch, bad, Scripted(broken), good, until_told=3)
    assert len(told) == 3
    blind = [one for one in caplog.records if getattr(one, "action", "") == "sensors_blind"]
    assert len(blind) == 1
    assert "can't start new thread" in str(vars(blind[0]))


def test_a_round_that_took_long_is_told_with_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    eyes = Scripted(nothing, lambda: time.sleep(0.3))
    (first,), (second,) = watched(monkeypatch, eyes, until_told=2)
    assert first.age_s < 0.3 <= second.age_s


def test_a_machine_that_gives_no_more_threads_makes_readings_stale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("workers.sensors.guard._Hand", broken)
    found = {one.name: one for one in Collector(plant(tmp_path)).collect(1.0)}
    assert (found["tctl"].value, found["tctl"].reason) == (None, "stale")
