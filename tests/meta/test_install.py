"""The packages under test are the ones of this tree or of the installed distribution, and no namesake."""

from importlib import metadata
from pathlib import Path

import pytest

import ops
import policies
import scheduler
import workers

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("package", [ops, policies, scheduler, workers], ids=lambda p: p.__name__)
def test_a_package_comes_from_where_the_distribution_says(package: object) -> None:
    file = Path(str(getattr(package, "__file__", ""))).resolve()
    record = [Path(str(f.locate())).resolve() for f in metadata.files("fairlane") or []]
    assert file.is_relative_to(ROOT) or file in record


@pytest.mark.parametrize("package", ["ops", "policies", "scheduler", "workers"])
def test_a_module_stays_small_enough_to_read(package: str) -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in sorted((ROOT / package).rglob("*.py"))
        if (lines := len(file.read_text().splitlines())) > 500
    }
    assert not long
