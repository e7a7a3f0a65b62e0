"""What broker and gateway weigh: resident set size (RSS), the number an operator sees in `ps`."""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit

import pytest

from support.box import Box
from support.http import CHAT, ROW, call, chat

MB = 1e6
MAX_MB = {"broker": 40.0, "gateway": 80.0}
REQUESTS = 20_000
CONNECTIONS = 32
# 4,096 bindings with their decisions, 2,000 stories, and a checkpoint of them while it is written:
# 7 to 10 MB seen
GROWTH_MB = 12.0


def resident_mb(box: Box) -> dict[str, float]:
    return {kind: box.processes()[kind].memory_info().rss / MB for kind in MAX_MB}


def test_an_idle_box_is_small(box: Box) -> None:
    weight = resident_mb(box)
    print("with the model, as the other tests left it:", weight)
    assert [kind for kind, mb in weight.items() if mb > MAX_MB[kind]] == []


@pytest.mark.slow
@pytest.mark.parametrize("model", ["auto", ROW])
def test_a_box_is_small_after_twenty_thousand_requests(new_null_box: Box, model: str) -> None:
    before = resident_mb(new_null_box)
    began_at = time.monotonic()
    asyncio.run(flood(new_null_box.url, model))
    rate = REQUESTS / (time.monotonic() - began_at)
    after = resident_mb(new_null_box)
    print(f"{model}: {before} MB idle, {after} MB after {REQUESTS} requests, {rate:.0f}/s")
    assert [kind for kind, mb in before.items() if mb > MAX_MB[kind]] == []
    assert [kind for kind, mb in after.items() if mb > MAX_MB[kind] + GROWTH_MB] == []


@pytest.fixture
def new_null_box() -> Iterator[Box]:
    """A box that has been ready for some seconds, which is when lazy parts have settled."""
    with Box(workers__engine="null") as box:
        settled_at = time.monotonic() + 3.0
        while time.monotonic() < settled_at:
            call(box.url, "/v1/health")
        yield box


async def flood(url: str, model: str) -> None:
    """Ask so many times, each in a conversation of its own, over connections kept alive."""
    numbers = count()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(one_connection(url, model, numbers))


async def one_connection(url: str, model: str, numbers: Iterator[int]) -> None:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    body = json.dumps(chat(model=model)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    while (number := next(numbers)) < REQUESTS:
        own = f"x-fairlane-conversation: {number}\r\nx-fairlane-lane: lane-{number % 100}\r\n\r\n"
        writer.write((head + own).encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert answer.startswith("http/1.1 200")
        length = answer.partition("content-length: ")[2].partition("\r\n")[0]
        await reader.readexactly(int(length))
    writer.close()
    await writer.wait_closed()
