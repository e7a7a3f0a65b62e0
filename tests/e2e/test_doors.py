"""Every door of a whole box, with the clients that people use at them: `openai` and `anthropic`."""

import hashlib
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.box import Box
from support.engines import FAKE, model_file
from support.http import ROW, Stream, call
from support.servers import Server, server
from support.wait import until

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"name": "weather", "input_schema": SCHEMA}
FUNCTION: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
SAYS = "all is well that ends well and so on"
SLOW_MS = 150  # a token of the slow neighbour


def write_table(folder: Path, url: str, slow: str, dying: str) -> Path:
    """Write a table of a child, two neighbours and the in-process engine."""
    able = {"ctx": 4096, "tools": True, "json_schema": True, "vision": True, "slots": 2}
    digest = hashlib.sha256(b"{{ messages }}").hexdigest()
    child = {"path": str(model_file(folder)), "template_sha256": digest, "engine": "fake", **able}
    table = {
        "version": "1",
        "default_model": "child",
        "classes": {name: {"model": "child"} for name in ("short", "prose", "code", "long_doc")},
        "rows": [
            {"model": "child", "device": "hrx", **child},
            {"model": "neighbour", "device": "npu", "url": url, **able},
            {"model": "slow", "device": "npu", "url": slow, **able},
            {"model": "dying", "device": "hrx", "url": dying, **able},
            {"model": "vectors", "device": "npu", "url": url, "type": "embedding", "ctx": 4096},
        ],
    }
    file = folder / "table.json"
    file.write_text(json.dumps(table))
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def slow(folder: Path) -> Iterator[Server]:
    (folder / "slow").mkdir()
    with server(folder / "slow", "well", "--token-ms", SLOW_MS, "--tokens", 200) as one:
        yield one


@pytest.fixture(scope="module")
def dying(folder: Path) -> Iterator[Server]:
    (folder / "dying").mkdir()
    with server(folder / "dying", "well", "--token-ms", 9000) as one:
        yield one


@pytest.fixture(scope="module")
def neighbour(folder: Path) -> Iterator[Server]:
    with server(folder, "well") as one:
        yield one


@pytest.fixture(scope="module")
def doors(folder: Path, neighbour: Server, slow: Server, dying: Server) -> Iterator[Box]:
    settings: dict[str, object] = {
        "table": write_table(folder, neighbour.url, slow.url, dying.url),
        "engines__fake__command": FAKE,
        "engines__fake__idle": "/slots",
        "engines__fake__id_slot": "true",
        "engines__url__idle": "/slots",
        "gateway__wait_headers_s": 0.5,
        "gateway__wait_space_s": 0.2,
    }
    with Box(**settings) as one:
        yield one


@pytest.fixture
def claude(doors: Box) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=doors.url, api_key="-", max_retries=0) as one:
        yield one


@pytest.fixture
def gpt(doors: Box) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{doors.url}/v1", api_key="-", max_retries=0) as one:
        yield one


def turn(text: str) -> Any:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("model", ["auto", "child", "neighbour"])
def test_anthropics_client_gets_a_message_and_a_tool_call(
    model: str, claude: anthropic.Anthropic
) -> None:
    raw = claude.messages.with_raw_response.create(
        model=model, max_tokens=99, messages=[turn("hi")], system="Be brief", tools=[TOOL]
    )
    said = raw.parse()
    assert said.model == ("child" if model == "auto" else model)
    assert said.stop_reason == "tool_use"
    assert [(b.name, b.input) for b in said.content if b.type == "tool_use"] == [
        ("weather", {"city": "fake"})
    ]
    assert ("x-lemonade-route" in raw.headers) == (model == "auto")
    assert ("x_lemonade_route" in json.loads(raw.text())) == (model == "auto")


@pytest.mark.parametrize("model", ["auto", "child", "neighbour"])
def test_anthropics_client_reads_a_stream(model: str, claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model=model, max_tokens=99, messages=[turn("hi")]) as stream:
        assert "".join(stream.text_stream) == SAYS
        final = stream.get_final_message()
        assert stream.response.headers["x-accel-buffering"] == "no"
    assert final.model == ("child" if model == "auto" else model)
    assert final.usage.output_tokens == 9
    with claude.messages.stream(
        model=model, max_tokens=99, messages=[turn("hi")], tools=[TOOL]
    ) as stream:
        called = [b for b in stream.get_final_message().content if b.type == "tool_use"]
    assert [one.input for one in called] == [{"city": "fake"}]


def test_an_agents_second_turn_is_bound_and_decided_no_more(
    doors: Box, claude: anthropic.Anthropic
) -> None:
    """Call, result, and a count in between, with what an agent changes on every request."""

    def system(number: int) -> Any:
        bill = {"type": "text", "text": f"x-anthropic-billing-header: n={number}"}
        return [bill, {"type": "text", "text": "You are an agent"}]

    asked = [{"role": "user", "content": [{"type": "text", "text": "what weather is it?",
              "cache_control": {"type": "ephemeral"}}]}]  # fmt: skip
    turns: list[Any] = [*asked]
    first = claude.messages.create(model="auto", max_tokens=99, messages=turns, system=system(1),
                                   tools=[TOOL])  # fmt: skip
    before = doors.count("decisions")
    assert before >= 1
    called = next(block for block in first.content if block.type == "tool_use")
    turns += [
        {"role": "assistant", "content": [called.model_dump(include={"type", "id", "name", "input"})]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": called.id, "content": "rain"}]},
    ]  # fmt: skip
    turns[0] = turn("what weather is it?")
    counted = claude.messages.count_tokens(model="auto", messages=turns, system=system(2))
    assert counted.input_tokens > 5
    second = claude.messages.create(model="auto", max_tokens=99, messages=turns, system=system(3),
                                    tools=[TOOL])  # fmt: skip
    assert [block.text for block in second.content if block.type == "text"] == [SAYS]
    assert doors.count("decisions") == before


@pytest.mark.parametrize("model", ["auto", "child", "neighbour"])
def test_openais_client_gets_a_response_whole_and_streamed(model: str, gpt: openai.OpenAI) -> None:
    served = "child" if model == "auto" else model
    whole = gpt.responses.create(model=model, input="hi", instructions="Be brief")
    assert (whole.model, whole.output_text) == (served, SAYS)
    events = list(gpt.responses.create(model=model, input=[turn("hi")], stream=True))
    assert events[0].type == "response.created"
    assert ("x_lemonade_route" in events[0].model_dump()) == (model == "auto")
    text = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(text) == SAYS
    assert [e.response.model for e in events if e.type == "response.completed"] == [served]
    called = gpt.responses.create(model=model, input="hi", tools=[FUNCTION]).output[0]
    assert called.type == "function_call"
    assert json.loads(called.arguments) == {"city": "fake"}


def test_embeddings_ranks_and_tokens(doors: Box, gpt: openai.OpenAI) -> None:
    vectors = gpt.embeddings.create(model="vectors", input=["a", "b"], encoding_format="float")
    assert [len(one.embedding) for one in vectors.data] == [8, 8]
    ranked = call(
        doors.url, "/v1/rerank", {"model": "neighbour", "query": "a b", "documents": ["a", "a b"]}
    )
    assert [
        one["relevance_score"] for one in sorted(ranked.json["results"], key=lambda r: r["index"])
    ]
    for path in ("/tokenize", "/v1/tokenize"):
        told = call(doors.url, path, {"model": "child", "content": "one two three"})
        assert len(told.json["tokens"]) == 3


def test_errors_are_the_doors(doors: Box, claude: anthropic.Anthropic, gpt: openai.OpenAI) -> None:
    with pytest.raises(anthropic.NotFoundError) as missing:
        claude.messages.create(model="nobody", max_tokens=9, messages=[turn("hi")])
    assert missing.value.body["type"] == "error"  # type: ignore[index]  # the client says object
    with pytest.raises(anthropic.BadRequestError, match="non-empty list"):
        claude.messages.create(model="auto", max_tokens=9, messages=[])
    with pytest.raises(anthropic.BadRequestError):
        claude.messages.create(model="child", max_tokens=9, messages=[turn("word " * 5000)])
    with pytest.raises(openai.NotFoundError):
        gpt.responses.create(model="nobody", input="hi")
    refused = call(doors.url, "/v1/rerank", {"model": "auto", "query": "a", "documents": ["b"]})
    assert (refused.status, refused.error["code"]) == (404, "model_not_found")
    assert call(doors.url, "/v1/messages", method="GET").json["type"] == "error"


def test_headers_that_say_how_a_body_is_meant_reach_the_engine_and_no_others(
    doors: Box, neighbour: Server
) -> None:
    said = {"anthropic-beta": "one-2026-01-01,two-2026-02-02", "cookie": "a=b", "x-secret": "no"}
    url, known = doors.url, len(neighbour.asked())
    with anthropic.Anthropic(base_url=url, api_key="a-key", default_headers=said) as one:
        version = one.default_headers["anthropic-version"]
        one.messages.create(model="neighbour", max_tokens=5, messages=[turn("hi")])
        one.messages.count_tokens(model="neighbour", messages=[turn("hi")])
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="-", default_headers={"openai-beta": "x=v1"}
    ) as gpt:
        gpt.responses.create(model="neighbour", input="hi")
    message, count, response = neighbour.asked()[known:]
    for told in (message, count):
        assert told["headers"]["anthropic-version"] == version
        assert told["headers"]["anthropic-beta"] == said["anthropic-beta"]
    assert response["headers"]["openai-beta"] == "x=v1"
    for told in (message, count, response):
        names = {"host", "connection", "content-type", "content-length"}
        betas = {"anthropic-version", "anthropic-beta", "openai-beta"}
        assert names <= told["headers"].keys() <= names | betas
        assert "headers" not in told["body"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_stops_the_work(
    path: str, doors: Box, slow: Server, *, streams: bool
) -> None:
    asked: dict[str, object] = {"model": "slow", "max_tokens": 150}
    asked |= {"messages": [turn("hi")]} if path == "/v1/messages" else {"input": "hi"}
    if streams:
        stream = Stream(doors.url, path, asked)
        next(iter(stream.data()))
    else:
        stream = http.client.HTTPConnection(doors.url.removeprefix("http://"))  # type: ignore[assignment]
        stream.request("POST", path, json.dumps(asked))  # type: ignore[attr-defined]
    until(lambda: any(slot["is_processing"] for slot in slow.slots()), "the work")
    stream.close()
    at = time.monotonic()
    until(lambda: not any(slot["is_processing"] for slot in slow.slots()), "the end of the work")
    print(f"{path} {streams}: stopped {1e3 * (time.monotonic() - at):.0f} ms after the client left")
    until(lambda: not doors.status()["devices"]["npu0"]["holders"], "the seat given back")


def test_a_whole_answer_that_takes_long_sends_its_status_and_white_space_first(doors: Box) -> None:
    asked = {"model": "slow", "max_tokens": 12, "messages": [turn("hi")]}
    began_at = time.monotonic()
    reply = call(doors.url, "/v1/messages", asked)
    took_s = time.monotonic() - began_at
    assert (reply.status, reply.headers["x-accel-buffering"]) == (200, "no")
    spaces = len(reply.raw) - len(reply.raw.lstrip())
    assert 2 <= spaces <= 2 + took_s / 0.2
    assert len(reply.json["content"]) == 1


def test_an_error_after_the_status_is_the_body(doors: Box, dying: Server) -> None:
    asked = json.dumps({"model": "dying", "max_tokens": 12, "messages": [turn("hi")]})
    told: dict[str, Any] = {}
    with ExitStack() as lines:
        waiting: dict[str, http.client.HTTPResponse] = {}
        for path in ("/v1/messages", "/v1/chat/completions"):
            line = http.client.HTTPConnection(doors.url.removeprefix("http://"), timeout=60)
            lines.callback(line.close)
            line.request("POST", path, asked)
            waiting[path] = lines.enter_context(line.getresponse())
            assert waiting[path].status == 200
        dying.process.kill()
        for path, response in waiting.items():
            told[path] = json.loads(response.read())
            assert told[path]["error"]["code"] == "engine_failed"
    assert told["/v1/messages"]["type"] == "error"


@pytest.mark.parametrize(("path", "fields"), [
    ("/v1/messages", {"messages": [turn("hi")], "max_tokens": 5}),
    ("/v1/messages/count_tokens", {"messages": [turn("hi")]}),
    ("/v1/responses", {"input": "hi"}), ("/v1/rerank", {"query": "a", "documents": ["b"]}),
])  # fmt: skip
@pytest.mark.parametrize("streams", [True, False])
def test_the_in_process_engine_says_what_it_lacks(
    path: str, fields: dict[str, object], box: Box, *, streams: bool
) -> None:
    reply = call(box.url, path, {"model": ROW, "stream": streams, **fields})
    told = reply.json
    assert (reply.status, told["error"]["code"]) == (501, "not_implemented")
    assert "llama-cpp-python" in told["error"]["message"]
    assert (told.get("type") == "error") == path.startswith("/v1/messages")


def test_the_in_process_engine_tells_a_text_in_tokens(box: Box) -> None:
    told = call(box.url, "/tokenize", {"model": ROW, "content": "Hello world", "with_pieces": True})
    assert "".join(one["piece"] for one in told.json["tokens"]) == "Hello world"
