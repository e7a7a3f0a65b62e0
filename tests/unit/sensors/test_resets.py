"""What the warm-up rests on: seconds asleep by two clocks, resets by the dumps they leave."""

import os
import shutil
from pathlib import Path

import pytest

from support.amd_tree import CARD, DUMPS, NPU, NPU_SLOT, SLOT, plant, plant_dumps
from workers.sensors.collector import Collector
from workers.sensors.sources import machine_clocks


def value(collector: Collector, name: str, at: float) -> object:
    return {one.name: one.value for one in collector.collect(at)}[name]


class Clocks:
    """A machine that slept."""

    def __init__(self) -> None:
        self.asleep_s = 0.0
        self.held_up_s = [0.0]  # between the two clocks, at one look after the other

    def __call__(self) -> tuple[float, float]:
        late = self.held_up_s.pop(0) if len(self.held_up_s) > 1 else self.held_up_s[0]
        return 1000.0, 1000.0 + self.asleep_s + late


def test_sleep_is_how_far_the_clocks_are_apart(tmp_path: Path) -> None:
    clocks = Clocks()
    collector = Collector(plant(tmp_path), clocks=clocks)
    assert value(collector, "suspended", 1.0) == 0.0
    clocks.asleep_s = 3600.25
    assert value(collector, "suspended", 2.0) == 3600.2
    clocks.asleep_s = 3600.21  # what is read too little is no waking up
    assert value(collector, "suspended", 3.0) == 3600.2
    collector.close()


def test_who_is_held_up_between_the_clocks_has_not_slept(tmp_path: Path) -> None:
    clocks = Clocks()
    clocks.held_up_s = [4.0, 0.0, 2.0, 0.0]
    collector = Collector(plant(tmp_path), clocks=clocks)
    assert value(collector, "suspended", 1.0) == 0.0
    collector.close()


def test_another_trees_sleep_is_not_this_machines(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path))
    assert value(collector, "suspended", 1.0) is None
    collector.close()


def test_the_machines_own_clocks_do_not_run_apart() -> None:
    (awake, total), (later, later_total) = machine_clocks(), machine_clocks()
    assert later >= awake
    assert (later_total - total) - (later - awake) < 0.5


@pytest.mark.parametrize("slot", [SLOT, NPU_SLOT])
def test_each_dump_of_the_gpu_or_the_npu_is_counted_once(slot: str, tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path, dumps={}))
    told = [value(collector, "resets", 1.0)]
    plant_dumps(tmp_path, {"devcd1": slot})
    told += [value(collector, "resets", at) for at in (2.0, 3.0)]
    shutil.rmtree(tmp_path / DUMPS / "devcd1")  # as the kernel does after five minutes
    told.append(value(collector, "resets", 4.0))
    plant_dumps(tmp_path, {"devcd2": slot})
    told.append(value(collector, "resets", 5.0))
    collector.close()
    assert told == [0.0, 1.0, 1.0, 1.0, 2.0]


def test_a_dump_of_a_device_that_does_not_answer_is_looked_at_again(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path, dumps={}))
    (tmp_path / DUMPS / "devcd1").mkdir()
    told = [value(collector, "resets", 1.0)]
    plant_dumps(tmp_path, {"devcd1": SLOT})
    told.append(value(collector, "resets", 2.0))
    collector.close()
    assert told == [0.0, 1.0]


@pytest.mark.parametrize("place", [CARD, NPU])
@pytest.mark.parametrize("dumps", [{}, None], ids=["dumps", "no dumps"])
def test_a_device_that_was_gone_and_is_there_again_was_reset(
    place: str, dumps: dict[str, str] | None, tmp_path: Path
) -> None:
    collector = Collector(plant(tmp_path, dumps=dumps))
    told = [value(collector, "resets", 1.0)]
    node, aside = (tmp_path / place).parent, tmp_path / "aside"
    node.rename(aside)
    told.append(value(collector, "resets", 2.0))
    aside.rename(node)
    told += [value(collector, "resets", at) for at in (3.0, 4.0)]
    collector.close()
    none = None if dumps is None else 0.0
    assert told == [none, none, 1.0, 1.0]


def test_a_device_that_does_not_answer_for_a_while_was_not_reset(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path, dumps={}), deadline_s=0.1)
    told = [value(collector, "resets", 1.0)]
    vendor = tmp_path / CARD / "vendor"
    vendor.rename(tmp_path / "aside")
    os.mkfifo(vendor)
    told.append(value(collector, "resets", 2.0))
    os.close(os.open(vendor, os.O_RDWR | os.O_NONBLOCK))
    (tmp_path / "aside").replace(vendor)
    told += [value(collector, "resets", at) for at in (3.0, 4.0)]
    collector.close()
    assert told == [0.0] * 4


def test_the_dump_of_another_device_is_none(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path, dumps={"devcd1": "0000:01:00.0"}))
    assert value(collector, "resets", 1.0) == 0.0
    collector.close()
