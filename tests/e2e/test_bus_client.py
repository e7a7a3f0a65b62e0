"""The client library of the bus: one behaviour, synchronous and asyncio."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from scheduler.bus import AsyncClient, Client
from scheduler.errors import BrokerUnreachable, Refused
from support.box import Box
from support.http import ROW
from support.wait import PATIENCE_S, at_best, seconds_until, until

T = TypeVar("T")
HELLO = [{"role": "user", "content": "Hi"}]
RUNNING_S = 0.25  # a running generation stops within this
FEW: dict[str, Any] = {"max_tokens": 4, "temperature": 0}


@pytest.fixture
def bus(box: Box) -> Iterator[Client]:
    with box.bus() as bus:
        yield bus


def with_async(box: Box, use: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with AsyncClient(box.clients, timeout_s=60.0) as client:
            return await use(client)

    return asyncio.run(run())


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)


def test_chat_returns_text_and_route(bus: Client) -> None:
    answer = bus.chat(HELLO, **FEW)
    assert answer.text
    assert answer.route is not None
    assert answer.route["outputs"]["model"] == ROW


def test_chat_with_an_explicit_name_has_no_route(bus: Client) -> None:
    assert bus.chat(HELLO, model=ROW, **FEW).route is None


def test_stream_says_what_chat_says(bus: Client) -> None:
    whole = bus.chat(HELLO, model=ROW, **FEW).text
    assert text_of(list(bus.stream(HELLO, model=ROW, **FEW))) == whole


def test_the_first_streamed_chunk_carries_the_route(bus: Client) -> None:
    chunks = list(bus.stream(HELLO, **FEW))
    assert chunks[0]["x_lemonade_route"]["outputs"]["device"] == "hrx"


def test_decide_binds_nothing_and_runs_nothing(bus: Client) -> None:
    until(lambda: bus.status()["open"] == 0, "the end of what others asked")
    before = bus.status()
    assert bus.decide([{"role": "user", "content": "A question"}])["route_to"] == ROW
    after = bus.status()
    assert after["conversations"] == before["conversations"]
    assert after["devices"]["hrx0"]["busy_s"] == before["devices"]["hrx0"]["busy_s"]


def test_a_refusal_carries_status_code_and_facts(bus: Client) -> None:
    with pytest.raises(Refused) as caught:
        bus.chat(HELLO, model="nobody")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    assert caught.value.facts["requested_model"] == "nobody"


def test_a_prompt_too_long_says_both_lengths(bus: Client) -> None:
    with pytest.raises(Refused) as caught:
        bus.chat([{"role": "user", "content": "word " * 9000}], model=ROW)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.facts["n_ctx"] == 8192


def test_leaving_a_stream_frees_the_device(bus: Client) -> None:
    def freed_s() -> float:
        stream = bus.stream([{"role": "user", "content": "Tell a long story"}], max_tokens=500)
        next(stream)
        stream.close()
        return seconds_until(
            lambda: not bus.status()["devices"]["hrx0"]["holders"], "a free device"
        )

    at_best(freed_s, RUNNING_S, "seconds until a stream that was left frees the device")


def test_models_names_rows_collections_and_aliases(bus: Client) -> None:
    models = bus.models()
    assert ROW in [row["id"] for row in models["rows"]]
    assert [c["id"] for c in models["collections"]] == ["user.Laya-First"]
    assert models["aliases"] == {"auto": "user.Laya-First"}


def test_status_shows_each_device_and_its_worker(bus: Client, box: Box) -> None:
    devices = bus.status()["devices"]
    pids = {name: device["worker"]["pid"] for name, device in devices.items()}
    assert pids == {"hrx0": box.pids()["hrx"], "npu0": box.pids()["npu"]}


def test_the_story_of_an_unknown_request_is_none(bus: Client) -> None:
    assert bus.story("nobody") is None


def test_a_request_whose_time_is_over_is_refused(box: Box) -> None:
    with Client(box.clients, timeout_s=0.0) as late, pytest.raises(Refused) as caught:
        late.chat(HELLO, **FEW)
    assert (caught.value.status, caught.value.code) == (504, "deadline_exceeded")


def test_a_stream_dropped_after_its_client_was_closed_is_no_fault(box: Box) -> None:
    with box.bus() as bus:
        stream = bus.stream(HELLO, model=ROW, max_tokens=100)
        next(stream)
    stream.close()


@pytest.mark.slow
def test_without_a_broker_the_client_says_so_soon(prepared: Callable[..., Box]) -> None:
    began_at = time.monotonic()
    with prepared().bus() as bus, pytest.raises(BrokerUnreachable):
        bus.status()
    assert time.monotonic() - began_at < 20  # five seconds, and what the machine makes of them


def test_async_chat_stream_and_decide_agree(box: Box) -> None:
    async def use(client: AsyncClient) -> tuple[str, str, str]:
        answer = await client.chat(HELLO, model=ROW, **FEW)
        chunks = [chunk async for chunk in client.stream(HELLO, model=ROW, **FEW)]
        decided = await client.decide(HELLO)
        return answer.text, text_of(chunks), decided["route_to"]

    whole, streamed, model = with_async(box, use)
    assert (streamed, model) == (whole, ROW)


def test_async_requests_at_once_are_each_answered(box: Box) -> None:
    async def use(client: AsyncClient) -> list[str]:
        asked = [client.chat(HELLO, model=ROW, **FEW) for _ in range(8)]
        return [answer.text for answer in await asyncio.gather(*asked)]

    texts = with_async(box, use)
    assert len(texts) == 8
    assert len(set(texts)) == 1


def test_async_a_refusal_is_raised(box: Box) -> None:
    with pytest.raises(Refused):
        with_async(box, lambda client: client.chat(HELLO, model="nobody"))


def test_async_a_cancelled_task_frees_the_device(box: Box) -> None:
    async def use(client: AsyncClient) -> float:
        task = asyncio.create_task(client.chat(HELLO, model=ROW, max_tokens=2000, stop="never"))
        await until_held(client, held=True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await until_held(client, held=False)

    at_best(lambda: with_async(box, use), RUNNING_S, "seconds until a cancelled task has let go")


def test_async_closing_a_stream_frees_the_device(box: Box) -> None:
    async def use(client: AsyncClient) -> float:
        stream = client.stream([{"role": "user", "content": "A long story"}], max_tokens=500)
        assert isinstance(stream, AsyncGenerator)
        await anext(stream)
        await stream.aclose()
        return await until_held(client, held=False)

    at_best(lambda: with_async(box, use), RUNNING_S, "seconds until a closed stream has let go")


async def until_held(client: AsyncClient, *, held: bool) -> float:
    """Ask for the status until the device is held, or free; return how long that took."""
    began_at = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = await client.status()
            if bool(status["devices"]["hrx0"]["holders"]) is held:
                return time.monotonic() - began_at
