"""Reply objects of an answer made in this process."""

from typing import Any

import msgspec
import pytest

from workers.shapes import Shape, Usage

USAGE = Usage(10, 4, 3)


def read(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


def test_a_chat_reply() -> None:
    got = read(Shape("chat", "M").whole("said", "stop", USAGE))
    assert (got["object"], got["model"]) == ("chat.completion", "M")
    assert got["choices"] == [{
        "index": 0, "message": {"role": "assistant", "content": "said"}, "logprobs": None,
        "finish_reason": "stop",
    }]  # fmt: skip
    assert got["usage"] == {
        "prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 4},
    }  # fmt: skip


def test_a_completions_reply() -> None:
    got = read(Shape("completion", "M").whole("said", "length", USAGE))
    assert (got["object"], got["choices"][0]["text"]) == ("text_completion", "said")
    assert got["id"].startswith("cmpl-")


def test_the_first_chunk_of_a_chat_names_the_role_and_later_ones_do_not() -> None:
    shape = Shape("chat", "M")
    deltas = [read(shape.chunk("a", first=first))["choices"][0]["delta"] for first in (True, False)]
    assert deltas == [{"role": "assistant", "content": "a"}, {"content": "a"}]


def test_a_completions_chunk_is_text() -> None:
    choice = read(Shape("completion", "M").chunk("a", first=True))["choices"][0]
    assert choice == {"index": 0, "text": "a", "finish_reason": None}


@pytest.mark.parametrize(("op", "empty"), [("chat", {"delta": {}}), ("completion", {"text": ""})])
def test_the_last_chunk_says_why_it_ends(op: str, empty: dict[str, object]) -> None:
    choice = read(Shape(op, "M").last_chunk("length"))["choices"][0]
    assert choice == {"index": 0, **empty, "finish_reason": "length"}


@pytest.mark.parametrize("op", ["chat", "completion"])
def test_the_usage_chunk_has_no_choices(op: str) -> None:
    got = read(Shape(op, "M").usage_chunk(USAGE))
    assert (got["choices"], got["usage"]["total_tokens"]) == ([], 13)


@pytest.mark.parametrize("op", ["chat", "completion"])
def test_all_pieces_of_an_answer_share_its_id_and_time(op: str) -> None:
    shape = Shape(op, "M")
    pieces = [
        shape.chunk("a", first=True), shape.last_chunk("stop"), shape.usage_chunk(USAGE),
        shape.whole("a", "stop", USAGE),
    ]  # fmt: skip
    assert len({(p["id"], p["created"], p["model"]) for p in map(read, pieces)}) == 1
    assert read(Shape(op, "M").last_chunk("stop"))["id"] != read(pieces[0])["id"]
