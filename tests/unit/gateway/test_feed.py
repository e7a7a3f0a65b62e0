"""The live feed: one question a second for all who watch, a few numbers when nobody does."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from scheduler.errors import BrokerUnreachable
from scheduler.gateway.curves import STEP_S
from scheduler.gateway.feed import VIEWERS, Feed


class Broker:
    """Answers as the broker does, or not at all."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.now = 100.0
        self.is_there = True

    async def look(self, what: str) -> bytes:
        self.asked.append(what)
        await asyncio.sleep(0)
        if not self.is_there:
            raise BrokerUnreachable
        view = {"boot": 1, "at": self.now, "curves": {"tctl": 70.0}, "busy_s": {"hrx0": 1.0}}
        return json.dumps(view | {"of": what}).encode()

    def clock(self) -> float:
        return self.now


def feed_of(broker: Broker) -> Feed:
    return Feed(broker.look, broker.clock)


def ran(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await story

    asyncio.run(bounded())


async def event(events: AsyncGenerator[bytes]) -> tuple[str, Any]:
    """Return the next event that has a name."""
    async for raw in events:
        lines = raw.decode().splitlines()
        if lines[0].startswith("event: "):
            assert lines[1].startswith("data: ")
            assert lines[2:] == [""]
            return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))
    raise AssertionError("the feed ended")


def test_nobody_watches_and_only_the_pulse_is_asked_for() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        for _ in range(3):
            await feed.turn()
            broker.now += 2.0
        assert broker.asked == ["pulse"] * 3

    ran(story())


def test_one_question_serves_all_who_watch() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        with contextlib.ExitStack() as seats:
            watching = []
            for _ in range(5):
                seats.enter_context(feed.seat())
                watching.append(feed.events())
            await feed.turn()
            for events in watching:
                assert (await event(events))[0] == "curves"
                name, told = await event(events)
                assert (name, told["of"]) == ("snapshot", "live")
            assert broker.asked == ["live"]

    ran(story())


def test_who_comes_late_gets_all_points_first_and_then_the_new_ones() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        for _ in range(4):
            await feed.turn()
            broker.now += 2.0
        with feed.seat():
            events = feed.events()
            name, told = await event(events)
            assert (name, told["whole"], len(told["points"])) == ("curves", True, 4)
            await feed.turn()
            told = dict([await event(events), await event(events)])
            assert told["snapshot"]["at"] == 108.0
            assert (told["curves"]["whole"], [p["at"] for p in told["curves"]["points"]]) == (
                False,
                [108.0],
            )

    ran(story())


def test_who_reads_slowly_misses_snapshots_and_no_point() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        with feed.seat():
            events = feed.events()
            await feed.turn()
            assert [(await event(events))[0] for _ in range(2)] == ["curves", "snapshot"]
            for _ in range(6):
                broker.now += 1.0
                await feed.turn()
            name, told = await event(events)
            assert (name, [p["at"] for p in told["points"]]) == ("curves", [102.0, 104.0, 106.0])
            name, told = await event(events)
            assert (name, told["at"]) == ("snapshot", 106.0)

    ran(story())


def test_a_snapshot_of_the_last_viewers_time_is_not_told_as_one_of_now() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        with feed.seat():
            await feed.turn()
        broker.now += 60.0
        with feed.seat():
            events = feed.events()
            assert (await event(events))[0] == "curves"
            coming = asyncio.ensure_future(event(events))
            await asyncio.sleep(0.01)
            assert not coming.done()
            await feed.turn()
            assert (await coming)[1]["points"][0]["at"] == 160.0
            assert (await event(events))[1]["at"] == 160.0

    ran(story())


def test_a_broker_that_is_gone_is_said_to_be_and_for_how_long_and_its_return_is_seen() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        with feed.seat():
            events = feed.events()
            broker.is_there = False
            await feed.turn()
            assert await event(events) == ("lost", {"for_s": 0.0})
            broker.now += 3.0
            await feed.turn()
            assert await event(events) == ("lost", {"for_s": 3.0})
            broker.is_there = True
            await feed.turn()
            assert (await event(events))[0] == "curves"
            assert (await event(events))[0] == "snapshot"

    ran(story())


def test_whoever_begins_to_watch_does_not_wait_for_the_next_point() -> None:
    async def story() -> None:
        broker = Broker()
        feed = feed_of(broker)
        running = asyncio.create_task(feed.run())
        await asyncio.sleep(0.05)
        with feed.seat():
            events = feed.events()
            async with asyncio.timeout(STEP_S * 0.8):
                while (await event(events))[0] != "snapshot":
                    pass
        running.cancel()

    ran(story())


def test_the_number_of_viewers_is_bounded_and_a_seat_comes_back() -> None:
    feed = feed_of(Broker())
    with contextlib.ExitStack() as seats:
        for _ in range(VIEWERS):
            assert not feed.is_full
            seats.enter_context(feed.seat())
        assert feed.is_full
    assert not feed.is_full


def test_closing_sends_everybody_away() -> None:
    async def story() -> None:
        feed = feed_of(Broker())
        with feed.seat():
            rest = asyncio.ensure_future(_all(feed.events()))
            await asyncio.sleep(0.01)
            feed.close()
            assert await rest == [b"retry: 2000\n\n"]

    ran(story())


async def _all(events: AsyncGenerator[bytes]) -> list[bytes]:
    return [raw async for raw in events]
