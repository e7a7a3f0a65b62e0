"""A client that is gone: its ticket leaves the queue, its generation or prefill stops, stream or not."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from scheduler.bus import Client
from support.box import Box
from support.http import CHAT, NPU_ROW, ROW, Stream, call, chat, counting
from support.wait import at_best, seconds_until, until

COMPLETIONS = "/v1/completions"
RUNNING_S = 0.25  # a running generation stops within this
QUEUED_S = 0.1  # a queued ticket leaves within this: 10 ms of the box, the rest is how we look
PREFILL = "word " * 2000  # half a minute of prefill


def device(bus: Client, name: str = "hrx0") -> dict[str, Any]:
    view: dict[str, Any] = bus.status()["devices"][name]
    return view


def held(bus: Client, name: str = "hrx0") -> bool:
    return bool(device(bus, name)["holders"])


def held_s(bus: Client) -> float:
    """Return for how long the iGPU has been held; nobody holds it: 0."""
    return max((float(one["held_s"]) for one in device(bus)["holders"]), default=0.0)


@contextmanager
def asking(box: Box, body: dict[str, object]) -> Iterator[http.client.HTTPConnection]:
    """Send a request and do not read its reply; leaving the block hangs up."""
    path = CHAT if "messages" in body else COMPLETIONS
    line = http.client.HTTPConnection(urlsplit(box.url).netloc, timeout=60)
    try:
        line.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        yield line
    finally:
        line.close()


@pytest.fixture
def bus(box: Box) -> Iterator[Client]:
    """Watch the devices, which are free at first and must be so again."""
    with box.bus() as bus:
        until(lambda: not held(bus), "a free device")
        yield bus


@pytest.mark.parametrize(("model", "name"), [(ROW, "hrx0"), (NPU_ROW, "npu0")])
def test_a_stream_left_in_the_middle_frees_the_device(
    box: Box, bus: Client, model: str, name: str
) -> None:
    def freed_s() -> float:
        with Stream(box.url, COMPLETIONS, counting(2000, model=model)) as stream:
            stream.first()
            assert held(bus, name)
        return seconds_until(lambda: not held(bus, name), "a free device")

    at_best(freed_s, RUNNING_S, f"seconds to cancel a decoding stream on {name}")


def test_a_whole_answer_nobody_waits_for_frees_the_device(box: Box, bus: Client) -> None:
    call(box.url, COMPLETIONS, counting(1))  # loaded and prefilled: what follows is decoding

    def freed_s() -> float:
        with asking(box, counting(2000)):
            until(lambda: held(bus), "a held device")
        return seconds_until(lambda: not held(bus), "a free device")

    at_best(freed_s, RUNNING_S, "seconds to cancel a decoding whole answer")


@pytest.mark.parametrize("stream", [False, True])
def test_a_prefill_nobody_waits_for_stops(box: Box, bus: Client, *, stream: bool) -> None:
    call(box.url, CHAT, chat(model=ROW))  # loaded: what follows is prefill

    def freed_s() -> float:
        with asking(box, chat(PREFILL, stream=stream)):
            until(lambda: held_s(bus) > 0.5, "a prefill")
        return seconds_until(lambda: not held(bus), "a free device")

    at_best(freed_s, RUNNING_S, f"seconds to cancel a prefill, stream={stream}")


@pytest.mark.parametrize("stream", [False, True])
def test_a_queued_request_nobody_waits_for_leaves_at_once(
    box: Box, bus: Client, *, stream: bool
) -> None:
    with Stream(box.url, COMPLETIONS, counting(2000)) as running:
        running.first()

        def left_s() -> float:
            with asking(box, chat(stream=stream)):
                until(lambda: device(bus)["waiting"] == 1, "a queued request")
            took_s = seconds_until(lambda: device(bus)["waiting"] == 0, "an empty queue")
            assert held(bus)
            return took_s

        at_best(left_s, QUEUED_S, f"seconds to cancel a queued request, stream={stream}")


def test_the_next_lane_starts_when_a_client_leaves(box: Box, bus: Client) -> None:
    with Stream(box.url, COMPLETIONS, counting(2000)) as running:
        running.first()
        with asking(box, chat("Hi", max_tokens=1)) as waiting:
            until(lambda: device(bus)["waiting"] == 1, "a queued request")
            running.close()
            assert waiting.getresponse().status == 200


def test_a_cancelled_request_is_told_as_cancelled(box: Box, bus: Client) -> None:
    with Stream(box.url, COMPLETIONS, counting(2000)) as stream:
        stream.first()
        rid = stream.headers["x-request-id"]
    until(lambda: not held(bus), "a free device")
    assert "cancelled" in box.cli("explain", rid).stdout


def test_a_model_answers_right_after_its_prefill_was_stopped(box: Box, bus: Client) -> None:
    body = chat("Count: 1, 2, 3", model=ROW, max_tokens=8)
    before = call(box.url, CHAT, body).json["choices"]
    with asking(box, chat(PREFILL, model=ROW)):
        until(lambda: held_s(bus) > 0.5, "a prefill")
    assert call(box.url, CHAT, body).json["choices"] == before


def test_a_hundred_clients_that_hang_up_leave_nothing_behind(box: Box, bus: Client) -> None:
    for number in range(100):
        with asking(box, chat(stream=number % 2 == 0, model=ROW)):
            pass
    until(lambda: not held(bus) and device(bus)["waiting"] == 0, "nothing left")
    assert bus.status()["deciding"] == 0


def test_a_request_cancelled_by_its_id_ends_and_frees_the_device(box: Box) -> None:
    with box.bus() as bus:

        def freed_s() -> float:
            stream = bus.stream([{"role": "user", "content": "Tell a long story"}], max_tokens=500)
            next(stream)
            began_at = time.monotonic()
            stream.close()
            until(lambda: not held(bus), "a free device")
            return time.monotonic() - began_at

        at_best(freed_s, RUNNING_S, "seconds to cancel by id")
