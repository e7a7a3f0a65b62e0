"""Busy: a document starts on the NPU while another lane has the GPU, and everybody is told the same of it."""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from support.amd_tree import plant
from support.box import Box
from support.busy import (
    ASKER,
    DOCUMENT,
    ROUTE,
    answering,
    ask,
    counts,
    holding,
    placement,
    record_of,
    settle,
    spelled,
    talk,
    write_table,
)
from support.http import CHAT, NPU_ROW, ROW, Stream, call, chat
from support.wait import until

Busy = Callable[[Box], AbstractContextManager[None]]
BUSY = pytest.mark.parametrize("busy", [answering, holding])
ON_THE_NPU = (NPU_ROW, "npu", "gpu_busy")
ON_THE_GPU = (ROW, "hrx", "")


@pytest.fixture(scope="module")
def busy_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box with real models whose documents start on the NPU behind one ticket of another lane."""
    folder = tmp_path_factory.mktemp("busy")
    table = write_table(folder, queue_depth=1)
    with Box(table=table, sensors__root=plant(folder / "root")) as box:
        settle(box)
        yield box


# --- one value, said everywhere -----------------------------------------------------------------------


@BUSY
def test_a_document_beside_another_lane_lands_on_the_npu_and_all_say_so(
    busy_box: Box, busy: Busy
) -> None:
    before = counts(busy_box)
    with busy(busy_box):
        reply = ask(busy_box)
    assert reply.headers[ROUTE] == "laya-long_doc; device=npu; why=gpu_busy"
    assert placement(reply) == ON_THE_NPU
    assert reply.json["model"] == NPU_ROW
    record = record_of(busy_box, reply.headers["x-request-id"])
    assert (record["model"], record["device"], record["why"]) == ON_THE_NPU
    assert record["instance"] == "npu0"
    after = counts(busy_box)
    assert after["moved_gpu_busy"] == before.get("moved_gpu_busy", 0) + 1


def test_the_same_document_with_an_empty_queue_lands_on_the_gpu_without_a_why(
    busy_box: Box,
) -> None:
    before = counts(busy_box)
    reply = ask(busy_box)
    assert reply.headers[ROUTE] == "laya-long_doc"
    assert placement(reply) == ON_THE_GPU
    assert "why" not in reply.outputs
    assert reply.json["model"] == ROW
    record = record_of(busy_box, reply.headers["x-request-id"])
    assert (record["model"], record["device"], record["why"]) == ON_THE_GPU
    assert counts(busy_box).get("moved_gpu_busy", 0) == before.get("moved_gpu_busy", 0)


@BUSY
def test_a_stream_says_it_in_its_first_event_and_names_the_row_in_each_chunk(
    busy_box: Box, busy: Busy
) -> None:
    with busy(busy_box), Stream(busy_box.url, CHAT, chat(DOCUMENT, max_tokens=4), talk()) as stream:
        events = [json.loads(data) for data in stream.data() if data != "[DONE]"]
        header = stream.headers[ROUTE]
    said = events[0]["x_lemonade_route"]["outputs"]
    assert (said["model"], said["device"], said["why"]) == ON_THE_NPU
    assert {event["model"] for event in events} == {NPU_ROW}
    # a machine that needs more than two seconds for the prompt has to send the header before
    pending = "laya-long_doc; pending; device=npu; why=gpu_busy"
    assert header in {spelled("npu", "gpu_busy"), pending}


def test_header_body_event_record_metric_and_bus_have_one_value(busy_box: Box) -> None:
    before = moves(busy_box)
    with holding(busy_box):
        reply = ask(busy_box)
        with Stream(busy_box.url, CHAT, chat(DOCUMENT, max_tokens=2), talk()) as stream:
            event = json.loads(next(iter(stream.data())))
        with busy_box.bus(lane=ASKER) as bus:
            answer = bus.chat([{"role": "user", "content": DOCUMENT}], max_tokens=2)
    record = record_of(busy_box, reply.headers["x-request-id"])
    said = {
        "header": reply.headers[ROUTE].partition("why=")[2],
        "body": reply.outputs["why"],
        "event": event["x_lemonade_route"]["outputs"]["why"],
        "record": record["why"],
        "bus": (answer.route or {})["outputs"]["why"],
    }
    assert said == dict.fromkeys(said, "gpu_busy")
    grown = {why: many - before.get(why, 0) for why, many in moves(busy_box).items()}
    assert grown == {"gpu_busy": 3}


def moves(box: Box) -> dict[str, float]:
    """Return how many placements on the NPU `/metrics` counts, by its word for why."""
    page = call(box.url, "/metrics").raw.decode()
    lines = re.findall(r"^fairlane_fallbacks_total\{(.*)\} (\S+)$", page, re.MULTILINE)
    found = ((dict(re.findall(r'(\w+)="(\w+)"', labels)), many) for labels, many in lines)
    return {one["why"]: float(many) for one, many in found if one["to"] == "npu" and float(many)}


def test_a_short_question_waits_for_the_gpu(busy_box: Box) -> None:
    with ThreadPoolExecutor(1) as pool:
        with answering(busy_box):
            answer = pool.submit(call, busy_box.url, CHAT, chat("What is 2 + 2?"), talk())
            until(lambda: busy_box.status()["devices"]["hrx0"]["waiting"], "a waiting question")
        reply = answer.result()
    assert (reply.outputs["device"], "why" in reply.outputs) == ("hrx", False)


def test_the_askers_own_lane_is_no_reason(busy_box: Box) -> None:
    own = {"x-fairlane-lane": ASKER}
    with ThreadPoolExecutor(1) as pool:
        with Stream(busy_box.url, CHAT, chat("Tell me.", model=ROW, max_tokens=2000), own) as mine:
            mine.first()
            answer = pool.submit(ask, busy_box)
            until(lambda: busy_box.status()["devices"]["hrx0"]["waiting"], "a waiting document")
        assert placement(answer.result()) == ON_THE_GPU


# --- waiting first ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def waiting_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box whose documents wait three seconds in the GPU's queue first; its models say nothing."""
    folder = tmp_path_factory.mktemp("waiting")
    table = write_table(folder, queue_depth=1, wait_s=3.0)
    root = plant(folder / "root")
    with Box(table=table, sensors__root=root, workers__engine="null") as box:
        settle(box)
        yield box


def test_a_stream_that_waited_in_vain_moves_and_its_first_event_is_the_authority(
    waiting_box: Box,
) -> None:
    with holding(waiting_box), Stream(waiting_box.url, CHAT, chat(DOCUMENT), talk()) as stream:
        header = stream.headers[ROUTE]
        lines = list(stream.lines())
    assert header == "laya-long_doc; pending"
    said, first = comments_and_first(lines)
    assert any(line.startswith(": queue 1") for line in said)
    outputs = first["x_lemonade_route"]["outputs"]
    assert (outputs["model"], outputs["device"], outputs["why"]) == ON_THE_NPU
    assert outputs["timings"]["queue_ms"] >= 2990
    assert lines[-1] == "data: [DONE]"


def test_a_stream_that_is_granted_before_stays_on_the_gpu(waiting_box: Box) -> None:
    with ThreadPoolExecutor(1) as pool:
        with holding(waiting_box):
            stream = Stream(waiting_box.url, CHAT, chat(DOCUMENT), talk())
            lines = pool.submit(lambda: list(stream.lines()))
            until(lambda: waiting_box.status()["devices"]["hrx0"]["waiting"], "a waiting document")
        with stream:
            _, first = comments_and_first(lines.result())
    outputs = first["x_lemonade_route"]["outputs"]
    assert (outputs["model"], outputs["device"], "why" in outputs) == (ROW, "hrx", False)


def test_a_whole_answer_that_waited_carries_the_final_header(waiting_box: Box) -> None:
    with holding(waiting_box):
        reply = ask(waiting_box)
    assert placement(reply) == ON_THE_NPU
    assert reply.outputs["timings"]["queue_ms"] >= 2990


def test_an_empty_queue_makes_nobody_wait(waiting_box: Box) -> None:
    reply = ask(waiting_box)
    assert placement(reply) == ON_THE_GPU
    assert reply.outputs["timings"]["queue_ms"] < 2990


def comments_and_first(lines: list[str]) -> tuple[list[str], Any]:
    """Return the comments before the first data event, and that event."""
    at = next(n for n, line in enumerate(lines) if line.startswith("data: "))
    return lines[:at], json.loads(lines[at].removeprefix("data: "))
