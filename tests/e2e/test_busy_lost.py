"""An NPU lost under a document: the GPU answers instead, once, and the conversation stays there."""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from support.amd_tree import plant
from support.box import Box
from support.busy import (
    ROUTE,
    answering,
    ask,
    ask_on,
    counts,
    holders,
    holding,
    placement,
    record_of,
    settle,
    spelled,
    talk,
    waiting_document,
    write_table,
)
from support.http import CHAT, ROW, Reply, Stream, chat
from support.wait import until

LONG = "word " * 800  # a prompt that takes long enough to be killed in
RESCUED = (ROW, "hrx", "npu_quarantined")
Prepare = Callable[..., Box]


def lone_box(new_box: Prepare, folder: Path) -> Box:
    """Start a box that one test may quarantine the NPU of."""
    table = write_table(folder, queue_depth=1)
    box = new_box(table=table, sensors__root=plant(folder / "root"))
    settle(box)
    return box


def kill_in_its_prompt(box: Box) -> int:
    """Kill the NPU's worker while it reads a prompt, and return its pid."""
    held = until(lambda: holders(box, "npu0"), "a document on the NPU", within_s=30)
    with box.bus() as bus:

        def reads() -> bool:
            return "prefill" in [stage for _, stage, _ in bus.story(held[0]["request"]) or []]

        until(reads, "a prompt that is being read", within_s=30)
    return box.kill("npu")


def test_a_document_whose_npu_dies_is_answered_by_the_gpu_and_stays_there(
    new_box: Prepare, tmp_path: Path
) -> None:
    box, same = lone_box(new_box, tmp_path), talk()
    with ThreadPoolExecutor(1) as pool:
        with holding(box):
            answer = pool.submit(ask, box, same, LONG)
            old = kill_in_its_prompt(box)
        reply = answer.result()
    assert placement(reply) == RESCUED
    assert reply.json["model"] == ROW
    record = record_of(box, reply.headers["x-request-id"])
    assert (record["model"], record["device"], record["why"]) == RESCUED
    shown = counts(box)
    assert (shown["moved_gpu_busy"], shown["npu_lost"]) == (1, 1)
    box.wait_for_new("npu", old, within_s=30)
    settle(box)
    assert placement(ask_on(box, same)) == RESCUED
    with waiting_document(box) as other:
        pass
    assert placement(other()) == (ROW, "hrx", "")
    assert counts(box)["suppressed_npu_quarantined"] == 1


def test_a_stream_whose_npu_dies_in_its_prompt_has_not_said_that_it_was_final(
    new_box: Prepare, tmp_path: Path
) -> None:
    box = lone_box(new_box, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        with holding(box):
            stream = Stream(box.url, CHAT, chat(LONG), talk())
            read: Future[list[str]] = pool.submit(lambda: list(stream.data()))
            kill_in_its_prompt(box)
        events = read.result()
    with stream:
        header = stream.headers[ROUTE]
    said = json.loads(events[0])["x_lemonade_route"]["outputs"]
    assert (said["model"], said["device"], said["why"]) == RESCUED
    assert {json.loads(data)["model"] for data in events[:-1]} == {ROW}
    assert events[-1] == "[DONE]"
    assert header == spelled("hrx", "npu_quarantined") or "; pending" in header


def test_a_document_that_waits_for_an_npu_that_dies_goes_to_the_gpu_too(
    new_box: Prepare, tmp_path: Path
) -> None:
    box = lone_box(new_box, tmp_path)
    with ThreadPoolExecutor(2) as pool:
        with holding(box):
            first: Future[Reply] = pool.submit(ask, box, talk(), LONG)
            until(lambda: holders(box, "npu0"), "a document on the NPU", within_s=30)
            second: Future[Reply] = pool.submit(ask, box, talk())
            until(lambda: box.status()["devices"]["npu0"]["waiting"], "a document behind it")
            box.kill("npu")
        assert placement(first.result()) == RESCUED
        assert placement(second.result()) == RESCUED
    assert counts(box)["npu_lost"] == 2


def test_a_later_turn_finds_its_npu_lost(new_box: Prepare, tmp_path: Path) -> None:
    box, same = lone_box(new_box, tmp_path), talk()
    with answering(box):
        assert placement(ask(box, same))[1:] == ("npu", "gpu_busy")
    assert placement(ask_on(box, same))[1:] == ("npu", "gpu_busy")
    box.kill("npu")
    until(lambda: counts(box).get("workers_lost"), "the end of the NPU's worker")
    assert placement(ask_on(box, same)) == RESCUED
    assert placement(ask_on(box, same)) == RESCUED
