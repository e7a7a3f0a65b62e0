"""Changing members of a JSON object without touching its other bytes. Pure.

An engine's reply goes to the client as the engine wrote it: order, spaces, number formats and unknown fields
included. Only the name of the model is another one there. So a value is found by its place in the bytes, and
those bytes alone are replaced. What comes in here has been read as JSON before, and is an object.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from policies.shape import is_object

# A string, or a bracket; nothing else can hide a bracket or a quote.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_COLON = re.compile(rb"\s*:\s*")
_SPACE = b" \t\r\n"


class Member(NamedTuple):
    """Where a member of an object stands: from the quote of its key to the end of its value."""

    key: str
    at: int
    value_at: int
    end: int


def members(raw: bytes, start: int = 0) -> list[Member]:
    """Return the members of the object that begins at `start`, in order."""
    found: list[Member] = []
    depth = 0
    key: tuple[str, int, int] | None = None
    for token in _TOKEN.finditer(raw, start):
        what = raw[token.start()]
        if what in b"{[":
            depth += 1
        elif what in b"}]":
            depth -= 1
            if depth == 0:
                if key is not None:
                    found.append(Member(*key, _end(raw, token.start())))
                break
        elif depth == 1:
            colon = _COLON.match(raw, token.end())
            if colon is None:
                continue  # a value
            if key is not None:
                comma = raw.rindex(b",", 0, token.start())
                found.append(Member(*key, _end(raw, comma)))
            key = (_read(token.group()), token.start(), colon.end())
    return found


def _end(raw: bytes, at: int) -> int:
    """Return where a value ends that is followed, after spaces, by what stands at `at`."""
    while raw[at - 1] in _SPACE:
        at -= 1
    return at


def _read(text: bytes) -> str:
    inner = text[1:-1]
    if b"\\" not in inner:
        return inner.decode("utf-8", "replace")
    key: str = json.loads(text)
    return key


def replaced(raw: bytes, model: bytes, wrappers: tuple[str, ...] = ()) -> bytes:
    """Return an object with another `model`, if it has one.

    Args:
        raw: A JSON object.
        model: The name as JSON, quotes included.
        wrappers: Members that are objects with a `model` of their own, such as `response`.
    """
    cuts: list[tuple[int, int]] = []
    for member in members(raw):
        if member.key == "model":
            cuts.append((member.value_at, member.end))
        elif member.key in wrappers and raw[member.value_at : member.value_at + 1] == b"{":
            inner = members(raw, member.value_at)
            cuts += [(one.value_at, one.end) for one in inner if one.key == "model"]
    for start, end in reversed(cuts):
        raw = raw[:start] + model + raw[end:]
    return raw


def renamed(
    raw: bytes, told: Mapping[str, object], model: bytes, wrappers: tuple[str, ...] = ()
) -> bytes:
    """Return what `replaced` does, sooner: of most chunks it is known where their one model stands.

    Args:
        raw: A JSON object.
        told: The same, decoded.
        model: See `replaced`.
        wrappers: See `replaced`.
    """
    inner = [told.get(name) for name in wrappers]
    named = [holder for holder in (told, *inner) if is_object(holder) and "model" in holder]
    if not named:
        return raw
    found = _MODEL.search(raw) if len(named) == 1 and raw.count(b'"model"') == 1 else None
    if found is None:
        return replaced(raw, model, wrappers)
    return raw[: found.start(1)] + model + raw[found.end(1) :]


def edited(raw: bytes, put: Mapping[str, bytes], drops: Callable[[str], bool]) -> bytes:
    """Return an object with members replaced, added and left out, all other bytes as they were.

    Args:
        raw: A JSON object.
        put: Key -> value as JSON; replaces a member where it stands, else is added at the end.
        drops: Tells which keys to leave out.
    """
    head, last = raw.index(b"{") + 1, raw.rindex(b"}")
    kept: list[bytes] = []
    seen: set[str] = set()
    for member in members(raw):
        if drops(member.key) or member.key in seen & put.keys():
            continue
        seen.add(member.key)
        if member.key in put:
            kept.append(raw[member.at : member.value_at] + put[member.key])
        else:
            kept.append(raw[member.at : member.end])
    kept += [
        json.dumps(key).encode() + b":" + value for key, value in put.items() if key not in seen
    ]
    return raw[:head] + b",".join(kept) + raw[last:]
