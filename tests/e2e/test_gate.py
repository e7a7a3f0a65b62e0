"""What counts as a document, at the edge: 1,024 bytes of the first user message's text, and nothing else."""

from itertools import count
from typing import Any

import pytest

from support.box import Box
from support.http import CHAT, call, chat

GATE = 1024
SHORT = "What is the capital of Norway?"
_numbers = count()


def user(content: object) -> dict[str, Any]:
    return {"role": "user", "content": content}


def parts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


SYSTEM = {"role": "system", "content": "You are an agent. " * 200}

BELOW: dict[str, list[dict[str, Any]]] = {
    "1,023 bytes": [user("a" * (GATE - 1))],
    "1,023 bytes of two a letter": [user("é" * 511 + "a")],
    "1,023 bytes of four a letter": [user("\N{GRINNING FACE}" * 255 + "abc")],
    "nothing": [user("")],
    "a long system prompt": [SYSTEM, user(SHORT)],
    "a long system prompt in parts": [
        {"role": "system", "content": parts("a" * 2000)},
        user(SHORT),
    ],
    "a long second turn": [
        user(SHORT),
        {"role": "assistant", "content": "Oslo"},
        user("a" * 2000),
    ],
    "parts of 1,022 bytes and a line end": [user(parts("a" * 511, "b" * 511))],
    "no part": [user([])],
}
FROM: dict[str, list[dict[str, Any]]] = {
    "1,024 bytes": [user("a" * GATE)],
    "512 letters of two bytes": [user("é" * 512)],
    "a letter of two bytes across the edge": [user("a" * (GATE - 1) + "é")],
    "a letter of four bytes across the edge": [user("a" * (GATE - 2) + "\N{GRINNING FACE}")],
    "parts of 1,023 bytes and a line end": [user(parts("a" * 511, "b" * 512))],
    "after a system prompt": [SYSTEM, user("a" * GATE)],
}


def outputs(box: Box, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a decision says of a conversation that nobody had before."""
    own = {"x-fairlane-conversation": f"gate {next(_numbers)}"}
    reply = call(box.url, CHAT, chat() | {"messages": messages}, own)
    assert reply.status == 200, reply.raw
    return reply.outputs


@pytest.mark.parametrize("messages", BELOW.values(), ids=BELOW.keys())
def test_below_the_gate_it_is_no_document(null_box: Box, messages: list[dict[str, Any]]) -> None:
    said = outputs(null_box, messages)
    assert said["class"] in {"code", "prose", "short"}
    assert said["confidence"] < 1.0


@pytest.mark.parametrize("messages", FROM.values(), ids=FROM.keys())
def test_from_the_gate_on_it_is_one_for_certain(
    null_box: Box, messages: list[dict[str, Any]]
) -> None:
    said = outputs(null_box, messages)
    assert (said["class"], said["confidence"]) == ("long_doc", 1.0)


@pytest.mark.parametrize(("length", "class_"), [(GATE - 1, "prose"), (GATE, "long_doc")])
def test_a_prompt_is_measured_as_a_message_is(null_box: Box, length: int, class_: str) -> None:
    text = ("Explain how vaccines train the immune system. " * 30)[:length]
    body = {"model": "auto", "prompt": text, "max_tokens": 1}
    assert call(null_box.url, "/v1/completions", body).outputs["class"] == class_
