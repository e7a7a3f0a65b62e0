"""What is read out of requests that are not chat: messages, responses, and what asks a row by its name."""

import json

import pytest

from scheduler import asking
from scheduler.asking import Asking, BadRequest, Endpoint

HI = {"role": "user", "content": "Hi"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "abcd"}]}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}


def read(endpoint: Endpoint, **body: object) -> Asking:
    return asking.read(json.dumps({"model": "M", **body}).encode(), endpoint, {})


def messages(*said: object, **more: object) -> Asking:
    return read("messages", messages=list(said), max_tokens=9, **more)


def responses(given: object, **more: object) -> Asking:
    return read("responses", input=given, **more)


def user(*parts: object) -> dict[str, object]:
    return {"role": "user", "content": list(parts)}


def test_a_message_with_system_and_tools() -> None:
    got = messages(HI, system="Be brief", tools=[{"name": "t", "input_schema": {}}], stream=True)
    assert (got.starts, got.stream, got.tools, got.max_tokens) == (True, True, True, 9)
    assert got.prompt_bytes == len("Be briefHi")


def test_a_tools_result_counts_and_its_picture_is_seen() -> None:
    call = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}],
    }
    got = messages(HI, call, user(RESULT))
    assert (got.starts, got.prompt_bytes, got.images) == (False, 6, False)
    assert messages(user({**RESULT, "content": [PICTURE]})).images
    assert messages(user(PICTURE)).images


def test_the_key_leaves_out_what_agents_change_on_every_turn() -> None:
    bill = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1"}
    system = {"type": "text", "text": "Be brief"}
    cached = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    first = messages(
        user(cached), system=[bill, {**system, "cache_control": {"type": "ephemeral"}}]
    )
    later = messages(
        HI, {"role": "assistant", "content": "Yes"}, user(cached),
        system=[{**bill, "text": bill["text"] + "7"}, system],
    )  # fmt: skip
    assert first.conversation == later.conversation
    assert first.conversation != messages(HI, system="Be long").conversation


def test_counting_asks_for_the_same_conversation_and_is_no_stream() -> None:
    got = read("count_tokens", messages=[HI], system="Be brief", stream=True)
    assert not got.stream
    assert got.conversation == messages(HI, system="Be brief").conversation


@pytest.mark.parametrize("given", ["Hi", [HI], [{"type": "message", **HI}]])
def test_a_response_is_asked_with_a_text_or_items(given: object) -> None:
    got = responses(
        given, instructions="Be brief", max_output_tokens=7, tools=[{"type": "function"}]
    )
    assert (got.starts, got.prompt_bytes, got.max_tokens, got.tools) == (True, 10, 7, True)


def test_items_of_the_model_or_an_earlier_response_mean_that_it_goes_on() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "abcd"}
    assert responses([HI, call, result]).prompt_bytes == 2 + 2 + 4
    assert not responses([HI, call, result]).starts
    assert responses([HI, call, result]).conversation == responses([HI]).conversation
    assert not responses("Hi", previous_response_id="resp_1").starts


def test_a_response_names_its_conversation_format_and_pictures() -> None:
    got = responses([user({"type": "input_image", "image_url": "data:x"})], prompt_cache_key="k",
                    text={"format": {"type": "json_schema", "name": "n", "schema": {}}})  # fmt: skip
    assert (got.conversation, got.images, got.json_schema) == ("prompt_cache_key:k", True, True)
    assert messages(HI, output_config={"format": {"type": "json_schema"}}).json_schema


def test_a_ranking_and_a_text_to_be_told_in_tokens() -> None:
    assert read("rerank", query="ab", documents=["c", {"text": "d"}]).prompt_bytes == len(
        "ab\nc\nd"
    )
    assert read("tokenize", content="abc").prompt_bytes == 3
    assert read("tokenize", prompt="abc").prompt_bytes == 3


@pytest.mark.parametrize(("endpoint", "body", "param"), [
    ("messages", {}, "messages"), ("messages", {"messages": []}, "messages"),
    ("messages", {"messages": [HI], "system": 1}, "system"),
    ("messages", {"messages": [HI], "system": [{"type": "text"}]}, "system[0].text"),
    ("count_tokens", {"messages": [1]}, "messages[0]"),
    ("responses", {}, "input"), ("responses", {"input": []}, "input"),
    ("responses", {"input": [1]}, "input[0]"), ("responses", {"input": [{}]}, "input[0]"),
    ("responses", {"input": "x", "instructions": {}}, "instructions"),
    ("responses", {"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
    ("rerank", {"query": "x"}, "documents"), ("rerank", {"documents": ["x"]}, "query"),
    ("tokenize", {}, "prompt"), ("tokenize", {"content": 1}, "content"),
])  # fmt: skip
def test_what_is_missing_or_wrong_is_named(
    endpoint: Endpoint, body: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        read(endpoint, **body)
    assert caught.value.param == param
