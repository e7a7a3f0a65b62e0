"""kill -9 of the broker: it comes back, and every open request ends exactly once."""

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.box import Box
from support.http import CHAT, ROW, Reply, Stream, call, chat, counting
from support.wait import at_best, seconds_until, until

COMPLETIONS = "/v1/completions"


def kill(box: Box) -> int:
    with box.bus() as bus:
        until(lambda: bus.status()["devices"]["hrx0"]["holders"], "a running request")
    return box.kill("broker")


def test_a_request_that_had_not_begun_is_answered_once(rough_box: Box) -> None:
    call(rough_box.url, CHAT, chat(model=ROW))
    before = rough_box.count("answered")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, rough_box.url, COMPLETIONS, counting(60))
        kill(rough_box)
        assert answer.result().status == 200
    assert rough_box.count("answered") == before + 1  # the new broker counts on


def test_a_stream_that_had_begun_gets_one_clear_error(rough_box: Box) -> None:
    with Stream(rough_box.url, COMPLETIONS, counting(2000)) as stream:
        stream.first()
        rough_box.kill("broker")
        rest = list(stream.data())
    errors = [json.loads(data)["error"] for data in rest if "error" in data]
    assert ([error["code"] for error in errors], "[DONE]" in rest) == (["broker_restarted"], False)


def test_queued_requests_are_all_answered(rough_box: Box) -> None:
    def ask(number: int) -> Reply:
        return call(rough_box.url, CHAT, chat(f"Hi {number}", model=ROW))

    with ThreadPoolExecutor(6) as pool:
        replies = pool.map(ask, range(6))
        kill(rough_box)
        assert [reply.status for reply in replies] == [200] * 6


def test_the_work_of_the_old_broker_does_not_go_on(rough_box: Box) -> None:
    def next_s() -> float:
        with Stream(rough_box.url, COMPLETIONS, counting(2000)) as stream:
            stream.first()
            rough_box.kill("broker")
            list(stream.data())
        began_at = time.monotonic()
        assert call(rough_box.url, COMPLETIONS, counting(1)).status == 200
        return time.monotonic() - began_at

    at_best(next_s, 5.0, "seconds of the next request")


def test_the_box_is_ready_again_with_all_its_workers(rough_box: Box) -> None:
    def ready_s() -> float:
        old = rough_box.kill("broker")
        rough_box.wait_for_new("broker", old)
        return seconds_until(lambda: rough_box.status()["ready"], "a ready box")

    at_best(ready_s, 3.0, "seconds from the new broker's start until the box is ready")


@pytest.mark.slow
def test_a_stopped_broker_is_told_of_within_some_seconds(rough_box: Box) -> None:
    rough_box.kill("broker", signal.SIGSTOP)
    try:
        reply = call(rough_box.url, CHAT, chat())
    finally:
        rough_box.kill("broker", signal.SIGCONT)
    assert (reply.status, reply.error["code"]) == (503, "broker_unreachable")
    assert call(rough_box.url, CHAT, chat()).status == 200
