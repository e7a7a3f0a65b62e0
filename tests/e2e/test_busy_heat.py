"""Hot, warming up, or blind: what the tree says decides where a document starts, and never whether."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from support.amd_tree import K10, plant, put
from support.box import Box
from support.busy import (
    ask,
    counts,
    placement,
    reading,
    settle,
    waiting_document,
    write_table,
)
from support.http import CHAT, NPU_ROW, ROW, Stream, call, chat
from support.wait import until

PLATEAU_S = 10.0
ON_THE_GPU = (ROW, "hrx", "")
Prepare = Callable[..., Box]


def heat(root: Path, tctl_c: float) -> None:
    """Let the tree say a temperature."""
    put(root, f"{K10}/temp1_input", round(tctl_c * 1000))


def felt(box: Box, tctl_c: float) -> None:
    """Wait until the box has read a temperature twice, which is what hot takes, and once more."""
    read_at: list[float] = []

    def often_enough() -> bool:
        status = box.status()
        tctl = next((r for r in status["senses"]["readings"] if r["name"] == "tctl"), None)
        if tctl is not None and tctl["value"] == tctl_c:
            at = status["up_s"] - tctl["age_s"]
            if not read_at or at > read_at[-1] + 0.2:
                read_at.append(at)
        return len(read_at) >= 3

    until(often_enough, f"{tctl_c} C three times")


# --- heat ---------------------------------------------------------------------------------------------


def test_a_trace_of_heat_is_entered_once_and_left_once(new_box: Prepare, tmp_path: Path) -> None:
    """70, 96, 88, 94, 80 C, each for ten readings of one a second, as the rule's own lines see them."""
    table = write_table(tmp_path, queue_depth=None, tctl_c=95.0, tctl_clear_c=85.0)
    root = plant(tmp_path / "root", tctl=70_000)
    box = new_box(table=table, sensors__root=root, workers__engine="null")
    settle(box)
    said: list[tuple[int, str]] = []
    for tctl_c in (70, 96, 88, 94, 80):
        heat(root, tctl_c)
        over_at = time.monotonic() + PLATEAU_S

        def asked(tctl_c: int = tctl_c, over_at: float = over_at) -> bool:
            model, device, why = placement(ask(box))
            assert (model, device) == ((NPU_ROW, "npu") if why else (ROW, "hrx"))
            said.append((tctl_c, why))
            return time.monotonic() >= over_at

        until(asked, "the end of a plateau", within_s=PLATEAU_S + 30)
    assert [why for why, _ in groupby(why for _, why in said)] == ["", "gpu_hot", ""]
    by_plateau = {tctl_c: {why for at, why in said if at == tctl_c} for tctl_c, _ in said}
    # the first ends hot and the last begins hot: a reading, or the shortest stay, is still to come
    assert by_plateau == {
        70: {""}, 96: {"", "gpu_hot"}, 88: {"gpu_hot"}, 94: {"gpu_hot"}, 80: {"gpu_hot", ""},
    }  # fmt: skip
    assert counts(box)["moved_gpu_hot"] == sum(why == "gpu_hot" for _, why in said)


def test_above_the_stop_line_who_waits_is_told_so_until_it_has_cooled(
    new_box: Prepare, tmp_path: Path
) -> None:
    root = plant(tmp_path / "root", tctl=101_000)
    stop = {"limits__stop_tctl_c": 100.0, "limits__resume_tctl_c": 90.0}
    box = new_box(sensors__root=root, workers__engine="null", **stop)
    until(lambda: device(box)["state"] == "hot", "the hold", within_s=30)
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(call, box.url, CHAT, chat(model=ROW))
        with Stream(box.url, CHAT, chat(model=ROW)) as stream:
            lines = stream.lines()
            until(lambda: next(lines) == ": hot", "a word to who waits", within_s=30)
            heat(root, 95.0)
            felt(box, 95.0)
            waiting = json.loads(box.cli("queue", "--json").stdout)["devices"]["hrx0"]["waiting"]
            heat(root, 89.0)
            rest = list(lines)
        assert whole.result().status == 200
    assert [one["eta_s"] for one in waiting] == [None, None]
    assert rest[-1] == "data: [DONE]"
    assert device(box)["state"] == "idle"


def device(box: Box) -> dict[str, Any]:
    """Return what the live view says of the iGPU."""
    with box.bus() as bus:
        found: dict[str, Any] = bus.live()["devices"]["hrx0"]
    return found


# --- the first minute ---------------------------------------------------------------------------------


def test_in_the_first_minute_neither_load_nor_heat_moves_anything(
    new_box: Prepare, tmp_path: Path
) -> None:
    table = write_table(tmp_path, queue_depth=1, wait_s=0, tctl_c=95.0)
    root = plant(tmp_path / "root", uptime=20.0, tctl=97_000)
    box = new_box(table=table, sensors__root=root, workers__engine="null")
    settle(box)
    felt(box, 97.0)
    assert placement(ask(box)) == ON_THE_GPU
    assert counts(box)["suppressed_warmup"] == 1
    with waiting_document(box) as answer:
        pass
    assert placement(answer()) == ON_THE_GPU
    shown = counts(box)
    assert shown["suppressed_warmup"] == 2
    assert not [name for name in shown if name.startswith("moved_")]
    put(root, "proc/uptime", "60.00 1800.00")
    until(lambda: reading(box, "uptime").get("value") == 60.0, "a minute", within_s=30)
    assert placement(ask(box)) == (NPU_ROW, "npu", "gpu_hot")


# --- no sensors ---------------------------------------------------------------------------------------


def answers_on_the_gpu(box: Box) -> None:
    """Ask while the GPU is free, and while another lane has it: nothing is lost, and nothing moves."""
    for body in (chat(), chat(model=ROW), chat(model=NPU_ROW)):
        assert call(box.url, CHAT, body).status == 200
    assert placement(ask(box)) == ON_THE_GPU
    with waiting_document(box) as answer:
        pass
    assert placement(answer()) == ON_THE_GPU


def test_a_tree_without_any_sensor_moves_nothing_and_answers_all(
    new_box: Prepare, tmp_path: Path
) -> None:
    (tmp_path / "root").mkdir()
    table = write_table(tmp_path, queue_depth=1, tctl_c=95.0)
    box = new_box(table=table, sensors__root=tmp_path / "root", workers__engine="null")
    settle(box, uptime=False)
    until(lambda: reading(box, "tctl"), "a word of the sensors", within_s=30)
    answers_on_the_gpu(box)
    readings = box.status()["senses"]["readings"]
    assert len(readings) >= 14
    assert {(one["value"], one["valid"]) for one in readings} == {(None, False)}
    assert reading(box, "tctl")["reason"] == "missing"
    assert counts(box)["suppressed_sensor_unknown"] == 2


def test_sensors_that_are_switched_off_move_nothing_and_answer_all(
    new_box: Prepare, tmp_path: Path
) -> None:
    table = write_table(tmp_path, queue_depth=1, tctl_c=95.0)
    root = plant(tmp_path / "root", tctl=97_000)
    box = new_box(table=table, sensors__root=root, sensors__enabled="false", workers__engine="null")
    settle(box, uptime=False)
    answers_on_the_gpu(box)
    status = box.status()
    assert "sensors" not in box.pids()
    assert (status["sensors"], status["senses"]["readings"]) == ([], [])
    assert status["counts"]["suppressed_sensor_unknown"] == 2


def test_sensors_that_die_again_and_again_leave_what_they_said_stale(
    new_box: Prepare, tmp_path: Path
) -> None:
    table = write_table(tmp_path, queue_depth=1, tctl_c=95.0)
    root = plant(tmp_path / "root", tctl=97_000)
    box = new_box(table=table, sensors__root=root, workers__engine="null")
    settle(box)
    felt(box, 97.0)
    assert placement(ask(box)) == (NPU_ROW, "npu", "gpu_hot")

    def is_stale() -> bool:
        pid = box.pids().get("sensors")
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert call(box.url, CHAT, chat()).status == 200
        return bool(reading(box, "tctl")["reason"] == "stale")

    until(is_stale, "five seconds without a word", within_s=90)
    assert box.status()["sensors"] == []
    assert not [one for one in box.status()["senses"]["readings"] if one["valid"]]
    assert placement(ask(box)) == ON_THE_GPU
    assert counts(box)["suppressed_sensor_unknown"] >= 1
    until(lambda: reading(box, "tctl").get("valid"), "sensors that live again", within_s=60)
    felt(box, 97.0)
    assert placement(ask(box)) == (NPU_ROW, "npu", "gpu_hot")
