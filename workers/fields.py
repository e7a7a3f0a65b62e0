"""Which fields of a request the in-process engine honours, which it may ignore, and which it must refuse.

Pure. One table, so that a field is never silently dropped that would change the answer.
"""

from collections.abc import Callable
from typing import Any

from policies.shape import is_array, is_filled
from workers.job import JobError

# field -> (low, high) of the numbers it takes; passed on under the same name.
NUMBERS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "repeat_penalty": (0.0, 2.0),
}
INTEGERS: dict[str, tuple[int, int]] = {"top_k": (0, 100_000), "seed": (-(2**63), 2**63 - 1)}
STOPS_MAX = 16

# field -> whether this value of it asks for nothing that is not done anyway.
REFUSED: dict[str, Callable[[Any], bool]] = {
    "n": lambda v: v == 1,
    "best_of": lambda v: v == 1,
    "logprobs": lambda v: v is False,
    "top_logprobs": lambda v: v == 0,
    "logit_bias": lambda v: v == {},
    "echo": lambda v: v is False,
    "suffix": lambda v: v == "",
    "audio": lambda _: False,
    "modalities": lambda v: v == ["text"],
    "functions": lambda v: v == [],
    "function_call": lambda v: v == "none",
    "tools": lambda v: v == [],
    "tool_choice": lambda v: v in ("none", "auto"),
    "prediction": lambda _: False,
    "web_search_options": lambda _: False,
}


def sampling(body: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the sampler; all other fields were checked and ask for nothing.

    Raises:
        JobError: 400, naming a field of the wrong type or range, or one that cannot be honoured.
    """
    for field, is_harmless in REFUSED.items():
        value = body.get(field)
        if value is not None and not is_harmless(value):
            raise JobError(
                400,
                "unsupported_field",
                f"'{field}' is not supported by this engine.",
                {"param": field},
            )
    out: dict[str, Any] = {}
    for field, (low, high) in NUMBERS.items():
        value = body.get(field)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _wrong(field, "a number")
            out[field] = _within(field, float(value), low, high)
    for field, (lowest, highest) in INTEGERS.items():
        value = body.get(field)
        if value is not None:
            if isinstance(value, bool) or not isinstance(value, int):
                raise _wrong(field, "an integer")
            out[field] = int(_within(field, value, lowest, highest))
    if "seed" in out:
        out["seed"] &= 2**32 - 1  # the sampler's seed has 32 bits
    out["stop"] = _stops(body.get("stop"))
    return out


def wants_base64(body: dict[str, Any]) -> bool:
    """Return whether vectors are asked for in base64, which OpenAI's own client does unless told otherwise.

    Raises:
        JobError: 400, another form is asked for, or vectors of another length than the model's.
    """
    if body.get("dimensions") is not None:
        text = "'dimensions' is not supported by this engine: a vector has the model's length."
        raise JobError(400, "unsupported_field", text, {"param": "dimensions"})
    form = body.get("encoding_format")
    if form not in {None, "float", "base64"}:
        raise _wrong("encoding_format", "'float' or 'base64'")
    return form == "base64"


def _stops(value: object) -> list[str]:
    if value is None:
        return []
    stops = value if is_array(value) else [value]
    if not all(is_filled(s) for s in stops):
        raise _wrong("stop", "a non-empty string or a list of them")
    if len(stops) > STOPS_MAX:
        raise _wrong("stop", f"at most {STOPS_MAX} strings")
    return [str(s) for s in stops]


def _within(field: str, value: float, low: float, high: float) -> float:
    if not low <= value <= high:
        raise _wrong(field, f"between {low} and {high}")
    return value


def _wrong(field: str, what: str) -> JobError:
    return JobError(400, "invalid_value", f"'{field}' must be {what}.", {"param": field})
