"""What waiting looks like from outside: comments in a stream, 429 past the bound."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.box import Box
from support.http import CHAT, NPU_ROW, ROW, Stream, call, chat, counting
from support.wait import at_best, until

COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def small_box() -> Iterator[Box]:
    """A box in which one request may wait."""
    with Box(limits__queue_per_lane=1, limits__queue_total=2) as box:
        yield box


@pytest.fixture
def full_box(small_box: Box) -> Iterator[Box]:
    """That box with its iGPU held and its queue full for the lane of these tests."""
    with small_box.bus() as bus, Stream(small_box.url, COMPLETIONS, counting(2000)) as running:
        running.first()
        with Stream(small_box.url, CHAT, chat(model=ROW)):
            until(lambda: bus.status()["devices"]["hrx0"]["waiting"] == 1, "a full queue")
            yield small_box
        running.close()
        until(lambda: not bus.status()["devices"]["hrx0"]["holders"], "a free device")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["auto", ROW])
def test_a_full_queue_is_429_with_a_time_to_come_back(
    full_box: Box, model: str, *, stream: bool
) -> None:
    reply = call(full_box.url, CHAT, chat(model=model, stream=stream))
    assert (reply.status, reply.error["type"]) == (429, "rate_limit_error")
    assert 1 <= int(reply.headers["retry-after"]) <= 60


def test_a_full_lane_does_not_shut_out_another(full_box: Box) -> None:
    other = {"x-fairlane-lane": "other"}
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(call, full_box.url, COMPLETIONS, counting(1, model=NPU_ROW), other)
        assert reply.result().status == 200


def test_a_refused_request_is_explained(full_box: Box) -> None:
    rid = call(full_box.url, CHAT, chat()).headers["x-request-id"]
    assert "full" in full_box.cli("explain", rid).stdout


def test_a_waiting_stream_says_where_it_stands(box: Box) -> None:
    with Stream(box.url, COMPLETIONS, counting(2000)) as running:
        running.first()

        def told_s() -> float:
            with Stream(box.url, CHAT, chat()) as waiting:
                began_at = time.monotonic()
                comment = next(line for line in waiting.lines() if line.startswith(": queue"))
                assert comment.split()[2] == "1"
                return time.monotonic() - began_at

        at_best(told_s, 4.0, "seconds until a stream that waits is told where it stands")
