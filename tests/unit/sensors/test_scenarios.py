"""Every scenario reads as tests/vectors/sensors.tsv says, which is written from the figures of the trees."""

import csv
import importlib.util
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

from support import shared
from support.amd_tree import SCENARIOS, plant
from workers.sensors.collector import Collector
from workers.sensors.raw import Reason
from workers.sensors.specs import SPECS

_FILE = Path(__file__).parents[2] / "vectors" / "sensors.tsv"
Told = tuple[float | str | None, str]
TABLE: dict[str, dict[str, Told]] = defaultdict(dict)


def _value(text: str) -> float | str | None:
    if text == "null":
        return None
    try:
        return float(text)
    except ValueError:
        return text


with _FILE.open(newline="") as _rows:
    for _row in csv.DictReader(_rows, delimiter="\t"):
        TABLE[_row["scenario"]][_row["reading"]] = _value(_row["value"]), _row["reason"]


def read(root: Path) -> dict[str, Told]:
    """Return value and reason of each reading of a tree, as of one look at it."""
    collector = Collector(root)
    readings = collector.collect(100.0)
    collector.close()
    assert all(one.valid == (one.value is not None) == (one.reason == "") for one in readings)
    assert all(one.unit == SPECS[one.name].unit for one in readings)
    return {one.name: (one.value, one.reason) for one in readings}


def test_the_table_has_every_scenario_and_every_reading_and_every_reason_is_known() -> None:
    assert list(TABLE) == list(SCENARIOS)
    assert {tuple(rows) for rows in TABLE.values()} == {tuple(SPECS)}
    reasons = {reason for rows in TABLE.values() for _, reason in rows.values()} - {""}
    assert reasons <= set(Reason)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_tree_reads_as_the_table_says(scenario: str, tmp_path: Path) -> None:
    assert read(plant(tmp_path, scenario)) == TABLE[scenario]


def _generator() -> ModuleType:
    file = shared.folder("data/amd") / "make_fake_sys.py"
    spec = importlib.util.spec_from_file_location("make_fake_sys", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_trees_read_as_the_table_says(tmp_path: Path) -> None:
    generator = _generator()
    assert set(generator.SCENARIOS) <= set(TABLE)
    for scenario in generator.SCENARIOS:
        assert read(generator.make(scenario, tmp_path / scenario)) == TABLE[scenario], scenario


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("v3_0_idle", (0.03, 0.0, 0.0, 0.0)),
        ("v3_0_decode", (61.0, 97.0, 0.0, 0.0)),
        ("v3_0_hot", (84.0, 100.0, 0.0, 0.0)),
        ("v3_0_ipu_busy", (0.03, 0.0, 1.993, 88.0)),
        ("v3_0_all_na", ("all ones", "65535", "65535", "65535")),
        ("v2_4_vangogh_like", ("65535", 42.0, "missing", "missing")),
        ("v2_1_raphael_rebuilt", (25.087, 0.0, "missing", "missing")),
        ("bad_truncated", ("wrong size",) * 4),
        ("bad_empty", ("wrong size",) * 4),
        ("bad_unknown_revision", ("unknown revision",) * 4),
    ],
)
def test_a_reference_table_reads_right(name: str, told: tuple[object, ...], tmp_path: Path) -> None:
    table = (shared.folder("data/amd") / "gpu_metrics" / f"{name}.bin").read_bytes()
    found = read(plant(tmp_path, table=table))
    order = ("gfx_power", "gfx_activity", "npu_power", "npu_activity")
    assert tuple(found[one][1] or found[one][0] for one in order) == told
