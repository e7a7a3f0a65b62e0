"""The shipped fake server: what it says when it plays well, asked by the `openai` client where that can."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.servers import Server, server
from workers.fake_server.plays import AT_ANSWER, AT_START, PLAYS

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
HI: Any = [{"role": "user", "content": "hi there"}]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("fake"), "well", "--slots", 2) as one:
        yield one


@pytest.fixture(scope="module")
def client(fake: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{fake.url}/v1", api_key="-", max_retries=0) as one:
        yield one


def post(fake: Server, path: str, body: object) -> Any:
    """Return a reply's JSON."""
    return httpx.post(f"{fake.url}{path}", json=body, timeout=60).json()


def test_a_chat_is_answered_whole_and_streamed_alike(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=HI, max_tokens=4)
    chunks = client.chat.completions.create(model="m", messages=HI, max_tokens=4, stream=True)
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content == "all is well that"
    assert whole.choices[0].finish_reason == "length"


def test_a_tool_is_called_with_what_its_schema_requires(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
    whole = client.chat.completions.create(model="m", messages=HI, tools=[tool])
    call: Any = (whole.choices[0].message.tool_calls or [])[0]
    assert json.loads(call.function.arguments) == {"city": "fake", "days": 1}
    assert whole.choices[0].finish_reason == "tool_calls"


def test_a_prompt_that_a_slot_holds_is_counted_as_cached(client: openai.OpenAI) -> None:
    first: Any = [{"role": "user", "content": "one two three " * 100}]
    reply = client.chat.completions.create(model="m", messages=first).choices[0].message
    turns = [*first, {"role": "assistant", "content": reply.content}, *HI]
    usage = client.chat.completions.create(model="m", messages=turns).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert (
        usage.prompt_tokens_details.cached_tokens == 301 + 1 + 9
    )  # the turn, whose turn, the answer
    assert usage.prompt_tokens == 301 + 10 + 3


def test_responses_are_streamed_as_the_client_reads_them(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="hi there") as stream:
        final = stream.get_final_response()
    assert final.output_text == "all is well that ends well and so on"
    assert final.usage is not None
    assert final.usage.output_tokens == 9


def test_a_message_is_answered_in_anthropics_shape(fake: Server) -> None:
    tool = {"name": "weather", "input_schema": WEATHER}
    reply = post(fake, "/v1/messages", {"messages": HI, "max_tokens": 9, "tools": [tool]})
    assert reply["content"][0]["input"] == {"city": "fake", "days": 1}
    assert reply["stop_reason"] == "tool_use"
    assert post(fake, "/v1/messages/count_tokens", {"messages": HI}) == {"input_tokens": 3}


def test_texts_are_embedded_ranked_and_cut_into_tokens(fake: Server) -> None:
    first, second = post(fake, "/v1/embeddings", {"input": ["a", "b"]})["data"]
    assert first["embedding"] != second["embedding"]
    ranks = post(fake, "/v1/rerank", {"query": "a b", "documents": ["c", "b a"]})["results"]
    assert [rank["index"] for rank in ranks] == [1, 0]
    assert len(post(fake, "/tokenize", {"content": "one two three"})["tokens"]) == 3


def test_a_prompt_that_does_not_fit_is_refused(fake: Server) -> None:
    reply = httpx.post(f"{fake.url}/v1/completions", json={"prompt": "x " * 5000})
    assert reply.status_code == 400
    assert reply.json()["error"]["n_prompt_tokens"] == 5000


def test_every_play_is_in_its_help_and_only_there_once() -> None:
    assert len(PLAYS) == 1 + len(AT_START) + len(AT_ANSWER)


@pytest.mark.parametrize("play", ["error-500", "wrong-type", "no-http", "cuts", "dies-early"])
def test_a_play_begins_after_the_requests_that_are_answered_rightly(
    play: str, tmp_path: Path
) -> None:
    body = {"messages": HI, "stream": True}
    said: list[str] = []
    with server(tmp_path, play, "--after", 1) as fake:
        for _ in range(2):
            try:
                reply = httpx.post(f"{fake.url}/v1/chat/completions", json=body, timeout=60)
                said.append(f"{reply.status_code} {reply.headers['content-type']}")
            except httpx.TransportError as error:
                said.append(type(error).__name__)
    assert said[0] == "200 text/event-stream"
    assert said[1:] != ["200 text/event-stream"]
