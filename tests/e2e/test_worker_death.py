"""kill -9 of a worker during a request: it comes back, and every request ends exactly once."""

import json
import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from support.box import Box
from support.http import CHAT, NPU_ROW, ROW, Reply, Stream, call, chat, counting
from support.wait import until

COMPLETIONS = "/v1/completions"
DEVICES = [("hrx", ROW), ("npu", NPU_ROW)]


def kill_while_held(box: Box, kind: str) -> int:
    """Kill a worker as soon as it holds a ticket."""
    with box.bus() as bus:
        until(lambda: bus.status()["devices"][f"{kind}0"]["holders"], "a running request")
    return box.kill(kind)


@pytest.mark.parametrize(("kind", "model"), DEVICES)
def test_a_request_that_had_not_begun_is_answered_once(
    rough_box: Box, kind: str, model: str
) -> None:
    body = counting(60, model=model)
    before = rough_box.count("answered")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, rough_box.url, COMPLETIONS, body)
        old = kill_while_held(rough_box, kind)
        assert answer.result().status == 200
    assert rough_box.wait_for_new(kind, old)
    assert rough_box.count("answered") == before + 1


@pytest.mark.parametrize(("kind", "model"), DEVICES)
def test_a_stream_that_had_begun_gets_one_clear_error(
    rough_box: Box, kind: str, model: str
) -> None:
    with Stream(rough_box.url, COMPLETIONS, counting(2000, model=model)) as stream:
        stream.first()
        rough_box.kill(kind)
        rest = list(stream.data())
    errors = [json.loads(data)["error"] for data in rest if "error" in data]
    assert ([error["code"] for error in errors], "[DONE]" in rest) == (["worker_lost"], False)
    assert call(rough_box.url, COMPLETIONS, counting(1, model=model)).status == 200


def test_a_queued_request_is_answered_by_the_next_worker(rough_box: Box) -> None:
    with Stream(rough_box.url, COMPLETIONS, counting(2000)) as running:
        running.first()
        with ThreadPoolExecutor(1) as pool, rough_box.bus() as bus:
            queued = pool.submit(call, rough_box.url, CHAT, chat())
            until(lambda: bus.status()["devices"]["hrx0"]["waiting"], "a queued request")
            rough_box.kill("hrx")
            assert queued.result().status == 200


def test_a_worker_that_always_dies_ends_its_request_with_an_error(rough_box: Box) -> None:
    long = chat("word " * 2000, model=NPU_ROW)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, rough_box.url, CHAT, long)
        first = kill_while_held(rough_box, "npu")
        rough_box.wait_for_new("npu", first)
        kill_while_held(rough_box, "npu")
        reply = answer.result()
    assert (reply.status, reply.error["code"]) == (502, "worker_lost")


def test_a_stopped_worker_is_given_up_ended_and_replaced(rough_box: Box) -> None:
    """SIGSTOP: the process is there and silent, so only its missed heartbeats tell."""
    with Stream(rough_box.url, COMPLETIONS, counting(2000)) as stream:
        stream.first()
        stopped = rough_box.kill("hrx", signal.SIGSTOP)
        rest = list(stream.data())
    assert "error" in json.loads(rest[-1])
    assert rough_box.wait_for_new("hrx", stopped)


def test_a_worker_that_wakes_up_late_cannot_speak_of_its_old_work(rough_box: Box) -> None:
    before = rough_box.count("answered")
    with Stream(rough_box.url, COMPLETIONS, counting(2000, model=NPU_ROW)) as stream:
        stream.first()
        pid = rough_box.kill("npu", signal.SIGSTOP)
        assert "[DONE]" not in list(stream.data())
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    assert call(rough_box.url, COMPLETIONS, counting(1, model=NPU_ROW)).status == 200
    assert rough_box.status()["devices"]["npu0"]["worker"]["pid"] != pid
    assert rough_box.count("answered") == before + 1


def test_a_broker_and_a_worker_killed_together_lose_no_request(rough_box: Box) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, rough_box.url, COMPLETIONS, counting(30))
        kill_while_held(rough_box, "hrx")
        rough_box.kill("broker")
        assert answer.result().status == 200


def test_many_requests_and_a_killed_worker_all_end(rough_box: Box) -> None:
    def ask(number: int) -> Reply:
        return call(rough_box.url, CHAT, chat(f"Hi {number}", model=ROW))

    with ThreadPoolExecutor(12) as pool:
        replies = pool.map(ask, range(12))
        kill_while_held(rough_box, "hrx")
        statuses = Counter(reply.status for reply in replies)
    assert statuses == {200: 12}
