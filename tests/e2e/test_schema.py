"""A JSON schema is a program of the client's: it shapes the answer or is refused, and harms nobody."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.box import Box
from support.http import CHAT, ROW, Reply, call, chat
from support.wait import until

SERVED_S = 5.0  # a schema is served or refused within this

HOSTILE: dict[str, Any] = {
    "no schema type": {"type": "banana"},
    "a string": "x",
    "properties of a list": {"type": "object", "properties": ["x"]},
    "a reference to nothing": {"$ref": "#/definitions/none"},
    "a reference to itself": {"$ref": "#"},
    "a reference to a web page": {"$ref": "https://example.com/schema.json"},
    "an open bracket": {"type": "string", "pattern": "^[a$"},
    "open parentheses": {"type": "string", "pattern": "^(((($"},
    "a long repetition": {"type": "string", "pattern": "^a{0,2001}$"},
    "nested repetitions": {"type": "string", "pattern": "^((a{0,999}){0,999}){0,999}$"},
    "a long string": {"type": "string", "maxLength": 100_000},
    "a long list": {"type": "array", "items": {"type": "integer"}, "maxItems": 5000},
    "a least length": {"type": "array", "items": {"type": "integer"}, "minItems": 200_000},
    "an empty choice": {"enum": []},
    "a wide choice": {"enum": [str(number) for number in range(50_000)]},
    "a NUL": {"const": "a\0b"},
    "a negative length": {"type": "string", "minLength": -5, "maxLength": -9},
    "a length of text": {"type": "string", "maxLength": "9"},
    "numbers past 64 bits": {"type": "integer", "minimum": -(10**30), "maximum": 10**30},
}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def ask(box: Box, schema: object, tokens: int = 8) -> Reply:
    named = {"name": "answer", "schema": schema}
    shape = {"type": "json_schema", "json_schema": named}
    body = chat(model=ROW, max_tokens=tokens, response_format=shape)
    return call(box.url, CHAT, body, timeout_s=SERVED_S)


@pytest.fixture
def well_box(rough_box: Box) -> Iterator[Box]:
    """A box that works, whatever the last schema did to it."""
    yield rough_box
    with rough_box.bus() as bus:
        try:
            until(lambda: not bus.status()["devices"]["hrx0"]["holders"], "free", within_s=1)
        except AssertionError:
            rough_box.kill("hrx")
        until(lambda: bus.status()["ready"], "a ready box", within_s=20)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_schema_is_served_or_refused_and_kills_nobody(well_box: Box, what: str) -> None:
    pids = well_box.pids()
    reply = ask(well_box, HOSTILE[what])
    assert reply.status in {200, 400}
    assert reply.status == 200 or reply.error["param"] == "response_format"
    assert well_box.pids() == pids


@pytest.mark.parametrize("depth", [100, 5000])
def test_a_deep_schema_is_served_or_refused(well_box: Box, depth: int) -> None:
    text = json.dumps(nested(100)) if depth == 100 else '{"items":' * depth + "{}" + "}" * depth
    body = json.dumps(chat(model=ROW))[:-1] + (
        f',"response_format":{{"type":"json_schema","json_schema":{{"schema":{text}}}}}}}'
    )
    assert call(well_box.url, CHAT, body.encode(), timeout_s=SERVED_S).status in {200, 400}
    assert ask(well_box, {"type": "boolean"}).status == 200


def test_an_answer_keeps_to_its_schema(box: Box) -> None:
    schema = {
        "type": "object",
        "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["age"],
        "additionalProperties": False,
    }
    text = ask(box, schema, tokens=40).json["choices"][0]["message"]["content"]
    assert list(json.loads(text)) == ["age"]


@pytest.mark.parametrize("kind", ["nonsense", 7, None])
def test_an_unknown_response_format_is_refused_by_name(box: Box, kind: object) -> None:
    reply = call(box.url, CHAT, chat(model=ROW, response_format={"type": kind}))
    assert reply.status == 400
    assert "response_format" in str(reply.error["param"])
