"""A whole box whose rows are served by a child and by a neighbour, asked as its users ask it."""

import hashlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from support.box import Box, lives
from support.engines import FAKE, model_file
from support.http import CHAT, Stream, call, chat
from support.ports import free_port
from support.servers import Server, server
from support.wait import at_best, seconds_until, until

TEMPLATE = hashlib.sha256(b"{{ messages }}").hexdigest()
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                       "required": ["city"]},
    },
}  # fmt: skip


def write_table(folder: Path, url: str) -> Path:
    """Write a table of two rows at a child engine on hrx, and one at a neighbour on npu."""
    common = {"path": str(model_file(folder)), "template_sha256": TEMPLATE, "engine": "fake"}
    able = {"ctx": 16384, "tools": True, "json_schema": True, "slots": 2}
    table = {
        "version": "1",
        "default_model": "child",
        "classes": {name: {"model": "child"} for name in ("short", "prose", "code", "long_doc")},
        "rows": [
            {"model": "child", "device": "hrx", **common, **able},
            {"model": "second", "device": "hrx", **common, **able},
            {"model": "neighbour", "device": "npu", "url": url, **able},
        ],
    }
    file = folder / "table.json"
    file.write_text(json.dumps(table))
    return file


def settings(folder: Path, url: str, *more: object) -> dict[str, object]:
    """Return the settings of such a box."""
    return {
        "table": write_table(folder, url),
        "engines__fake__command": " ".join([FAKE, *map(str, more)]),
        "engines__fake__idle": "/slots",
        "engines__fake__id_slot": "true",
        "engines__fake__backend": "a fake",
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="module")
def neighbour(folder: Path) -> Iterator[Server]:
    with server(folder, "well", "--ctx", 16384) as one:
        yield one


@pytest.fixture(scope="module")
def engines(folder: Path, neighbour: Server) -> Iterator[Box]:
    with Box(**settings(folder, neighbour.url)) as box:
        yield box


@pytest.fixture
def asking(engines: Box) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{engines.url}/v1", api_key="-", max_retries=0) as one:
        yield one


def children(box: Box) -> list[psutil.Process]:
    """Return the box's server processes."""
    found = []
    for worker in box.processes().values():
        found += [one for one in worker.children(recursive=True) if lives(one)]
    return [one for one in found if "workers.fake_server" in one.cmdline()]


@pytest.mark.parametrize("model", ["auto", "child", "neighbour"])
def test_tools_thoughts_and_usage_come_through(model: str, asking: openai.OpenAI) -> None:
    chunks = list(
        asking.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "hi"}], tools=[TOOL], stream=True,
            stream_options={"include_usage": True}, reasoning_effort="high",
        )
    )  # fmt: skip
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    parts = [call for delta in deltas for call in delta.tool_calls or []]
    written = "".join((part.function and part.function.arguments) or "" for part in parts)
    assert json.loads(written) == {"city": "fake"}
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "let me think"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens_details is not None
    assert {chunk.model for chunk in chunks} == {"child" if model == "auto" else model}


def test_status_says_what_computes(engines: Box) -> None:
    devices = engines.status()["devices"]
    assert devices["hrx0"]["worker"]["backend"] == "a fake (child)"
    assert devices["npu0"]["worker"]["backend"] == "url, backend unknown (neighbour)"


@pytest.mark.parametrize("model", ["child", "neighbour"])
def test_two_alternating_conversations_find_their_prompts_cached(
    model: str, asking: openai.OpenAI
) -> None:
    """4,000 tokens each; from its second turn on each finds nine tenths of its prompt computed."""
    talks: dict[str, list[Any]] = {
        talk: [{"role": "user", "content": f"{talk} " * 4000}] for talk in ("one", "two")
    }
    shares: dict[str, list[float]] = {"one": [], "two": []}
    for _turn in range(4):
        for talk, turns in talks.items():
            reply = asking.chat.completions.create(model=model, messages=turns)
            assert reply.usage is not None
            assert reply.usage.prompt_tokens_details is not None
            cached = reply.usage.prompt_tokens_details.cached_tokens or 0
            shares[talk].append(cached / reply.usage.prompt_tokens)
            turns += [
                {"role": "assistant", "content": reply.choices[0].message.content},
                {"role": "user", "content": "go on"},
            ]
    print(model, shares)
    if model == "child":  # which slots a neighbour has is its own affair: this one has one
        assert all(share >= 0.9 for talk in shares.values() for share in talk[1:])


def test_a_neighbour_that_is_not_there_is_named_and_found_when_it_comes(
    engines: Box, folder: Path, tmp_path: Path
) -> None:
    port = ("--port", free_port())
    with server(tmp_path, "well", *port) as gone:
        url = gone.url
    with Box(**settings(folder, url)) as box:
        reply = call(box.url, CHAT, chat(model="neighbour"))
        assert reply.status == 503
        assert reply.error["code"] == "model_not_usable"
        assert f"{url}/health does not answer" in reply.error["message"]
        with server(tmp_path, "well", *port):
            # a row that failed is left alone for a while before it is tried again
            until(
                lambda: call(box.url, CHAT, chat(model="neighbour")).status == 200,
                "an answer",
                within_s=40,
            )


def test_two_requests_share_a_row_and_a_third_waits(folder: Path, neighbour: Server) -> None:
    slow = settings(folder, neighbour.url, "--token-ms", 150)
    with Box(**slow) as box, ThreadPoolExecutor(3) as pool:
        call(box.url, CHAT, chat(model="child", max_tokens=1))
        bodies = [chat(f"hi {n}", model="child", max_tokens=9) for n in range(3)]
        asked = [pool.submit(call, box.url, CHAT, body) for body in bodies]
        seen: list[tuple[int, int]] = []  # who ran and who waited

        def all_answered() -> bool:
            hrx = box.status()["devices"]["hrx0"]
            seen.append((len(hrx["holders"]), hrx["waiting"]))
            return all(one.done() for one in asked)

        until(all_answered, "three answers")
        assert [one.result().status for one in asked] == [200] * 3
        assert (2, 1) in seen
        assert max(running for running, _ in seen) == 2


def test_a_client_that_leaves_frees_the_seat_and_the_server_lives_on(
    folder: Path, neighbour: Server
) -> None:
    slow = settings(folder, neighbour.url, "--prompt-token-ms", 50, "--token-ms", 50)
    with Box(**slow) as box:
        call(box.url, CHAT, chat(model="child", max_tokens=1))
        before = children(box)
        for body in (chat("word " * 400, model="child"), chat(model="child", max_tokens=400)):

            def freed_s(body: dict[str, object] = body) -> float:
                with Stream(box.url, CHAT, {**body, "stream": True}):
                    until(lambda: running(box) == 1, "the job runs")
                    time.sleep(0.5)
                return seconds_until(lambda: running(box) == 0, "the seat is free")

            # 250 ms, and what asking for the status takes
            at_best(freed_s, 0.6, "seconds until the seat of a client that left is free")
        assert children(box) == before


def running(box: Box) -> int:
    """Return how many tickets hold a seat of the GPU."""
    return len(box.status()["devices"]["hrx0"]["holders"])


def test_a_killed_worker_takes_its_child_along_and_the_next_one_serves(
    folder: Path, neighbour: Server
) -> None:
    with Box(**settings(folder, neighbour.url)) as box:
        call(box.url, CHAT, chat(model="child"))
        (child,) = children(box)
        old = box.kill("hrx")
        until(lambda: not lives(child), "the child's end")
        box.wait_for_new("hrx", old)
        assert call(box.url, CHAT, chat(model="child")).status == 200
        (again,) = children(box)
        status, _ = box.stop()
        assert status == 0
        assert not lives(again)


def test_an_explicit_row_that_crashes_is_one_error_and_serves_again(
    folder: Path, neighbour: Server, tmp_path: Path
) -> None:
    crash = settings(folder, neighbour.url, "--play", "dies", "--once", tmp_path / "once")
    with Box(**crash) as box:
        with Stream(box.url, CHAT, {**chat(model="child"), "stream": True}) as stream:
            said = list(stream.data())
        errors = [json.loads(one)["error"] for one in said if '"error"' in one]
        assert [error["code"] for error in errors] == ["engine_crashed"]
        assert "[DONE]" not in said
        assert call(box.url, CHAT, chat(model="child")).status == 200
