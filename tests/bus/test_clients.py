"""The two clients against a real broker in a process of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.bus import AsyncClient, Client, pending
from scheduler.errors import BrokerUnreachable, Refused
from scheduler.wire import messages as wire
from support.peers import BrokerProcess, Hand
from support.sockets import wait_for

HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
HOLD: list[dict[str, Any]] = [{"role": "user", "content": "hold"}]
HOLD_SILENT: list[dict[str, Any]] = [{"role": "user", "content": "hold silent"}]


class Setting:
    """A broker, a worker and a scorer."""

    def __init__(self, directory: Path) -> None:
        self.broker = BrokerProcess(directory)
        self.broker.start()
        self.worker = Hand(self.broker.backend)
        self.scorer = Hand(self.broker.backend, "scorer")
        self.worker.start()
        self.scorer.start()

    def close(self) -> None:
        """End everything."""
        self.worker.stop()
        self.scorer.stop()
        self.broker.kill()

    async def sees(self, kind: type[wire.Message]) -> None:
        """Wait until the worker was told so."""
        await asyncio.to_thread(wait_for, lambda: self.has_seen(kind))

    def has_seen(self, kind: type[wire.Message], times: int = 1) -> bool | None:
        """Return True once the worker was told so."""
        return True if sum(isinstance(m, kind) for m in self.worker.seen) >= times else None


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    made = Setting(tmp_path)
    with Client(made.broker.frontend) as client:
        wait_for(lambda: client.status()["devices"]["hrx0"]["worker"])
        wait_for(lambda: client.status()["scorers"] or None)
    yield made
    made.close()


@pytest.fixture
def client(setting: Setting) -> Iterator[Client]:
    with Client(setting.broker.frontend) as made:
        yield made


def test_an_explicit_model_answers_without_a_decision(client: Client) -> None:
    answer = client.chat(HI, model="M")
    assert (answer.text, answer.route) == ("said", None)


def test_auto_is_decided_and_the_answer_says_so(client: Client) -> None:
    answer = client.chat(HI)
    assert answer.route is not None
    assert answer.route["matched_rule"] == "laya-code"
    assert answer.route["outputs"]["model"] == "N"
    assert answer.route["outputs"]["timings"].keys() >= {"decide_ms", "queue_ms"}


def test_a_stream_comes_piece_by_piece_with_the_decision_on_the_first(client: Client) -> None:
    pieces = list(client.stream(HI))
    assert [piece["n"] for piece in pieces] == [0, 1, 2]
    assert ["x_lemonade_route" in piece for piece in pieces] == [True, False, False]


def test_a_decision_alone_runs_nothing(client: Client, setting: Setting) -> None:
    assert client.decide(HI)["route_to"] == "N"
    assert setting.has_seen(wire.Run) is None


def test_a_refusal_is_raised_with_its_facts(client: Client) -> None:
    with pytest.raises(Refused) as caught:
        client.chat(HI, model="nope")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
    assert caught.value.facts["requested_model"] == "nope"


def test_a_workers_failure_is_raised(client: Client) -> None:
    with pytest.raises(Refused, match="It broke") as caught:
        client.chat([{"role": "user", "content": "fail"}], model="M")
    assert caught.value.status == 503


def test_one_client_serves_many_requests_after_each_other(client: Client) -> None:
    assert [client.chat(HI, model="M").text for _ in range(50)] == ["said"] * 50


def test_leaving_a_stream_cancels_the_rest(client: Client, setting: Setting) -> None:
    for _ in client.stream(HOLD, model="M"):
        break
    assert wait_for(lambda: setting.has_seen(wire.Stop))


def test_the_views_are_answered(client: Client) -> None:
    assert client.status()["boot"] == 1
    assert {row["id"] for row in client.models()["rows"]} == {"M", "N", "P", "plain"}
    assert client.story("nope") is None


def test_a_request_that_is_not_begun_survives_a_killed_broker(
    client: Client, setting: Setting
) -> None:
    answers: list[str] = []
    asker = threading.Thread(target=lambda: answers.append(client.chat(HI, model="P").text))
    asker.start()
    with Client(setting.broker.frontend) as other:
        wait_for(lambda: other.status()["devices"]["npu0"]["waiting"] or None)
    setting.broker.kill()
    setting.broker.start()
    npu = Hand(setting.broker.backend, "npu")
    npu.start()
    asker.join(60.0)
    npu.stop()
    assert answers == ["said"]
    assert sum(isinstance(m, wire.Run) for m in npu.seen) == 1


def test_a_stream_that_began_ends_with_an_error_when_the_broker_is_killed(
    client: Client, setting: Setting
) -> None:
    client.status()  # the client now knows which start of the broker this is
    stream = client.stream(HOLD, model="M")
    assert [next(stream)["n"] for _ in range(3)] == [0, 1, 2]
    setting.broker.kill()
    setting.broker.start()
    with pytest.raises(Refused) as caught:
        list(stream)
    assert (caught.value.code, caught.value.began) == ("broker_restarted", True)


def test_without_a_broker_a_client_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "ACK_S", 0.2)
    with Client(f"ipc://{tmp_path}/nobody") as client, pytest.raises(BrokerUnreachable):
        client.status()


def test_a_request_given_up_before_the_broker_came_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "ACK_S", 0.2)
    broker = BrokerProcess(tmp_path)
    worker = Hand(broker.backend)
    with Client(broker.frontend) as client:
        with pytest.raises(Refused) as caught:
            client.chat(HI, model="M")
        assert caught.value.code == "broker_unreachable"
        broker.start()
        monkeypatch.setattr(pending, "ACK_S", 10.0)
        wait_for(lambda: client.status()["counts"].get("cancelled"))
        worker.start()
        wait_for(lambda: client.status()["devices"]["hrx0"]["worker"])
    worker.stop()
    broker.kill()
    assert not any(isinstance(m, wire.Run) for m in worker.seen)


def test_the_asyncio_client_does_the_same(setting: Setting) -> None:
    async def session() -> None:
        async with AsyncClient(setting.broker.frontend) as client:
            assert (await client.chat(HI, model="M")).text == "said"
            assert [piece["n"] async for piece in client.stream(HI)] == [0, 1, 2]
            assert (await client.decide(HI))["route_to"] == "N"
            assert (await client.status())["boot"] == 1
            assert (await client.models())["aliases"]["em"] == "M"
            with pytest.raises(Refused, match="not found"):
                await client.chat(HI, model="nope")

    asyncio.run(session())


def test_many_requests_at_once_on_one_asyncio_client_each_get_their_own_answer(
    setting: Setting,
) -> None:
    async def session() -> None:
        async with AsyncClient(setting.broker.frontend) as client:
            answers = await asyncio.gather(*[client.chat(HI, model="M") for _ in range(60)])
            assert [answer.text for answer in answers] == ["said"] * 60

    asyncio.run(session())


def test_a_cancelled_task_cancels_its_request(setting: Setting) -> None:
    async def session() -> None:
        async with AsyncClient(setting.broker.frontend) as client:
            task = asyncio.ensure_future(client.chat(HOLD_SILENT, model="M"))
            await setting.sees(wire.Run)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await setting.sees(wire.Stop)

    asyncio.run(asyncio.wait_for(session(), 60.0))


def test_closing_an_asyncio_client_ends_what_waits_on_it(setting: Setting) -> None:
    async def session() -> None:
        client = AsyncClient(setting.broker.frontend)
        client.start()
        task = asyncio.ensure_future(client.chat(HOLD_SILENT, model="M"))
        await setting.sees(wire.Run)
        client.close()
        with pytest.raises(Refused) as caught:
            await task
        assert caught.value.code == "client_closed"

    asyncio.run(asyncio.wait_for(session(), 60.0))


def test_an_exit_that_is_reported_frees_the_device_at_once(client: Client) -> None:
    client.report_exit(1)
    wait_for(lambda: True if client.status()["counts"].get("workers_lost") else None)
