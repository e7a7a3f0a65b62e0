"""What an engine says reaches the client as it said it, chunk by chunk, but for the name of the model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.engines import HI, Answered, Bench, bench, url_row
from support.servers import Server, server
from workers.job import End, Error

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
FLAT_TOOL = {"name": "weather", "type": "function", **TOOL["function"]}  # type: ignore[dict-item]
ASKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plain": ("chat", "/v1/chat/completions", {}),
    "tool_calls": ("chat", "/v1/chat/completions", {"tools": [TOOL]}),
    "reasoning": ("chat", "/v1/chat/completions", {"reasoning_effort": "high"}),
    "logprobs": ("chat", "/v1/chat/completions", {"logprobs": True}),
    "usage": ("chat", "/v1/chat/completions", {"stream_options": {"include_usage": True}}),
    "completion": ("completion", "/v1/completions", {"prompt": "hi"}),
    "responses": ("responses", "/v1/responses", {"input": "hi"}),
    "responses tools": ("responses", "/v1/responses", {"input": "hi", "tools": [FLAT_TOOL]}),
    "messages": ("messages", "/v1/messages", {"thinking": {"type": "enabled"}}),
    "messages tools": ("messages", "/v1/messages", {"tools": [FLAT_TOOL]}),
}


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("fake"), "well", "--alias", "its-own", "--slots", 8) as one:
        yield one


@pytest.fixture(scope="module")
def engines(fake: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench(tmp_path_factory.mktemp("run"), url_row("m", fake.url)) as one:
        yield one


def said_directly(fake: Server, path: str, body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return name and data of each event that the server says by itself."""
    raw = httpx.post(f"{fake.url}{path}", json={"messages": HI, **body}, timeout=60).content
    events = []
    for block in raw.split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if line)
        if fields and fields[b"data"] != b"[DONE]":
            events.append((fields.get(b"event", b"").decode(), fields[b"data"]))
    return events


@pytest.mark.parametrize("asked", ASKED)
def test_every_chunk_is_relayed_with_its_own_bytes(
    asked: str, fake: Server, engines: Bench
) -> None:
    op, path, more = ASKED[asked]
    body = {**more, "stream": True, "cache_prompt": False}
    answered = engines.run(op=op, **body)
    assert isinstance(answered.end, End)
    expected = [
        (name, data.replace(b'"model": "its-own"', b'"model": "m"'))
        for name, data in said_directly(fake, path, body)
    ]
    relayed = [(piece.event, piece.body) for piece in answered.pieces]
    assert [without_times(one) for one in relayed] == [without_times(one) for one in expected]
    assert any(b'"model": "m"' in data for _, data in relayed)
    assert all(b"its-own" not in data for _, data in relayed)


def without_times(event: tuple[str, bytes]) -> tuple[str, bytes]:
    """Return an event without the one thing that no two answers have alike: how long it took."""
    name, data = event
    head, mark, rest = data.partition(b'"prompt_ms": ')
    return name, head + mark + rest.partition(b",")[2]


@pytest.mark.parametrize("asked", ASKED)
def test_a_whole_reply_is_relayed_with_its_own_bytes(
    asked: str, fake: Server, engines: Bench
) -> None:
    op, path, more = ASKED[asked]
    body = {**more, "cache_prompt": False}
    end = engines.run(op=op, stream=False, **body).end
    assert isinstance(end, End)
    direct = httpx.post(f"{fake.url}{path}", json={"messages": HI, **body}, timeout=60).content
    expected = direct.replace(b'"model": "its-own"', b'"model": "m"')
    assert without_times(("", end.body)) == without_times(("", expected))


def test_tokens_and_times_are_counted(engines: Bench) -> None:
    first = [{"role": "user", "content": "word " * 50}]
    for stream in (True, False):
        engines.run(messages=first, stream=stream)
        end = engines.run(messages=[*first, *HI], stream=stream).end
        assert isinstance(end, End)
        assert (end.prompt_tokens, end.cached_tokens, end.output_tokens) == (54, 51, 9)
        assert (end.ttft_s is not None) is stream
        assert end.load_s is None


def test_the_engine_gets_the_clients_bytes_but_for_the_model_and_what_is_ours(
    fake: Server, engines: Bench
) -> None:
    engines.run(route_trace=True, x_fairlane_note="n", temperature=0.10, user="ü")
    sent = fake.asked()[-1]["body"]
    assert sent == json.dumps(
        {"model": "m", "messages": HI, "stream": True, "temperature": 0.10, "user": "ü"}
    ).replace(', "', ',"').replace(',"content"', ', "content"')


@pytest.mark.parametrize(
    ("op", "body", "field"),
    [
        ("embed", {"input": ["a", "b"]}, "data"),
        ("rerank", {"query": "a", "documents": ["a"]}, "results"),
        ("tokenize", {"content": "a b"}, "tokens"),
        ("count_tokens", {}, "input_tokens"),
    ],
)
def test_what_is_no_answer_of_tokens_is_relayed_whole(
    op: str, body: dict[str, Any], field: str, engines: Bench
) -> None:
    end = engines.run(op=op, stream=False, **body).end
    assert isinstance(end, End)
    assert json.loads(end.body)[field]


def play(folder: Path, name: str, *more: object, stream: bool = True) -> Answered:
    """Return what comes of a job at a neighbour that misbehaves."""
    with (
        server(folder, name, "--alias", "its-own", *more) as fake,
        bench(folder / "run", url_row("m", fake.url)) as engines,
    ):
        return engines.run(stream=stream)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        ("error-500", (500, "server_error"), "out of memory"),
        ("error-400", (400, "context_length_exceeded"), "exceeds the context"),
        ("error-busy", (503, "unavailable_error"), "no slot is free"),
        ("no-model", (503, "model_not_usable"), "model 'm' not found"),
        ("error-detail", (422, "invalid_request"), '"top_k"],"msg":"must be an integer"'),
        ("error-html", (502, "engine_failed"), "answered 502"),
        ("wrong-type", (502, "engine_failed"), "text/html"),
        ("no-http", (502, "engine_failed"), "failed"),
        ("dies-early", (502, "engine_failed"), "closed the connection"),
    ],
)
def test_a_refusal_is_passed_on_and_nonsense_is_one_error(
    name: str, said: tuple[int, str], words: str, stream: bool, tmp_path: Path
) -> None:
    answered = play(tmp_path, name, stream=stream)
    error = answered.end
    assert isinstance(error, Error)
    assert (error.status, error.code) == said
    assert words in error.message
    assert answered.pieces == []
    if name == "error-400":
        assert (error.facts["n_prompt_tokens"], error.facts["n_ctx"]) == (9000, 4096)


@pytest.mark.parametrize(
    ("name", "words", "pieces"),
    [
        ("cuts", "", 2),
        ("dies", "", 2),
        ("no-done", "ended before the answer", 10),
        ("garbage", "no JSON", 1),
        ("huge-line", "too long", 2),
        ("endless-line", "too long", 2),
        ("error-stream", "out of memory", 2),
    ],
)
def test_what_breaks_in_a_stream_is_one_error_after_what_came(
    name: str, words: str, pieces: int, tmp_path: Path
) -> None:
    answered = play(tmp_path, name)
    error = answered.end
    assert isinstance(error, Error)
    assert error.status in {500, 502}
    assert words in error.message
    assert len(answered.pieces) == pieces


def test_the_last_event_needs_no_line_end(tmp_path: Path) -> None:
    answered = play(tmp_path, "no-line-end")
    assert isinstance(answered.end, End)
    assert answered.text.endswith("so on")


def test_a_last_line_that_is_cut_off_is_left_out_where_the_answer_was_complete(
    tmp_path: Path,
) -> None:
    answered = play(tmp_path, "no-last-line")  # all there is of it is `data: [DO`
    assert isinstance(answered.end, End)
    assert answered.text.endswith("so on")


@pytest.mark.parametrize("op", ["chat", "embed", "messages"])
def test_a_model_that_a_neighbour_has_not_got_is_no_missing_door(op: str, tmp_path: Path) -> None:
    with (
        server(tmp_path, "no-model") as fake,
        bench(tmp_path / "run", url_row("m", fake.url)) as engines,
    ):
        error = engines.run(op=op, stream=False).end
    assert isinstance(error, Error)
    assert (error.status, error.code, error.facts["cause"]) == (
        503,
        "model_not_usable",
        "load_failed",
    )
    assert "model 'm' not found" in error.message


def test_a_reply_that_is_too_long_is_not_kept(tmp_path: Path) -> None:
    error = play(tmp_path, "huge-reply", stream=False).end
    assert isinstance(error, Error)
    assert "longer than 16777216 bytes" in error.message


def test_a_reply_that_says_it_is_json_and_is_not_is_an_error(tmp_path: Path) -> None:
    error = play(tmp_path, "not-json", stream=False).end
    assert isinstance(error, Error)
    assert "no JSON" in error.message
