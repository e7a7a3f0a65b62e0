"""`fairlane sim`, as it is called."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ops
from ops.commands.sim import sim
from ops.sim.scenarios import SCENARIOS
from support.wait import until

SHORT = {"fleet": ["--boxes", "3"], "load": ["--tickets", "2000"]}
KEYS = {"jain", "gap_over_bound", "light_lane_max_wait_s", "goodput", "loads", "fallbacks"}


def told(*arguments: str) -> Any:
    """Return the JSON of a run."""
    ran = CliRunner().invoke(sim, ["--jobs", "1", *arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def without_walls(value: Any) -> Any:
    """Return what a run says, less how long it took."""
    if isinstance(value, dict):
        return {k: without_walls(v) for k, v in value.items() if k not in {"wall_s", "cpu_s"}}
    return value


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_tells_the_same_figures_of_all_three_schedulers(name: str) -> None:
    result = told(name, "--hours", "0.1", *SHORT.get(name, []))
    assert list(result["schedulers"]) == ["fair", "fifo", "round_robin"]
    for figures in result["schedulers"].values():
        assert set(figures) >= KEYS
        assert figures["tickets"] > 0


def test_the_same_seed_tells_the_same_and_another_does_not() -> None:
    one, again, other = (told("bursts", "--hours", "0.3", "--seed", s) for s in "445")
    assert without_walls(one) == without_walls(again)
    assert without_walls(one["schedulers"]) != without_walls(other["schedulers"])


def test_how_many_processes_share_the_work_changes_no_figure() -> None:
    arguments = ("fleet", "--boxes", "3", "--hours", "0.05")
    assert without_walls(told(*arguments)) == without_walls(told(*arguments, "--jobs", "2"))


def test_the_tables_say_that_they_are_simulated() -> None:
    ran = CliRunner().invoke(sim, ["throttle", "--hours", "0.1", "--jobs", "1"])
    assert ran.exit_code == 0
    assert "simulated: throttle" in ran.stdout
    assert "nothing of this was measured on a device" in ran.stdout
    for text in ("fair", "fifo", "round robin", "Jain index", "lasts-64s"):
        assert text in ran.stdout


def test_a_load_of_so_many_tickets_ends_with_the_last_of_them() -> None:
    result = told("load", "--tickets", "3000", "--lanes", "4", "--boxes", "3")
    for name, figures in result["schedulers"].items():
        assert figures["tickets"] == (3000 if name == "fair" else 300)
        assert list(figures["parts"]) == ["box-0", "box-1", "box-2"]
        assert list(figures["parts"]["box-1"]["lanes"]) == [f"lane-{n:02}" for n in range(4)]


def test_a_fleet_tells_of_its_boxes_together() -> None:
    fair = told("fleet", "--boxes", "4", "--hours", "0.1")["schedulers"]["fair"]
    assert fair["boxes"] == 4
    assert fair["one_seat_boxes_over_bound"] == 0  # there the bound needs no true estimate
    assert fair["virtual_s"] == pytest.approx(4 * 360)
    assert "parts" not in fair


def test_the_picture_has_a_panel_a_scheduler_and_a_line_a_lane(tmp_path: Path) -> None:
    file = tmp_path / "service.svg"
    told("throttle", "--hours", "0.5", "--svg", str(file))
    root = ET.fromstring(file.read_text(encoding="utf-8"))  # noqa: S314  # written a line above
    tag = "{http://www.w3.org/2000/svg}"
    lines = [one for one in root.iter(f"{tag}path") if one.get("stroke")]
    assert len(lines) == 3 * 4
    words = [one.text for one in root.iter(f"{tag}text")]
    for text in ("simulated: throttle, throttle", "fair", "fifo", "round robin", "lasts-64s-3"):
        assert text in words


def test_an_unknown_scenario_is_refused_with_the_names_there_are() -> None:
    ran = CliRunner().invoke(sim, ["nothing"])
    assert ran.exit_code == 2
    assert "fairness" in ran.output


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_prints_what_there_is(jobs: str) -> None:
    tree = str(Path(ops.__file__).parents[1])
    watcher, terminal = pty.openpty()
    command = [sys.executable, "-m", "ops.cli", "sim", "load", "--json", "--jobs", jobs]
    run = subprocess.Popen(
        command,
        cwd=tree,
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
        start_new_session=True,
    )
    try:
        seen = bytearray()
        os.set_blocking(watcher, False)
        begun = "the progress bar"
        until(lambda: b"box-0, fair" in _read(watcher, seen), begun, within_s=120)
        until(lambda: "0%" not in _percents(watcher, seen)[-1:], "a part of it", within_s=120)
        os.killpg(run.pid, signal.SIGINT)  # to all, as a terminal does
        out, _ = run.communicate(timeout=120)
    finally:
        run.kill()
        run.communicate()
        os.close(watcher)
        os.close(terminal)
    result = json.loads(out)
    assert run.returncode == 130
    assert result["interrupted"] is True
    assert len(result["schedulers"]["fair"]["parts"]) == int(jobs)
    assert 0 < result["schedulers"]["fair"]["tickets"] < 1_000_000
    assert result["schedulers"]["fifo"]["tickets"] == 0


def _percents(descriptor: int, seen: bytearray) -> list[str]:
    return re.findall(r"(\d+%)", _read(descriptor, seen).decode(errors="replace")) or ["0%"]


def _read(descriptor: int, seen: bytearray) -> bytes:
    with contextlib.suppress(BlockingIOError):
        seen += os.read(descriptor, 4096)
    return bytes(seen)
