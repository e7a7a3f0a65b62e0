"""`fairlane bench bus`: it runs the real processes and says its ratios where a gate looks for them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zmq

import ops
from ops.bench import round_trips as module
from ops.bench.bus import BODY, ask
from scheduler.bus.sockets import Line


def test_the_bus_bench_prints_its_ratios_at_the_top_level() -> None:
    tree = str(Path(ops.__file__).parents[1])
    command = [sys.executable, "-m", "ops.cli", "bench", "bus", "--json", "--pairs", "1"]
    ran = subprocess.run(
        [*command, "--requests", "2000"], cwd=tree, capture_output=True, check=True, timeout=60
    )
    result = json.loads(ran.stdout)
    assert result["pairs"] == 1
    for name in ("rate_ratio", "p50_ratio", "cpu_ratio"):
        assert (
            0.05 < result[name] < 20
        )  # a figure, not a gate: one short pair says nothing of speed
    assert result["broker"]["rate"] > 500
    assert result["relay"]["p50_us"] > 0


def test_a_box_that_says_nothing_ends_a_measurement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.1)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
        endpoint = f"ipc://{tmp_path}/silent"
        silent.bind(endpoint)
        line = Line(context, endpoint)
        try:
            with pytest.raises(module.BenchError, match="did not answer"):
                module.round_trips(line, [(ask(1), BODY)])
        finally:
            line.close()


@pytest.mark.slow
def test_the_scrape_bench_scrapes_a_hundred_lanes_and_says_its_ratios() -> None:
    tree = str(Path(ops.__file__).parents[1])
    command = [sys.executable, "-m", "ops.cli", "bench", "scrape", "--json", "--turns", "1"]
    ran = subprocess.run(command, cwd=tree, capture_output=True, check=True, timeout=120)
    assert ran.stderr.decode().startswith("turn 1 of 1: p99 ")
    result = json.loads(ran.stdout)
    assert 2_000 < result["series"] <= 5_000
    assert result["requests"] > 100
    for name in ("p50_ratio", "p99_ratio"):
        assert 0.05 < result[name] < 20  # a figure, not a gate: one turn says nothing of speed
    assert 0.0 < result["scrape_cpu_ms"] < 100.0
