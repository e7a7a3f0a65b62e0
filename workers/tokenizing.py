"""The question of `/tokenize`, as llama.cpp's server takes it, and its reply. Pure.

`content`, or `prompt`, is the text. `add_special` (false) puts what the model begins a text with before it,
`parse_special` (true) reads special tokens out of it, `with_pieces` (false) names each token's text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from workers.job import JobError


class Question(Struct, frozen=True):
    """A text to be told in tokens; other fields are somebody else's."""

    content: str | None = None
    prompt: str | None = None
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False

    def text(self) -> str:
        """Return the text."""
        return self.content if self.content is not None else self.prompt or ""


def read(body: bytes) -> Question:
    """Return the question in a request's body.

    Raises:
        JobError: 400, it is none.
    """
    try:
        question = msgspec.json.decode(body, type=Question)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobError(400, "invalid_request", f"{error}", {"param": None}) from error
    if (question.content is None) == (question.prompt is None):
        message = "Say the text as 'content' or as 'prompt', and not as both."
        raise JobError(400, "invalid_request", message, {"param": "content"})
    return question


def reply(
    tokens: Sequence[int], question: Question, piece_of: Callable[[int], bytes]
) -> dict[str, Any]:
    """Return the reply.

    Args:
        tokens: Of the text.
        question: What was asked.
        piece_of: Returns the bytes that a token stands for; they may be a part of a character, which is
            told as a list of numbers.
    """
    if not question.with_pieces:
        return {"tokens": list(tokens)}
    return {"tokens": [{"id": token, "piece": _piece(piece_of(token))} for token in tokens]}


def _piece(raw: bytes) -> str | list[int]:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return list(raw)
