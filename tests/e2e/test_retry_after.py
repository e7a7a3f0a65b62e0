"""429 as real clients meet it: the bound in every state, the time to come back, no storm of retries."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

import openai
import pytest
from openai import _base_client

from support.front import Front, holding
from support.http import ROW, Stream
from support.wait import until

LANE = "crowded"
QUEUE_S = 300.0  # what the box believes it will take until the queue has a place


@pytest.fixture
def front() -> Iterator[Front]:
    """A box with one seat and one place in the queue of each lane."""
    with Front(limits__queue_per_lane=1) as front:
        yield front


@pytest.fixture
def full(front: Front) -> Iterator[list[Stream]]:
    """The seat held for 300 s by all the box knows, and the lane's one place taken."""
    with ExitStack() as stack:
        held = stack.enter_context(front.ask(LANE, holding(QUEUE_S)))
        held.first()
        waits = stack.enter_context(front.ask(LANE))
        until(lambda: front.waiting() == 1, "a full queue")
        yield [held, waits]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's sleeps: recorded instead of slept. Nothing of the server is touched."""
    sleeps: list[float] = []
    _sleep_by(monkeypatch, sleeps.append)
    return sleeps


def _sleep_by(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], None]) -> None:
    clock = SimpleNamespace(sleep=sleep, time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr(_base_client, "time", clock)


def ask(front: Front, retries: int) -> str:
    """Ask once through the `openai` client, which retries on its own."""
    with openai.OpenAI(
        base_url=f"{front.url}/v1", api_key="sk-test", max_retries=retries, timeout=60,
        default_headers={"x-fairlane-lane": LANE},
    ) as client:  # fmt: skip
        reply = client.chat.completions.create(
            model=ROW, messages=[{"role": "user", "content": "Hi"}], max_tokens=2
        )
    return reply.choices[0].message.content or ""


@pytest.mark.usefixtures("full")
def test_a_client_is_told_the_truth_and_to_come_back_within_a_minute(front: Front) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        ask(front, 0)
    assert caught.value.response.headers["retry-after"] == "60"
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["type"] == "rate_limit_error"
    assert body["code"] == "queue_full"
    assert body["estimated_wait_s"] == pytest.approx(QUEUE_S, abs=30.0)
    told = {
        key: body[key] for key in ("retry_after_s", "bound", "limit", "lane", "waiting_of_lane")
    }
    assert told == {
        "retry_after_s": 60, "bound": "lane", "limit": 1, "lane": LANE, "waiting_of_lane": 1,
    }  # fmt: skip


@pytest.mark.usefixtures("full")
def test_a_queue_of_300_s_makes_no_storm_of_retries(front: Front, slept: list[float]) -> None:
    clients, retries = 4, math.ceil(QUEUE_S / 60)

    def refused(_n: int) -> bool:
        with pytest.raises(openai.RateLimitError):
            ask(front, retries)
        return True

    with ThreadPoolExecutor(clients) as pool:
        assert all(pool.map(refused, range(clients)))
    # each came once, and then once a minute: as often as the wait has minutes, and not once more
    assert slept == [60.0] * (clients * retries)
    assert front.count("refused_queue_full") == clients * (retries + 1)


def test_a_client_that_comes_back_is_served_as_soon_as_there_is_a_place(
    front: Front, full: list[Stream], slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            for stream in reversed(full):
                stream.close()
            until(lambda: not front.status()["devices"]["hrx0"]["holders"], "a free seat")

    _sleep_by(monkeypatch, sleep)
    assert ask(front, 10) == "said"
    assert slept == [60.0] * 3
    assert front.count("refused_queue_full") == 3


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("in_all", [256, 1])
def test_of_six_at_once_one_runs_one_waits_and_four_are_429(in_all: int, *, is_warm: bool) -> None:
    box = Front(limits__queue_per_lane=1, limits__queue_total=in_all)
    with box as front, ExitStack() as stack:
        if is_warm:
            with front.ask(LANE, holding() | {"prompt": "Hi"}) as before:
                assert list(before.data())[-1] == "[DONE]"
        with ThreadPoolExecutor(6) as pool:
            streams = [stack.enter_context(s) for s in pool.map(front.ask, [LANE] * 6)]
            replies = list(pool.map(lambda s: (s.response.status, s.headers), streams))
        assert sorted(status for status, _ in replies) == [200, 200, 429, 429, 429, 429]
        refused = [headers for status, headers in replies if status == 429]
        assert all(1 <= int(headers["retry-after"]) <= 60 for headers in refused)
        hrx = front.status()["devices"]["hrx0"]
        assert (len(hrx["holders"]), hrx["waiting"]) == (1, 1)


def test_the_bound_of_all_is_named_where_it_was_the_one_that_was_hit() -> None:
    with Front(limits__queue_per_lane=2, limits__queue_total=2) as front, ExitStack() as stack:
        stack.enter_context(front.ask("a")).first()
        for lane in ("b", "c"):
            stack.enter_context(front.ask(lane))
        until(lambda: front.waiting() == 2, "a full queue")
        with pytest.raises(openai.RateLimitError) as caught:
            ask(front, 0)
        body = caught.value.body
        assert isinstance(body, dict)
        assert (body["bound"], body["limit"], body["waiting_total"]) == ("total", 2, 2)
