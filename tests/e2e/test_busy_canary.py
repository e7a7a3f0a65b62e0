"""With `npu.canary = on_demand` nothing moves before tokens came from the NPU beside a busy GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.amd_tree import plant
from support.box import Box
from support.busy import (
    ask,
    counts,
    holding,
    placement,
    reading,
    settle,
    waiting_document,
    write_table,
)
from support.http import NPU_ROW, ROW
from support.wait import until

Prepare = Callable[..., Box]
ON_THE_GPU = (ROW, "hrx", "")
ON_THE_NPU = (NPU_ROW, "npu", "gpu_busy")
VERSIONS = ("6.19.4-strix", "1.0.0.63", "2.20.0")


def canary_box(new_box: Prepare, folder: Path, **settings: object) -> Box:
    """Start a box that asks for the canary, with a tree that names the NPU's versions."""
    table = write_table(folder, queue_depth=1)
    root = plant(folder / "root", versions=VERSIONS)
    box = new_box(table=table, sensors__root=root, npu__canary="on_demand", **settings)
    until(lambda: reading(box, "uptime").get("valid"), "a word of the sensors", within_s=30)
    return box


def npu(box: Box) -> dict[str, Any]:
    """Return what status says of the NPU."""
    shown: dict[str, Any] = box.status()["npu"]
    return shown


def line(box: Box) -> str:
    """Return what `fairlane status` says of the NPU to people."""
    said = box.cli("status").stdout.splitlines()
    return " ".join(said[next(n for n, one in enumerate(said) if one.startswith("npu: ")) :])


def record(box: Box) -> dict[str, Any]:
    """Return the canary's log record."""
    told: dict[str, Any] = until(
        lambda: next((r for r in box.log() if r.get("action") == "npu_canary"), None),
        "the canary's record",
    )
    return told


def test_the_first_document_stays_the_canary_runs_and_the_next_moves(
    new_box: Prepare, tmp_path: Path
) -> None:
    box = canary_box(new_box, tmp_path)
    settle(box)
    assert npu(box)["canary_passed"] is None
    with waiting_document(box) as first:
        until(lambda: npu(box)["canary_passed"], "the canary's tokens", within_s=60)
        assert placement(ask(box)) == ON_THE_NPU
    assert placement(first()) == ON_THE_GPU
    shown = counts(box)
    assert (shown["suppressed_npu_canary"], shown["canaries_passed"]) == (1, 1)
    assert shown["moved_gpu_busy"] == 1
    told = record(box)
    assert (told["model"], told["passed"]) == (NPU_ROW, True)
    assert (told["kernel"], told["firmware"], told["driver"]) == VERSIONS
    assert told["engine"].startswith("llama.cpp cpu llama-cpp-python ")
    assert line(box).startswith("npu: canary passed under kernel 6.19.4-strix, firmware 1.0.0.63")
    assert "(canary)" not in box.cli("queue", "--json").stdout  # no lane, and nothing charged


def test_its_answer_outlives_the_broker_and_a_new_kernel_is_asked_again(
    new_box: Prepare, tmp_path: Path
) -> None:
    box = canary_box(new_box, tmp_path, workers__engine="null")
    with waiting_document(box):
        until(lambda: npu(box)["canary_passed"], "the canary's tokens", within_s=60)
    box.wait_for_new("broker", box.kill("broker"), within_s=30)
    until(lambda: reading(box, "uptime").get("valid"), "a word of the sensors", within_s=30)
    with holding(box):
        assert placement(ask(box)) == ON_THE_NPU
    plant(tmp_path / "root", versions=("6.20.0", *VERSIONS[1:]))
    until(lambda: npu(box)["versions"]["kernel"] == "6.20.0", "the new kernel", within_s=30)
    assert npu(box)["canary_passed"] is None
    with waiting_document(box) as stays:
        until(lambda: npu(box)["canary_passed"], "its canary's tokens", within_s=60)
    assert placement(stays()) == ON_THE_GPU
    assert len(npu(box)["answers"]) == 2


def test_an_engine_that_fails_is_quarantined_and_documents_stay(
    new_box: Prepare, tmp_path: Path
) -> None:
    box = canary_box(new_box, tmp_path, workers__engine="null", workers__null_fails="npu")
    with waiting_document(box) as first:
        until(lambda: npu(box)["quarantined"], "the quarantine", within_s=30)
    assert placement(first()) == ON_THE_GPU
    assert npu(box)["canary_passed"] is False
    with waiting_document(box) as second:
        pass
    assert placement(second()) == ON_THE_GPU
    shown = counts(box)
    assert (shown["canaries_failed"], shown["suppressed_npu_quarantined"]) == (1, 1)
    assert shown["suppressed_npu_canary"] == 1
    assert "moved_gpu_busy" not in shown
    told = record(box)
    assert (told["passed"], told["cause"]) == (False, "engine_failed")
    assert line(box).startswith("npu: canary failed under kernel")
    assert "quarantined for" in line(box)
