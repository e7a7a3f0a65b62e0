"""Rules and alerts: what promtool says of them, their unit tests, and the runbook."""

import re
import shutil
from pathlib import Path

import pytest

from scheduler.gateway.metrics.table import TABLE, Metric
from support.box import TREE
from support.prometheus import FOLDER, metrics_of, promtool

RULES = sorted((FOLDER / "rules").glob("*.yml"))
ALERTS = (FOLDER / "rules" / "alerts.yml").read_text(encoding="utf-8")
RECORDED = re.findall(r"- record: (\S+)", (FOLDER / "rules" / "recording.yml").read_text())
NAMES = re.findall(r"- alert: (\w+)", ALERTS)
RUNBOOK = (TREE / "ops" / "RUNBOOK.md").read_text(encoding="utf-8")
ALL = RULES + sorted((TREE / "ops" / "grafana" / "dashboards").glob("*.json"))


def known_names() -> set[str]:
    """Return every series name that a box or a recording rule makes."""
    return {"up", "ALERTS", *RECORDED, *(name for metric in TABLE for name in series_of(metric))}


def series_of(metric: Metric) -> list[str]:
    """Return the names of a metric's series."""
    ends = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
    return [metric.name + end for end in ends]


def test_promtool_accepts_the_rules() -> None:
    checked = promtool("check", "rules", *RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(NAMES)} rules found" in checked.stdout
    assert f"{len(RECORDED)} rules found" in checked.stdout


def test_promtool_accepts_the_configuration() -> None:
    checked = promtool("check", "config", "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "2 rule files found" in checked.stdout


def test_each_alert_fires_and_does_not() -> None:
    tested = promtool("test", "rules", "alerts.yml", cwd=FOLDER / "tests")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_before_that_does_not() -> None:
    groups = (FOLDER / "tests" / "alerts.yml").read_text(encoding="utf-8").split("  - name: ")[1:]
    seen: set[str] = set()
    for group in groups:
        fired = set(re.findall(r'alertname="(\w+)"', group))
        assert len(fired) <= 1
        assert "exp_samples: []" in group, group.splitlines()[0]
        seen |= fired
    assert seen == set(NAMES)


@pytest.mark.parametrize("expression", ["vector(1) > 2", "vector(1)"])
def test_an_alert_that_never_or_always_fires_is_noticed(expression: str, tmp_path: Path) -> None:
    broken = ALERTS.replace("expr: fairlane_scorer_up == 0", f"expr: {expression}")
    assert broken != ALERTS
    shutil.copytree(FOLDER, tmp_path / "prometheus")
    (tmp_path / "prometheus" / "rules" / "alerts.yml").write_text(broken, encoding="utf-8")
    tested = promtool("test", "rules", "alerts.yml", cwd=tmp_path / "prometheus" / "tests")
    assert tested.returncode != 0


def test_every_alert_says_how_bad_it_is_and_what_it_is() -> None:
    for text in ALERTS.split("- alert: ")[1:]:
        assert re.search(r"labels: \{ severity: (page|warn) \}", text), text
        assert re.search(r"summary: .+", text), text
        assert re.search(r"description: .+", text), text


def test_the_runbook_has_each_alert_and_no_other() -> None:
    sections = re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)
    assert sections == NAMES
    for section in RUNBOOK.split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        severity = re.search(rf"- alert: {name}\n.*?severity: (\w+)", ALERTS, re.DOTALL)
        assert severity is not None
        assert text.strip().startswith(f"{severity[1]}. "), name
        assert "\n- " in text, f"{name} says nothing of what to do"


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.name)
def test_what_is_asked_for_exists(file: Path) -> None:
    asked = {one.partition("{")[0] for one in metrics_of(file.read_text(encoding="utf-8"))}
    assert asked
    assert asked - known_names() == set()


@pytest.mark.parametrize("file", ALL, ids=lambda file: file.name)
def test_no_counter_is_asked_for_but_for_its_growth(file: Path) -> None:
    """They begin anew with each broker: whoever takes two of their values apart would see them fall."""
    text = file.read_text(encoding="utf-8")
    counters = {name for metric in TABLE for name in series_of(metric) if metric.kind != "gauge"}
    raw = {
        found[2]
        for found in re.finditer(r"(\w+\()?\b(fairlane_\w+)", text)
        if found[2] in counters and found[1] not in {"rate(", "increase(", "label_values("}
    }
    assert raw == set()


def test_every_recorded_series_is_used() -> None:
    rest = ALERTS + "".join(file.read_text(encoding="utf-8") for file in ALL[2:])
    assert [name for name in RECORDED if name not in rest] == []
