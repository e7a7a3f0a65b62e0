"""The decision on the answer: header, body field, once a conversation, none for an explicit name."""

import json
from itertools import count

import pytest

from support.box import Box
from support.http import CHAT, ROW, Reply, Stream, call, chat

_numbers = count()


def conversation() -> dict[str, str]:
    """Return the header of a conversation that nobody had before."""
    return {"x-fairlane-conversation": f"route-{next(_numbers)}"}


def follow_up() -> dict[str, object]:
    turns = [("user", "Hi"), ("assistant", "Hello."), ("user", "More")]
    messages = [{"role": role, "content": text} for role, text in turns]
    return chat() | {"messages": messages}


def two_turns(box: Box) -> tuple[Reply, Reply]:
    same = conversation()
    return call(box.url, CHAT, chat(), same), call(box.url, CHAT, follow_up(), same)


def test_a_first_request_says_how_long_the_decision_took(box: Box) -> None:
    reply = call(box.url, CHAT, chat(), conversation())
    assert 0 <= reply.outputs["timings"]["decide_ms"] <= 100


def test_header_and_body_name_the_same_rule(box: Box) -> None:
    reply = call(box.url, CHAT, chat(), conversation())
    rule = reply.json["x_lemonade_route"]["matched_rule"]
    assert reply.headers["x-lemonade-route"] == rule


def test_the_decision_names_class_model_and_device(box: Box) -> None:
    outputs = call(box.url, CHAT, chat(), conversation()).outputs
    assert outputs["class"] in {"short", "prose", "code", "long_doc"}
    assert (outputs["model"], outputs["device"]) == (ROW, "hrx")


def test_a_long_first_message_is_a_document(box: Box) -> None:
    with box.bus() as bus:
        decided = bus.decide([{"role": "user", "content": "The river rose. " * 80}])
    assert decided["outputs"]["class"] == "long_doc"


def test_a_second_request_shows_no_new_decision(box: Box) -> None:
    _, second = two_turns(box)
    assert "decide_ms" not in second.outputs["timings"]


def test_a_second_request_repeats_header_and_decision(box: Box) -> None:
    first, second = two_turns(box)
    assert second.headers["x-lemonade-route"] == first.headers["x-lemonade-route"]
    assert second.outputs["class"] == first.outputs["class"]


def test_a_second_request_leaves_the_counter_of_decisions_alone(box: Box) -> None:
    same = conversation()
    call(box.url, CHAT, chat(), same)
    before = status_command(box)
    call(box.url, CHAT, follow_up(), same)
    assert status_command(box) == before


def test_a_new_conversation_is_counted_as_a_decision(box: Box) -> None:
    before = status_command(box)
    call(box.url, CHAT, chat(), conversation())
    assert status_command(box) == before + 1


def test_a_second_request_is_known_by_its_first_message_alone(box: Box) -> None:
    opening = {"role": "user", "content": f"Hi {next(_numbers)} route"}
    call(box.url, CHAT, chat() | {"messages": [opening]})
    messages = [opening, {"role": "assistant", "content": "Ho"}, {"role": "user", "content": "?"}]
    second = call(box.url, CHAT, chat() | {"messages": messages})
    assert "decide_ms" not in second.outputs["timings"]


def test_the_first_event_of_a_stream_carries_the_decision_and_no_other(box: Box) -> None:
    with Stream(box.url, CHAT, chat(max_tokens=4), conversation()) as stream:
        events = [json.loads(data) for data in stream.data() if data != "[DONE]"]
    assert ["x_lemonade_route" in event for event in events] == [True] + [False] * (len(events) - 1)


def test_a_stream_has_the_header_of_a_whole_answer(box: Box) -> None:
    same = conversation()
    whole = call(box.url, CHAT, chat(), same)
    with Stream(box.url, CHAT, chat(), same) as stream:
        assert stream.headers["x-lemonade-route"] == whole.headers["x-lemonade-route"]


def test_a_stream_ends_with_done(box: Box) -> None:
    with Stream(box.url, CHAT, chat()) as stream:
        assert list(stream.data())[-1] == "[DONE]"


@pytest.mark.parametrize("path", [CHAT, "/api/v1/chat/completions"])
def test_an_explicit_name_takes_no_header_and_no_field(box: Box, path: str) -> None:
    reply = call(box.url, path, chat(model=ROW), conversation())
    assert reply.status == 200
    assert "x-lemonade-route" not in reply.headers
    assert "x_lemonade_route" not in reply.json


def test_a_stream_of_an_explicit_name_takes_no_header_and_no_field(box: Box) -> None:
    with Stream(box.url, CHAT, chat(model=ROW), conversation()) as stream:
        assert "x-lemonade-route" not in stream.headers
        assert not [data for data in stream.data() if "x_lemonade_route" in data]


def test_an_explicit_name_asks_no_scorer(box: Box) -> None:
    before = box.count("decisions")
    call(box.url, CHAT, chat(model=ROW), conversation())
    assert box.count("decisions") == before


@pytest.mark.parametrize("name", ["auto", "user.Laya-First"])
def test_the_alias_and_the_collection_are_both_decided(box: Box, name: str) -> None:
    reply = call(box.url, CHAT, chat(model=name), conversation())
    assert "decide_ms" in reply.outputs["timings"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_name_is_404_with_no_route(box: Box, *, stream: bool) -> None:
    reply = call(box.url, CHAT, chat(model="nobody", stream=stream))
    assert (reply.status, reply.error["requested_model"]) == (404, "nobody")
    assert "x-lemonade-route" not in reply.headers


def test_the_time_to_the_first_token_is_told(box: Box) -> None:
    timings = call(box.url, CHAT, chat(), conversation()).outputs["timings"]
    assert timings["ttft_ms"] > 0
    assert timings["queue_ms"] >= 0


def status_command(box: Box) -> int:
    """Return the decisions counted by `fairlane status --json`."""
    shown = box.cli("status", "--json")
    decisions: int = json.loads(shown.stdout)["counts"].get("decisions", 0)
    return decisions
