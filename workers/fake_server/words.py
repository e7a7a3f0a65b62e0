"""What the fake reads and says: its tokens are words, its answers are made of what was asked. Pure."""

import hashlib
import json
import re
from typing import Any, NamedTuple

from policies.shape import is_array, is_object

_TOKEN = re.compile(r"\S+")
_SAYS = ("all", "is", "well", "that", "ends", "well", "and", "so", "on")


class Call(NamedTuple):
    """A tool call."""

    name: str
    arguments: str  # JSON


class Said(NamedTuple):
    """An answer before it has a shape."""

    reasoning: list[str]
    text: list[str]  # pieces; joined they are the text
    call: Call | None
    cut: bool  # the token limit ended it


class Counted(NamedTuple):
    """What an answer took."""

    prompt: int
    cached: int
    output: int
    prompt_ms: float = 0.0
    output_ms: float = 0.0


def tokens_of(text: str) -> list[str]:
    """Return a text's tokens."""
    return _TOKEN.findall(text)


def prompt_of(body: dict[str, Any]) -> list[str]:
    """Return the tokens of what a request of any door asks to read."""
    words: list[str] = []
    for part in ("system", "instructions"):
        words += ["<system>", *tokens_of(_text(body.get(part)))] if part in body else []
    turns = body.get("messages", body.get("input", body.get("prompt", "")))
    if not is_array(turns):
        return [*words, *tokens_of(_text(turns))]
    for turn in turns:
        if is_object(turn):
            words += [f"<{turn.get('role', turn.get('type'))}>", *tokens_of(_text(turn))]
        else:
            words += tokens_of(_text(turn))
    return words


def answer_to(body: dict[str, Any], tokens: int) -> Said:
    """Return the answer to a request.

    Args:
        body: The request. With `tools` and no tool's result yet, the first tool is called; with
            `reasoning_effort` or `thinking` it thinks aloud first.
        tokens: How many it says where the request sets no lower limit.
    """
    limit = body.get("max_completion_tokens", body.get("max_tokens", body.get("max_output_tokens")))
    count = min(tokens, limit) if isinstance(limit, int) else tokens
    thinks = body.get("reasoning_effort") not in {None, "none"} or "thinking" in body
    reasoning = ["let ", "me ", "think"] if thinks else []
    tools = body.get("tools")
    if is_array(tools) and tools and not _has_result(body):
        return Said(reasoning, [], _call_of(tools[0]), cut=False)
    words = [_SAYS[n % len(_SAYS)] for n in range(count)]
    text = [word if n == 0 else f" {word}" for n, word in enumerate(words)]
    return Said(reasoning, text, None, cut=count < tokens)


def vector_of(text: str, width: int = 8) -> list[float]:
    """Return an embedding: the same for the same text, of length about 1."""
    digest = hashlib.sha256(text.encode(errors="replace")).digest()[:width]
    raw = [byte / 127.5 - 1.0 for byte in digest]
    length = sum(x * x for x in raw) ** 0.5 or 1.0
    return [round(x / length, 6) for x in raw]


def relevance(query: str, document: str) -> float:
    """Return the share of the query's words that a document has."""
    asked, has = set(tokens_of(query.lower())), set(tokens_of(document.lower()))
    return round(len(asked & has) / max(1, len(asked)), 6)


def _text(value: object) -> str:
    """Return all the text in a value, whatever shape it has."""
    if isinstance(value, str):
        return value
    if is_array(value):
        return " ".join(_text(part) for part in value)
    if is_object(value):
        keys = ("content", "text", "input", "output", "arguments", "tool_calls", "function")
        return " ".join(_text(value[key]) for key in keys if key in value)
    return "" if value is None else str(value)


def _has_result(body: dict[str, Any]) -> bool:
    text = json.dumps(body.get("messages", body.get("input", [])))
    marks = ('"role": "tool"', '"type": "tool_result"', '"type": "function_call_output"')
    return any(mark in text for mark in marks)


def _call_of(tool: object) -> Call:
    told = _object(tool)
    told = _object(told.get("function", told))
    schema = _object(told.get("parameters", told.get("input_schema")))
    required = schema.get("required")
    names = required if is_array(required) else []
    properties = _object(schema.get("properties"))
    given = {name: _value(_object(kind)) for name, kind in properties.items() if name in names}
    return Call(str(told.get("name")), json.dumps(given))


def _value(schema: dict[str, object]) -> object:
    choices = schema.get("enum")
    if is_array(choices) and choices:
        return choices[0]
    values: dict[str, object] = {
        "integer": 1,
        "number": 1.5,
        "boolean": True,
        "array": [],
        "object": {},
    }
    return values.get(str(schema.get("type")), "fake")


def _object(value: object) -> dict[str, object]:
    return value if is_object(value) else {}
