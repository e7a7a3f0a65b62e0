"""How long a ticket will hold its device, guessed first and learned from the truth.

First guess, in seconds: prompt bytes / 4 per token / 130 tokens per second of prefill, plus expected
output tokens / 15.3 per second. Source of both rates: a dense 27B model on the iGPU of a Strix Halo
(124-152 and 15.3 tokens per second). The guess is multiplied by a ratio learned per row: an
exponentially weighted mean of truth over guess with weight 1/8, the gain of TCP's smoothed round trip
(RFC 6298), which forgets a cold start within a dozen tickets.
"""

from scheduler.core.events import Asked

_BYTES_PER_TOKEN = 4.0
_PREFILL_PER_S = 130.0
_DECODE_PER_S = 15.3
_DEFAULT_OUTPUT = 256  # tokens, where neither the request nor the row says
_GAIN = 1 / 8


class Costs:
    """Model name -> learned ratio."""

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}

    def estimate_s(self, asked: Asked, model: str, row_max_tokens: int | None) -> float:
        """Return the device-seconds expected of a request on a row, > 0."""
        return max(1e-6, guess_s(asked, row_max_tokens) * self._ratio.get(model, 1.0))

    def learn(self, asked: Asked, model: str, row_max_tokens: int | None, actual_s: float) -> None:
        """Take in how long a ticket that ran to its end really held the device."""
        ratio = actual_s / guess_s(asked, row_max_tokens)
        known = self._ratio.get(model)
        self._ratio[model] = ratio if known is None else known + _GAIN * (ratio - known)


def guess_s(asked: Asked, row_max_tokens: int | None) -> float:
    """Return the unlearned guess, in seconds, > 0."""
    output = asked.max_tokens or row_max_tokens or _DEFAULT_OUTPUT
    return asked.prompt_bytes / (_BYTES_PER_TOKEN * _PREFILL_PER_S) + output / _DECODE_PER_S
