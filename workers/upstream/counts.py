"""What an engine's reply says of itself: its tokens, whether it has begun, ended or failed. Pure."""

from typing import Any

from msgspec import Struct

from policies.shape import is_array, is_object

_ENDS = {
    "response.completed",
    "response.incomplete",
    "response.failed",
    "message_stop",
}


class Counts(Struct):
    """Tokens of one answer, as far as its engine told them; 0: not told."""

    prompt: int = 0
    cached: int = 0
    output: int = 0

    def take(self, told: dict[str, Any]) -> None:
        """Take in what an event or a whole reply says; what is said later counts."""
        for holder in (told, told.get("response"), told.get("message")):
            if not is_object(holder):
                continue
            usage, timings = holder.get("usage"), holder.get("timings")
            if is_object(timings):
                self._timings(timings)
            if is_object(usage):
                self._usage(usage)

    def _usage(self, usage: dict[str, object]) -> None:
        details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
        known = self.prompt - self.cached
        self.prompt = _count(usage, "prompt_tokens", "input_tokens") or self.prompt
        self.output = _count(usage, "completion_tokens", "output_tokens") or self.output
        if is_object(details):
            self.cached = _count(details, "cached_tokens") or self.cached
        if "cache_read_input_tokens" in usage and "prompt_tokens" not in usage:
            # Anthropic's input tokens are those that were neither read from a cache nor written into one;
            # what is said at the end of a message may leave out what was said at its start
            fresh = _count(usage, "input_tokens") + _count(usage, "cache_creation_input_tokens")
            self.cached = _count(usage, "cache_read_input_tokens")
            self.prompt = (fresh or known) + self.cached

    def _timings(self, timings: dict[str, object]) -> None:
        """Take what llama-server says beside, or instead of, usage."""
        cached, fresh = _count(timings, "cache_n"), _count(timings, "prompt_n")
        self.cached = cached or self.cached
        self.prompt = cached + fresh or self.prompt
        self.output = _count(timings, "predicted_n") or self.output


def _count(told: dict[str, object], *names: str) -> int:
    for name in names:
        value = told.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53:
            return value
    return 0


def has_token(told: dict[str, Any]) -> bool:
    """Return whether an event carries a piece of the answer, not only its frame."""
    kind = told.get("type")
    if isinstance(kind, str):
        return kind.endswith((".delta", "_delta")) and kind != "message_delta"
    choice = _choice(told)
    delta = choice.get("delta")
    if is_object(delta):
        return any(value for key, value in delta.items() if key != "role")
    return bool(choice.get("text"))


def ends(told: dict[str, Any]) -> bool:
    """Return whether an event says that the answer is complete."""
    return told.get("type") in _ENDS or _choice(told).get("finish_reason") is not None


def failure(told: dict[str, Any]) -> dict[str, object] | None:
    """Return the error object that an event or a reply holds, or None."""
    error = told.get("error")
    if is_object(error):
        return error
    if isinstance(error, str) and error:
        return {"message": error}
    return None


def _choice(told: dict[str, Any]) -> dict[str, object]:
    choices = told.get("choices")
    first = choices[0] if is_array(choices) and choices else None
    return first if is_object(first) else {}
