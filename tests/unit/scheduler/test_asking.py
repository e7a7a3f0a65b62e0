"""What is read out of a request, and every way in which one can be malformed."""

import hashlib
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import asking, turns
from scheduler.asking import CONVERSATION_HEADERS, Asking, BadRequest, Endpoint
from scheduler.wire.codec import BODY_MAX, decode, encode

USER = {"role": "user", "content": "Hi"}


def body(**fields: object) -> bytes:
    """Return a chat request; a field of `...` is left out."""
    request = {"model": "M", "messages": [USER]} | fields
    return json.dumps({k: v for k, v in request.items() if v is not ...}).encode()


def read(raw: bytes, endpoint: Endpoint = "chat", headers: dict[str, str] | None = None) -> Asking:
    return asking.read(raw, endpoint, headers or {})


def talk(
    *messages: tuple[str, object], headers: dict[str, str] | None = None, **more: object
) -> Asking:
    """Read a conversation of (role, content)."""
    said = [{"role": role, "content": content} for role, content in messages]
    return read(body(messages=said, **more), headers=headers)


# --- what is read -----------------------------------------------------------------------------------


def test_a_plain_request() -> None:
    got = read(body())
    assert (got.name, got.starts, got.stream, got.flex, got.prompt_bytes) == (
        "M",
        True,
        False,
        False,
        2,
    )
    assert (got.max_tokens, got.tools, got.images, got.json_schema) == (None, False, False, False)


def test_an_assistant_message_means_that_the_conversation_goes_on() -> None:
    assert not talk(("user", "a"), ("assistant", "b"), ("user", "c")).starts


def test_prompt_bytes_are_utf8_bytes_of_all_text() -> None:
    assert talk(("system", "aa"), ("user", "€"), ("assistant", None)).prompt_bytes == 5


def test_text_parts_are_counted_and_images_seen() -> None:
    parts = [
        {"type": "text", "text": "abc"},
        {"type": "image_url", "image_url": {"url": "x" * 999}},
    ]
    got = talk(("user", parts))
    assert (got.prompt_bytes, got.images) == (3, True)


@pytest.mark.parametrize(("fields", "limit"), [
    ({"max_tokens": 5}, 5),
    ({"max_completion_tokens": 6}, 6),
    ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
    ({"max_tokens": None}, None),
])  # fmt: skip
def test_the_answers_limit_is_read_from_either_field(fields: dict[str, object], limit: int) -> None:
    assert read(body(**fields)).max_tokens == limit


def test_tools_are_seen_where_there_are_any() -> None:
    assert read(body(tools=[{"type": "function"}])).tools
    assert not read(body(tools=[])).tools


@pytest.mark.parametrize(("shape", "wanted"), [
    ({"type": "json_schema"}, True), ({"type": "json_object"}, True), ({"type": "text"}, False),
    ({"type": ["x"]}, False), ({"type": {}}, False), ({}, False),
])  # fmt: skip
def test_a_wanted_json_shape_is_seen(shape: dict[str, object], wanted: bool) -> None:  # a fact
    assert read(body(response_format=shape)).json_schema is wanted


@pytest.mark.parametrize(("fields", "headers", "flex"), [
    ({"service_tier": "flex"}, {}, True),
    ({"service_tier": "auto"}, {}, False),
    ({}, {"x-fairlane-priority": "batch"}, True),
    ({}, {"x-fairlane-priority": "Batch"}, True),
    ({}, {"x-fairlane-priority": "interactive"}, False),
])  # fmt: skip
def test_a_client_may_lower_its_own_priority(
    fields: dict[str, object], headers: dict[str, str], flex: bool  # a fact
) -> None:  # fmt: skip
    assert read(body(**fields), headers=headers).flex is flex


@pytest.mark.parametrize(("prompt", "length"), [("abc", 3), (["ab", "c"], 4)])
def test_a_completions_prompt_is_one_user_message(prompt: object, length: int) -> None:
    got = read(body(messages=..., prompt=prompt), "completion")
    assert (got.starts, got.prompt_bytes) == (True, length)


def test_a_decision_takes_either_shape() -> None:
    assert read(body(), "decide").prompt_bytes == 2
    assert read(body(messages=..., prompt="abc"), "decide").prompt_bytes == 3


def test_the_message_for_the_bus_can_be_sent() -> None:
    ask = read(body(stream=True)).message("r", "chat", lane="lane", batch=False, expires_at=9.0)
    assert decode(encode(ask)) == ask
    assert (ask.id, ask.lane, ask.stream, ask.batch, ask.expires_at) == (
        "r",
        "lane",
        True,
        False,
        9.0,
    )


def test_a_client_that_asked_for_flex_is_batch_whatever_its_key_says() -> None:
    flex = read(body(service_tier="flex"))
    assert flex.message("r", "chat", lane="l", batch=False, expires_at=9.0).batch


# --- the conversation -------------------------------------------------------------------------------


@pytest.mark.parametrize("header", CONVERSATION_HEADERS)
def test_a_conversation_id_of_any_known_client_is_used(header: str) -> None:
    assert read(body(), headers={header: "7"}).conversation == f"{header}:7"


def test_our_own_header_comes_first() -> None:
    headers = dict.fromkeys(CONVERSATION_HEADERS, "7")
    assert read(body(), headers=headers).conversation == "x-fairlane-conversation:7"


def test_the_prompt_cache_key_names_a_conversation_where_no_header_does() -> None:
    assert read(body(prompt_cache_key="7")).conversation == "prompt_cache_key:7"
    assert read(body(prompt_cache_key=7)).conversation == read(body()).conversation


def test_every_turn_of_a_conversation_has_its_key() -> None:
    first = talk(("system", "s"), ("user", "a"))
    later = talk(("system", "s"), ("user", "a"), ("assistant", "b"), ("user", "c"))
    assert first.conversation == later.conversation


@pytest.mark.parametrize("other", [
    (("system", "t"), ("user", "a")), (("system", "s"), ("user", "b")), (("user", "a"),),
    (("developer", "s"), ("user", "a")), (("user", "sa"),), (("user", [{"type": "text", "text": "a"}]),),
])  # fmt: skip
def test_another_beginning_is_another_conversation(other: tuple[tuple[str, object], ...]) -> None:
    assert talk(("system", "s"), ("user", "a")).conversation != talk(*other).conversation


def test_a_system_block_that_changes_on_every_request_is_no_part_of_the_key() -> None:
    def turn(stamp: str) -> Asking:
        block = {"type": "text", "text": f"x-anthropic-billing-header: {stamp}"}
        return talk(("system", [block, {"type": "text", "text": "s"}]), ("user", "a"))

    assert turn("1").conversation == turn("2").conversation
    one = talk(("system", "x-anthropic-billing-header: 1"), ("user", "a"))
    two = talk(("system", "x-anthropic-billing-header: 2"), ("user", "a"))
    assert one.conversation == two.conversation


def test_the_order_of_keys_in_a_part_does_not_matter() -> None:
    one = talk(("user", [{"type": "text", "text": "a"}]))
    two = talk(("user", [{"text": "a", "type": "text"}]))
    assert one.conversation == two.conversation


def test_the_key_holds_lane_and_name() -> None:
    keys = {asking.conversation_key(lane, name, "k") for lane in "ab" for name in "MN"}
    assert len(keys) == 4
    assert asking.conversation_key("a", "b", "k") != asking.conversation_key("ab", "", "k")


# --- the lane ---------------------------------------------------------------------------------------


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


KEYS = {digest("known"): "paid"}


@pytest.mark.parametrize(
    ("headers", "lane"),
    [
        ({"authorization": "Bearer known", "x-fairlane-lane": "other"}, "paid"),
        ({"authorization": "bearer known"}, "paid"),
        ({"authorization": "BEARER  known "}, "paid"),
        ({"x-api-key": "known"}, "paid"),
        ({"authorization": "Bearer new", "x-fairlane-lane": "mine"}, "mine"),
        ({"authorization": "Bearer new"}, f"key-{digest('new')[:8]}"),
        ({"x-api-key": "new"}, f"key-{digest('new')[:8]}"),
        ({"authorization": "Basic new", "x-api-key": "known"}, "paid"),
        ({"user-agent": "curl/8.1"}, "10.0.0.1/curl"),
        ({"user-agent": "My Agent 2"}, "10.0.0.1/My"),
        ({"x-fairlane-lane": "   "}, "default"),
        ({}, "default"),
    ],
)
def test_whose_work_it_is(headers: dict[str, str], lane: str) -> None:
    assert asking.lane_of(headers, "10.0.0.1", KEYS) == lane


def test_without_an_address_the_user_agent_says_nothing() -> None:
    assert asking.lane_of({"user-agent": "curl/8"}, "", {}) == "default"


def test_a_lanes_name_is_safe_in_a_label_and_not_longer_than_one() -> None:
    assert asking.lane_of({"x-fairlane-lane": 'a"b\r\nc\u00e9\x00d'}, "", {}) == "abcd"
    assert asking.lane_of({"x-fairlane-lane": "x" * 500}, "", {}) == "x" * 64
    assert len(asking.lane_of({"user-agent": "y" * 500}, "10.0.0.1", {})) == 64


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"", ""), (b"{", ""), (b"[]", ""), (b'"x"', ""), (b"null", ""), (b"\xff\xfe", ""),
        (b'{"model": "M", "messages": NaN}', ""), (body() + b"x", ""),
        (b'{"model":"\\ud800","messages":[]}', ""),
        (body(model=...), "model"), (body(model=""), "model"), (body(model=1), "model"),
        (body(model="x" * 257), "model"),
        (body(messages=...), "messages"), (body(messages=[]), "messages"),
        (body(messages={}), "messages"), (body(messages="x"), "messages"),
        (body(messages=["x"]), "messages[0]"), (body(messages=[USER, {}]), "messages[1].role"),
        (body(messages=[{"role": 1}]), "messages[0].role"),
        (body(messages=[{"role": "user", "content": 1}]), "messages[0].content"),
        (body(messages=[{"role": "user", "content": {}}]), "messages[0].content"),
        (body(messages=[{"role": "user", "content": ["x"]}]), "messages[0].content[0]"),
        (body(messages=[{"role": "user", "content": [{"type": 1}]}]), "messages[0].content[0]"),
        (body(messages=[{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
        (body(stream="yes"), "stream"), (body(stream=1), "stream"), (body(tools={}), "tools"),
        (body(response_format="json"), "response_format"), (body(route_trace=1), "route_trace"),
        (body(max_tokens=0), "max_tokens"), (body(max_tokens=-1), "max_tokens"),
        (body(max_tokens=1.5), "max_tokens"), (body(max_tokens=True), "max_tokens"),
        (body(max_tokens="9"), "max_tokens"), (body(max_tokens=2**31 + 1), "max_tokens"),
        (body(max_completion_tokens=[]), "max_completion_tokens"),
    ],
)  # fmt: skip
def test_a_malformed_chat_request_is_refused_naming_the_field(raw: bytes, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(raw)
    assert caught.value.param == param


@pytest.mark.parametrize("prompt", [..., None, 1, {}, [], ["a", 1], [[1, 2]]])
def test_a_malformed_prompt_is_refused(prompt: object) -> None:
    with pytest.raises(BadRequest) as caught:
        read(body(messages=..., prompt=prompt), "completion")
    assert caught.value.param == "prompt"


@pytest.mark.parametrize("depth", [*range(900, 1000, 3), 5000, 100_000])
def test_deep_nesting_is_refused_or_read(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    raw = b'{"model":"M","messages":[{"role":"user","content":[{"type":"x","x":' + deep + b"}]}]}"
    try:
        read(raw)
    except BadRequest:
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
FIELDS = st.sampled_from([
    "model", "messages", "prompt", "input", "stream", "tools", "response_format", "max_tokens",
    "service_tier", "prompt_cache_key", "max_completion_tokens", "route_trace",
])  # fmt: skip


@given(
    fields=st.dictionaries(FIELDS, JSON),
    endpoint=st.sampled_from(get_args(Endpoint)),
    part=JSON,
)
def test_any_json_is_refused_or_becomes_a_message_of_the_bus(
    fields: dict[str, object], endpoint: Endpoint, part: object
) -> None:
    shapes = ({"model": "M", "messages": [USER]} | fields, {
        "model": "M", "prompt": "x", "messages": [{"role": "user", "content": [{"type": "x", "x": part}]}],
    })  # fmt: skip
    for shape in shapes:
        try:
            got = read(json.dumps(shape).encode(), endpoint)
        except BadRequest:
            continue
        ask = got.message("r", endpoint, lane="l", batch=False, expires_at=1.0)
        assert decode(encode(ask)) == ask


@given(raw=st.binary())
def test_any_bytes_are_refused_or_read(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        read(raw)


@pytest.mark.parametrize(("given", "texts"), [("a", ["a"]), (["a", "b"], ["a", "b"])])
def test_an_embeddings_input_is_a_text_or_a_list(given: object, texts: list[str]) -> None:
    assert turns.embed_inputs({"input": given}) == texts
    assert read(body(messages=..., input=given), "embed").prompt_bytes >= len(texts)


@pytest.mark.parametrize("wrong", [None, 1, {}, [], [1], [[1, 2]]])
def test_another_input_is_refused(wrong: object) -> None:
    with pytest.raises(BadRequest) as caught:
        read(body(messages=..., input=wrong), "embed")
    assert caught.value.param == "input"


MEANT = {"anthropic-version": "2023-06-01", "anthropic-beta": "one,two"}
BETA = {**MEANT, "authorization": "Bearer k", "cookie": "a"}


def test_headers_that_say_how_a_body_is_meant_travel_in_it_and_no_others() -> None:
    raw = b'{"model": "m", "messages": []}\n'
    told = json.loads(asking.with_headers(raw, "messages", BETA))
    assert told.pop(asking.HEADERS_FIELD) == MEANT
    assert told == json.loads(raw)
    assert asking.with_headers(raw, "messages", {"cookie": "a"}) == raw
    assert asking.with_headers(raw, "chat", BETA) == raw


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "\x00", "é", "x" * 5000, " ", 7, None])
def test_a_header_that_is_no_plain_text_travels_nowhere(value: object) -> None:
    assert asking.relayed({"anthropic-beta": value}) == {}


def test_a_body_of_the_greatest_length_travels_as_it_is() -> None:
    raw = b"{" + b" " * (BODY_MAX - 2) + b"}"
    assert asking.with_headers(raw, "messages", BETA) is raw
