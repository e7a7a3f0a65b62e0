"""The fake's answers at OpenAI's older doors: chat completions, completions, embeddings. Pure."""

from policies.shape import is_object
from workers.fake_server.events import DONE, Object, data, parts_of
from workers.fake_server.words import Counted, Said, tokens_of


class Chat:
    """`/v1/chat/completions`, as llama-server answers it."""

    def __init__(self, model: str, body: Object) -> None:
        self._base = {
            "created": 1,
            "id": "chatcmpl-fake",
            "model": model,
            "system_fingerprint": "fake",
        }
        self._logprobs = bool(body.get("logprobs"))
        self._usage = _wants_usage(body)

    def whole(self, said: Said, counted: Counted) -> Object:
        """Return a chat completion."""
        message: Object = {"role": "assistant", "content": "".join(said.text) or None}
        if said.reasoning:
            message["reasoning_content"] = "".join(said.reasoning)
        if said.call:
            called = {"name": said.call.name, "arguments": said.call.arguments}
            message["tool_calls"] = [{"type": "function", "function": called, "id": "call_fake"}]
        choice: Object = {"finish_reason": _reason(said), "index": 0, "message": message}
        if self._logprobs:
            choice["logprobs"] = {"content": [_logprob(piece) for piece in said.text]}
        told = {"usage": usage_of(counted), "timings": _timings(counted)}
        return {"choices": [choice], **self._base, "object": "chat.completion", **told}

    def opening(self, counted: Counted) -> list[bytes]:
        """Return the chunk that names the role."""
        return [self._chunk({"role": "assistant", "content": None})]

    def pieces(self, said: Said) -> list[list[bytes]]:
        """Return a chunk a token; of a tool call, a chunk a piece of its arguments."""
        groups = [[self._chunk({"reasoning_content": piece})] for piece in said.reasoning]
        for piece in said.text:
            told = {"content": [_logprob(piece)]} if self._logprobs else None
            groups.append([self._chunk({"content": piece}, logprobs=told)])
        if said.call:
            name = {"name": said.call.name, "arguments": ""}
            first = {"index": 0, "id": "call_fake", "type": "function", "function": name}
            groups.append([self._chunk({"tool_calls": [first]})])
            for part in parts_of(said.call.arguments):
                more = {"index": 0, "function": {"arguments": part}}
                groups.append([self._chunk({"tool_calls": [more]})])
        return groups

    def closing(self, said: Said, counted: Counted) -> list[bytes]:
        """Return the last chunk, the usage chunk if it was asked for, and the end."""
        ends: Object = {"finish_reason": _reason(said), "index": 0, "delta": {}}
        last: Object = {"choices": [ends], **self._base, "object": "chat.completion.chunk"}
        if not self._usage:
            return [data({**last, "timings": _timings(counted)}), DONE]
        told = {"usage": usage_of(counted), "timings": _timings(counted)}
        usage: Object = {"choices": [], **self._base, "object": "chat.completion.chunk", **told}
        return [data(last), data(usage), DONE]

    def _chunk(self, delta: Object, *, logprobs: Object | None = None) -> bytes:
        choice: Object = {"finish_reason": None, "index": 0, "delta": delta}
        if logprobs is not None:
            choice["logprobs"] = logprobs
        return data({"choices": [choice], **self._base, "object": "chat.completion.chunk"})


class Completion:
    """`/v1/completions`."""

    def __init__(self, model: str, body: Object) -> None:
        self._base = {"id": "cmpl-fake", "object": "text_completion", "created": 1, "model": model}
        self._usage = _wants_usage(body)

    def whole(self, said: Said, counted: Counted) -> Object:
        """Return a completion."""
        return {**self._of("".join(said.text), _reason(said)), "usage": usage_of(counted)}

    def opening(self, counted: Counted) -> list[bytes]:
        """Nothing comes before the first token."""
        return []

    def pieces(self, said: Said) -> list[list[bytes]]:
        """Return a chunk a token."""
        return [[data(self._of(piece, None))] for piece in said.text]

    def closing(self, said: Said, counted: Counted) -> list[bytes]:
        """Return the last chunk, usage if it was asked for, and the end."""
        usage = [data({**self._base, "choices": [], "usage": usage_of(counted)})]
        return [data(self._of("", _reason(said))), *(usage if self._usage else []), DONE]

    def _of(self, text: str, reason: str | None) -> Object:
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
        return {**self._base, "choices": [choice]}


def _wants_usage(body: Object) -> bool:
    options = body.get("stream_options")
    return is_object(options) and bool(options.get("include_usage"))


def usage_of(counted: Counted) -> Object:
    """Return OpenAI's usage object, cached tokens included."""
    return {
        "completion_tokens": counted.output,
        "prompt_tokens": counted.prompt,
        "total_tokens": counted.prompt + counted.output,
        "prompt_tokens_details": {"cached_tokens": counted.cached},
    }


def _timings(counted: Counted) -> Object:
    return {
        "cache_n": counted.cached,
        "prompt_n": counted.prompt - counted.cached,
        "prompt_ms": counted.prompt_ms,
        "predicted_n": counted.output,
        "predicted_ms": counted.output_ms,
    }


def _logprob(token: str) -> Object:
    return {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}


def _reason(said: Said) -> str:
    if said.call:
        return "tool_calls"
    return "length" if said.cut else "stop"


def embeddings(model: str, texts: list[str], vectors: list[list[float]]) -> Object:
    """Return the reply of `/v1/embeddings`."""
    rows = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    count = sum(len(tokens_of(text)) for text in texts)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "model": model, "data": rows, "usage": usage}
