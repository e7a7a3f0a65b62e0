"""Reading label scores out of whatever a model answers when it is asked for them. Pure.

Source of the accepted shapes: Lemonade's classifier services. Anything else, an empty payload, or a score
that is not a finite number from 0 to 1 is a failure, and the condition takes its on_error.
"""

import math

from policies.shape import decode, is_array, is_object

_LISTS = ("labels", "scores", "classification", "classifications", "data")


class PayloadError(Exception):
    """The answer holds no label scores."""


def scores_of(reply: str) -> dict[str, float]:
    """Return label -> score.

    Raises:
        PayloadError: The reply is in none of the accepted shapes.
    """
    try:
        payload = decode(reply.strip())
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"not JSON: {error}") from error
    found = _read(payload)
    if not found:
        raise PayloadError("no label scores")
    return found


def _read(payload: object) -> dict[str, float]:
    if is_array(payload):
        pairs = [_pair(entry) for entry in payload]
        return dict(pairs)
    if not is_object(payload):
        raise PayloadError("neither an object nor a list")
    if "label" in payload and "score" in payload:
        return dict([_pair(payload)])
    for key in _LISTS:
        inner = payload.get(key)
        if is_object(inner) or is_array(inner):
            return _read(inner)
    return {label: _score(value) for label, value in payload.items()}


def _pair(entry: object) -> tuple[str, float]:
    if not is_object(entry) or not isinstance(entry.get("label"), str):
        raise PayloadError("an entry without a label")
    return str(entry["label"]), _score(entry.get("score"))


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PayloadError("a score that is no number")
    score = float(value)
    if not math.isfinite(score) or not 0.0 <= score <= 1.0:
        raise PayloadError("a score outside 0 to 1")
    return score
