"""OpenAI's reply objects for an answer made in this process."""

import time
import uuid
from typing import Any

import msgspec
from msgspec import Struct


class Usage(Struct, frozen=True):
    """Tokens of one answer."""

    prompt: int
    cached: int
    output: int

    def as_object(self) -> dict[str, Any]:
        """Return OpenAI's usage object."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.output,
            "total_tokens": self.prompt + self.output,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


class Shape:
    """The replies and chunks of one answer, chat or completion."""

    def __init__(self, op: str, model: str) -> None:
        """Fix what all chunks share: the answer's id, its time and the model that answers."""
        self._is_chat = op == "chat"
        ident = f"{'chatcmpl' if self._is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._base = {"id": ident, "created": int(time.time()), "model": model}

    def chunk(self, text: str, *, first: bool) -> bytes:
        """Return a chunk with a piece of text."""
        if self._is_chat:
            delta = {"role": "assistant", "content": text} if first else {"content": text}
            return self._chunk({"index": 0, "delta": delta, "finish_reason": None})
        return self._chunk({"index": 0, "text": text, "finish_reason": None})

    def last_chunk(self, finish_reason: str) -> bytes:
        """Return the chunk that says why the answer ends."""
        piece: dict[str, Any] = {"delta": {}} if self._is_chat else {"text": ""}
        return self._chunk({"index": 0, **piece, "finish_reason": finish_reason})

    def usage_chunk(self, usage: Usage) -> bytes:
        """Return the chunk that `stream_options.include_usage` asks for."""
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        return msgspec.json.encode(
            {**self._base, "object": kind, "choices": [], "usage": usage.as_object()}
        )

    def whole(self, text: str, finish_reason: str, usage: Usage) -> bytes:
        """Return the reply that is not streamed."""
        kind = "chat.completion" if self._is_chat else "text_completion"
        piece: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text}} if self._is_chat else {"text": text}
        )
        choice = {"index": 0, **piece, "logprobs": None, "finish_reason": finish_reason}
        return msgspec.json.encode(
            {**self._base, "object": kind, "choices": [choice], "usage": usage.as_object()}
        )

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        return msgspec.json.encode({**self._base, "object": kind, "choices": [choice]})
