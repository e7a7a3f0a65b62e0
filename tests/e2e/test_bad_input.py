"""Bad input: a clear 4xx in OpenAI's shape, and the next request works."""

import http.client
import json
import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.box import Box
from support.http import CHAT, ROW, Reply, Stream, call, chat, hang_up, raw
from support.wait import at_best

COMPLETIONS = "/v1/completions"
USER = {"role": "user", "content": "Hi"}
NO_JSON = [
    b"",
    b"{",
    b"hello",
    b"\xff\xfe\x00",
    b"[]",
    b"null",
    b'"text"',
    b'{"model":"auto"} {}',
    b'{"model":"auto","messages":[{"role":"user","content":"\\ud800"}]}',
    b'{"model":"auto","messages":[{"role":"user","content":"\xff"}]}',
    b'{"model":"auto","messages":[{"role":"user","content":"Hi"}],"temperature":NaN}',
    b'{"model":"auto","messages":[{"role":"user","content":"Hi"}],"temperature":Infinity}',
    b"[" * 100_000,
    b'{"model":' * 10_000,
    b'{"model":"auto","messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
]
# what is wrong -> the field that the reply must name
WRONG_TYPES: list[tuple[dict[str, Any], str]] = [
    ({"model": 7}, "model"),
    ({"model": None}, "model"),
    ({"model": ""}, "model"),
    ({"model": "m" * 5000}, "model"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "Hi"}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": ["Hi"]}, "messages"),
    ({"messages": [USER, {"content": "Hi"}]}, "messages"),
    ({"messages": [{"role": 1, "content": "Hi"}]}, "messages"),
    ({"messages": [{"role": "user", "content": 1}]}, "messages"),
    ({"messages": [{"role": "user", "content": ["Hi"]}]}, "messages"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages"),
    ({"stream": "yes"}, "stream"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": "9"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_completion_tokens": True}, "max_completion_tokens"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": 99}, "temperature"),
    ({"top_p": -1}, "top_p"),
    ({"seed": 1.5}, "seed"),
    ({"stop": 3}, "stop"),
    ({"stop": [""]}, "stop"),
    ({"tools": "hammer"}, "tools"),
    ({"response_format": "json"}, "response_format"),
    ({"n": 2}, "n"),
    ({"n": 0}, "n"),
    ({"logprobs": True}, "logprobs"),
    ({"logit_bias": {"1": 5}}, "logit_bias"),
]
HARMLESS: dict[str, Any] = {
    "user": "me",
    "metadata": {"a": "b"},
    "store": False,
    "parallel_tool_calls": True,
    "n": 1,
    "stop": None,
    "tools": None,
    "service_tier": "auto",
    "reasoning_effort": "low",
    "x_unheard_of": {"deep": [1, 2, {"er": None}]},
}


def assert_clear(reply: Reply, param: str = "") -> None:
    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error"
    assert reply.error["message"]
    assert param in str(reply.error["param"] or "")


def assert_works(box: Box) -> None:
    assert call(box.url, CHAT, chat(model=ROW)).status == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: repr(body[:40]))
def test_a_body_that_is_no_json_object_is_refused(box: Box, path: str, body: bytes) -> None:
    assert_clear(call(box.url, path, body))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "param"), WRONG_TYPES, ids=str)
def test_a_wrong_field_is_refused_by_name(
    box: Box, fields: dict[str, Any], param: str, *, stream: bool
) -> None:
    assert_clear(call(box.url, CHAT, {"stream": stream, **chat(), **fields}), param)


@pytest.mark.parametrize("prompt", [None, 3, [], [1, 2], {}, ["a", "b"], ""])
def test_a_wrong_prompt_is_refused_by_name(box: Box, prompt: object) -> None:
    assert_clear(call(box.url, COMPLETIONS, {"model": ROW, "prompt": prompt}), "prompt")


def test_a_box_that_was_asked_nonsense_still_works(box: Box) -> None:
    for body in NO_JSON:
        call(box.url, CHAT, body)
    assert_works(box)


def test_a_refused_request_leaves_the_model_loaded(box: Box) -> None:
    assert_works(box)
    call(box.url, COMPLETIONS, {"model": ROW, "prompt": ""})
    call(box.url, CHAT, chat(model=ROW, n=2))
    loads = [record for record in box.log() if record["action"] == "model_loaded"]
    assert_works(box)
    assert [record for record in box.log() if record["action"] == "model_loaded"] == loads


def test_harmless_fields_are_ignored(box: Box) -> None:
    assert call(box.url, CHAT, chat() | HARMLESS).status == 200


@pytest.mark.parametrize("text", ["", " ", "a\0b", "\U0001f600", "\u202e", "<|im_start|>"])
def test_an_odd_text_is_answered(box: Box, text: str) -> None:
    assert call(box.url, CHAT, chat(text)).status == 200


@pytest.mark.parametrize("role", ["", "tool", "developer", "\0", "r" * 50])
def test_an_odd_role_gets_an_answer_or_a_clear_refusal(box: Box, role: str) -> None:
    reply = call(box.url, CHAT, chat(model=ROW) | {"messages": [{"role": role, "content": "Hi"}]})
    assert reply.status == 200 or (reply.status == 400 and reply.error["message"])


@pytest.mark.parametrize("length", [b"", b"transfer-encoding: chunked\r\n"])
def test_a_body_of_20_megabytes_is_refused_as_too_large(box: Box, length: bytes) -> None:
    big = b'{"model":"' + b"x" * (20 * 2**20)
    framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big) if length else big
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % CHAT.encode()
    answer = raw(
        box.url, head + (length or b"content-length: %d\r\n" % len(big)) + b"\r\n" + framed
    )
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_a_chunked_body_without_length_is_answered(box: Box) -> None:
    body = json.dumps(chat()).encode()
    half = len(body) // 2
    framed = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (body[:half], body[half:], b""))
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" % CHAT.encode()
    answer = raw(box.url, head + b"transfer-encoding: chunked\r\n\r\n" + framed)
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b'{"model":"au', b"\x16\x03\x01\x02\x00", b"\r\n\r\n"])
def test_half_a_request_and_then_nothing_does_no_harm(box: Box, sent: bytes) -> None:
    head = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\n" % CHAT.encode()
    hang_up(box.url, head + sent)
    assert_works(box)


@settings(max_examples=40, deadline=None)
@given(sent=st.binary(max_size=300))
def test_random_bytes_on_the_http_port_do_no_harm(box: Box, sent: bytes) -> None:
    hang_up(box.url, sent)
    assert call(box.url, "/v1/live").status == 200


def test_a_connection_lives_on_after_a_refusal(box: Box) -> None:
    line = http.client.HTTPConnection(urlsplit(box.url).netloc, timeout=60)
    statuses: list[int] = []
    for body in (b"{", b" " * (20 * 2**20), json.dumps(chat()).encode()):
        line.request("POST", CHAT, body, {"content-type": "application/json"})
        response = line.getresponse()
        response.read()
        statuses.append(response.status)
    line.close()
    assert statuses == [400, 413, 200]


def test_ten_thousand_messages_are_refused_as_too_long_at_once(box: Box) -> None:
    def refused_s() -> float:
        began_at = time.monotonic()
        reply = call(box.url, CHAT, chat(model=ROW) | {"messages": [USER] * 10_000})
        assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
        return time.monotonic() - began_at

    at_best(refused_s, 3.0, "seconds until ten thousand messages are refused")


@pytest.mark.parametrize("model", ["auto", ROW])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_longer_than_the_context_says_both_lengths(
    box: Box, model: str, *, stream: bool
) -> None:
    assert_works(box)
    reply = call(box.url, CHAT, chat("word " * 9000, model=model, stream=stream))
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")
    assert reply.error["n_prompt_tokens"] > reply.error["n_ctx"] == 8192


def test_a_cold_box_refuses_a_long_prompt_with_a_status_too(rough_box: Box) -> None:
    reply = call(rough_box.url, CHAT, chat("word " * 9000, stream=True))
    assert (reply.status, reply.error["code"]) == (400, "context_length_exceeded")


def test_a_request_after_a_long_prompt_works(box: Box) -> None:
    call(box.url, CHAT, chat("word " * 9000, model=ROW))
    assert_works(box)


def test_an_ability_the_model_lacks_is_named(box: Box) -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    reply = call(box.url, CHAT, chat(model=ROW, tools=[tool]))
    assert (reply.status, "tools" in reply.error["message"]) == (400, True)


def test_an_image_for_a_model_without_eyes_is_refused(box: Box) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    message = {"role": "user", "content": [{"type": "text", "text": "What?"}, picture]}
    assert_clear(call(box.url, CHAT, chat() | {"messages": [message]}))


def test_an_error_of_the_request_never_starts_a_stream(box: Box) -> None:
    with Stream(box.url, CHAT, chat(n=3)) as stream:
        assert (stream.response.status, stream.headers["content-type"]) == (400, "application/json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
fields = st.sampled_from([
    "model", "messages", "prompt", "stream", "max_tokens", "max_completion_tokens", "temperature",
    "top_p", "min_p", "top_k", "seed", "stop", "n", "tools", "tool_choice", "response_format",
    "stream_options", "logit_bias", "service_tier", "prompt_cache_key", "user", "presence_penalty",
])  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from([CHAT, COMPLETIONS]), odd=st.dictionaries(fields, values, max_size=3))
def test_no_value_of_any_field_is_a_fault_of_the_box(
    box: Box, path: str, odd: dict[str, object]
) -> None:
    plain = chat(model=ROW) | {"prompt": "Hi", "max_tokens": 1}
    assert call(box.url, path, plain | odd).status < 500
