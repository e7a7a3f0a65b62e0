"""Which requests are one conversation: those are decided once, and no others."""

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from support.box import Box
from support.http import CHAT, call, chat

_numbers = count()
ID_HEADERS = [
    "x-fairlane-conversation",
    "x-claude-code-session-id",
    "x-opencode-session",
    "conversation_id",
    "session_id",
    "x-openwebui-chat-id",
    "X-OpenWebUI-Chat-Id",
]
BILLING = "x-anthropic-billing-header: cc_version=1.2; cch={}"


def fresh() -> str:
    return f"unheard {next(_numbers)}"


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def is_decided(
    box: Box, messages: list[dict[str, Any]], headers: Mapping[str, str] | None = None, **more: Any
) -> bool:
    """Ask, and return whether a scorer had to decide."""
    body = chat(**more) | {"messages": messages}
    reply = call(box.url, CHAT, body, headers)
    return "decide_ms" in reply.outputs["timings"]


def turns(
    opening: list[dict[str, Any]], *further: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages of a first turn and of a later one."""
    return opening, [*opening, *further]


@pytest.mark.parametrize("header", ID_HEADERS)
def test_an_id_of_the_client_makes_two_openings_one_conversation(
    null_box: Box, header: str
) -> None:
    same = {header: fresh()}
    assert is_decided(null_box, [user(fresh())], same)
    assert not is_decided(null_box, [user(fresh())], same)


@pytest.mark.parametrize("header", ID_HEADERS)
def test_two_ids_make_one_opening_two_conversations(null_box: Box, header: str) -> None:
    opening = [user(fresh())]
    assert is_decided(null_box, opening, {header: fresh()})
    assert is_decided(null_box, opening, {header: fresh()})


def test_a_prompt_cache_key_is_an_id(null_box: Box) -> None:
    key = fresh()
    assert is_decided(null_box, [user(fresh())], prompt_cache_key=key)
    assert not is_decided(null_box, [user(fresh())], prompt_cache_key=key)


def test_our_own_header_wins_over_an_agents(null_box: Box) -> None:
    agents = {"session_id": fresh()}
    assert is_decided(null_box, [user("Hi")], agents | {"x-fairlane-conversation": fresh()})
    assert is_decided(null_box, [user("Hi")], agents | {"x-fairlane-conversation": fresh()})


@pytest.mark.parametrize("header", ["x-fairlane-conversation", "session_id"])
def test_a_lane_never_meets_anothers_conversation(null_box: Box, header: str) -> None:
    same, messages = {header: fresh()}, [user(fresh())]
    assert is_decided(null_box, messages, same | {"x-fairlane-lane": "one"})
    assert is_decided(null_box, messages, same | {"x-fairlane-lane": "two"})


def test_a_lane_never_meets_anothers_conversation_by_its_opening(null_box: Box) -> None:
    messages = [user(fresh())]
    assert is_decided(null_box, messages, {"x-fairlane-lane": "one"})
    assert is_decided(null_box, messages, {"x-fairlane-lane": "two"})


def test_lane_and_id_cannot_be_shifted_into_each_other(null_box: Box) -> None:
    mark = fresh()
    one = {"x-fairlane-lane": "a", "x-fairlane-conversation": f"b {mark}"}
    two = {"x-fairlane-lane": "a b", "x-fairlane-conversation": mark}
    assert is_decided(null_box, [user("Hi")], one)
    assert is_decided(null_box, [user("Hi")], two)


def test_the_alias_and_the_collection_are_two_conversations(null_box: Box) -> None:
    same = {"x-fairlane-conversation": fresh()}
    assert is_decided(null_box, [user("Hi")], same, model="auto")
    assert is_decided(null_box, [user("Hi")], same, model="user.Laya-First")


@pytest.mark.parametrize(
    "blocks",
    [
        lambda n: [{"role": "system", "content": BILLING.format(n)}],
        lambda n: [{"role": "system", "content": [{"type": "text", "text": BILLING.format(n)}]}],
        lambda n: [
            {"role": "system", "content": BILLING.format(n)},
            {"role": "system", "content": "You are an agent."},
        ],
    ],
)
def test_a_system_block_that_always_changes_is_no_part_of_it(null_box: Box, blocks: Any) -> None:
    opening = user(fresh())
    assert is_decided(null_box, [*blocks(1), opening])
    assert not is_decided(null_box, [*blocks(2), opening])


def test_another_system_prompt_is_another_conversation(null_box: Box) -> None:
    opening = user(fresh())
    assert is_decided(null_box, [{"role": "system", "content": "You are A."}, opening])
    assert is_decided(null_box, [{"role": "system", "content": "You are B."}, opening])


def test_a_later_turn_with_tool_calls_stays_in_its_conversation(null_box: Box) -> None:
    function = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    first, second = turns(
        [user(fresh())],
        {"role": "assistant", "content": None, "tool_calls": [function]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
    )
    assert is_decided(null_box, first)
    assert not is_decided(null_box, second)


def test_a_later_turn_with_text_parts_stays_in_its_conversation(null_box: Box) -> None:
    parts = [{"type": "text", "text": fresh()}, {"type": "text", "text": "and more"}]
    first, second = turns([user(parts)], {"role": "assistant", "content": "Yes"}, user(parts))
    assert is_decided(null_box, first)
    assert not is_decided(null_box, second)


def test_a_later_turn_of_a_conversation_nobody_knows_is_decided(null_box: Box) -> None:
    _, second = turns([user(fresh())], {"role": "assistant", "content": "Yes"}, user("More"))
    assert is_decided(null_box, second)


def test_requests_of_one_conversation_at_once_are_decided_once(box: Box) -> None:
    from concurrent.futures import ThreadPoolExecutor

    before = box.count("decisions")
    same, body = {"x-fairlane-conversation": fresh()}, chat()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: call(box.url, CHAT, body, same), range(4)))
    assert box.count("decisions") == before + 1


@pytest.mark.parametrize("value", ["x" * 5000, " ", "a b", "\xe4\xf6"])
def test_an_odd_id_is_an_id(null_box: Box, value: str) -> None:
    same = {"x-fairlane-conversation": value}
    is_decided(null_box, [user(fresh())], same)
    reply = call(null_box.url, CHAT, chat(fresh()), same)
    assert reply.status == 200
