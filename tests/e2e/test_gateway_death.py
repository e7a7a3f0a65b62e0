"""kill -9 of the gateway: it comes back on its port, and nobody computes for clients that are gone."""

import http.client
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from support.box import Box
from support.http import CHAT, NPU_ROW, Stream, call, chat, counting
from support.wait import at_best, seconds_until, until

COMPLETIONS = "/v1/completions"


def answers(box: Box) -> bool:
    try:
        return call(box.url, "/v1/live").status == 200
    except (OSError, http.client.HTTPException):  # it is gone, or went while it was asked
        return False


def test_a_gateway_comes_back_on_its_port(rough_box: Box) -> None:
    old = rough_box.kill("gateway")
    rough_box.wait_for_new("gateway", old)
    until(lambda: answers(rough_box), "a gateway")
    assert call(rough_box.url, CHAT, chat()).status == 200


def test_a_bound_conversation_is_still_bound(rough_box: Box) -> None:
    until(lambda: answers(rough_box), "a gateway")
    same = {"x-fairlane-conversation": "gateway"}
    call(rough_box.url, CHAT, chat(), same)
    old = rough_box.kill("gateway")
    rough_box.wait_for_new("gateway", old)
    until(lambda: answers(rough_box), "a gateway")
    assert "decide_ms" not in call(rough_box.url, CHAT, chat(), same).outputs["timings"]


@pytest.mark.parametrize("stream", [True, False])
def test_the_device_is_soon_free_of_work_nobody_waits_for(rough_box: Box, *, stream: bool) -> None:
    def freed_s() -> float:
        until(lambda: answers(rough_box), "a gateway")
        call(rough_box.url, COMPLETIONS, counting(1))
        with ThreadPoolExecutor(1) as pool, rough_box.bus() as bus:
            waiting = pool.submit(call, rough_box.url, COMPLETIONS, counting(2000, stream=stream))
            until(lambda: bus.status()["devices"]["hrx0"]["holders"], "a running request")
            rough_box.kill("gateway")
            assert isinstance(waiting.exception(), OSError | http.client.HTTPException)
            return seconds_until(
                lambda: not bus.status()["devices"]["hrx0"]["holders"], "a free device"
            )

    at_best(freed_s, 3.0, "seconds until a device is free of work that nobody waits for")


def test_a_client_of_a_killed_gateway_does_not_hang(rough_box: Box) -> None:
    def hung_s() -> float:
        until(lambda: answers(rough_box), "a gateway")
        with Stream(rough_box.url, COMPLETIONS, counting(2000, model=NPU_ROW)) as stream:
            stream.first()
            rough_box.kill("gateway")
            began_at = time.monotonic()
            with suppress(OSError, http.client.HTTPException):
                assert "[DONE]" not in list(stream.data())
            return time.monotonic() - began_at

    at_best(hung_s, 1.0, "seconds until a client of a killed gateway knows it")
