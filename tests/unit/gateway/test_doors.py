"""The shapes of each door's errors and events."""

import json
from typing import Any

import pytest

from scheduler.gateway import doors
from scheduler.wire.messages import Refused


def data_of(event: bytes) -> Any:
    return json.loads(event.partition(b"data: ")[2])


@pytest.mark.parametrize(("path", "op"), [
    ("/v1/messages", "messages"), ("/api/v1/messages/count_tokens", "count_tokens"),
    ("/v1/responses", "responses"), ("/tokenize", "tokenize"), ("/v1/tokenize", "tokenize"),
    ("/v1/rerank", "rerank"), ("/v1/nothing", "chat"),
])  # fmt: skip
def test_a_path_leads_to_its_door(path: str, op: str) -> None:
    assert doors.at(path).op == op


@pytest.mark.parametrize(("status", "kind"), [
    (400, "invalid_request_error"), (404, "not_found_error"), (413, "request_too_large"),
    (429, "rate_limit_error"), (501, "api_error"), (503, "overloaded_error"),
])  # fmt: skip
def test_anthropics_door_words_errors_as_anthropic_does(status: int, kind: str) -> None:
    told = json.loads(doors.at("/v1/messages").failure(status, "m", "c", "p"))
    assert told == {
        "type": "error",
        "error": {"type": kind, "message": "m", "code": "c", "param": "p"},
    }


def test_other_doors_word_them_as_openai_does() -> None:
    told = json.loads(doors.at("/v1/responses").failure(413, "too long", "body_too_large"))
    assert told["error"]["code"] == "body_too_large"
    assert "type" not in told


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
def test_an_error_inside_a_stream_is_an_event_of_that_name(path: str) -> None:
    event = doors.at(path).broken(Refused("r", 502, "engine_failed", "it broke"))
    assert event.startswith(b"event: error\ndata: ")
    assert data_of(event)["type"] == "error"
    assert data_of(event)["error"]["message"] == "it broke"


def test_chats_events_have_no_name_and_an_end() -> None:
    door = doors.at("/v1/chat/completions")
    assert (door.event(b'{"a":1}'), door.ending) == (b'data: {"a":1}\n\n', b"data: [DONE]\n\n")
    assert (
        doors.at("/v1/messages").event(b'{"type":"ping"}')
        == b'event: ping\ndata: {"type":"ping"}\n\n'
    )


@pytest.mark.parametrize("odd", [b"{}", b'{"type":5}', b'{"type":"a\\nb"}', b'{"type":"\\ud800"}'])
def test_an_event_without_a_usable_type_has_no_name(odd: bytes) -> None:
    assert doors.at("/v1/messages").event(odd) == b"data: " + odd + b"\n\n"


def test_a_pulls_events_are_lemonades() -> None:
    door = doors.PullDoor("chat", "pull", model="M")
    assert door.ending.startswith(b"event: complete\ndata: ")
    assert data_of(door.ending) == {"file": "M", "file_index": 1, "total_files": 1, "percent": 100}
    event = door.broken(Refused("r", 503, "model_not_usable", "it is gone"))
    assert event.startswith(b"event: error\ndata: ")
    assert data_of(event) == {"error": "it is gone", "code": "model_not_usable", "status": 503}
