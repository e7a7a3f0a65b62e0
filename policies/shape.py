"""Questions about the shape of decoded JSON, asked in a way that type checkers follow.

Documents arrive as builtins (`dict`, `list`, `str`, `int`, `float`, `bool`, `None`). No
`dict[str, object]` leaves this package: parsers turn it into frozen types at once.
"""

import json
from typing import TypeGuard


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """Tell whether `value` is a JSON object; JSON keys are always strings."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[object]]:
    """Tell whether `value` is a JSON array."""
    return isinstance(value, list)


def is_filled(value: object) -> TypeGuard[str]:
    """Tell whether `value` is a string with at least one character."""
    return isinstance(value, str) and value != ""


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether `value` is a JSON number; in Python a bool is an int, in JSON it is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def decode(text: str) -> object:
    """Decode one JSON document; of a key given twice the last one counts.

    Raises:
        ValueError: `text` is not JSON. `NaN` and `Infinity` are not JSON either.
    """
    value: object = json.loads(text, parse_constant=_refuse_constant)
    return value


def utf8(text: str) -> bytes:
    """Encode for byte-wise work; a lone surrogate, which JSON can spell, must not raise."""
    return text.encode("utf-8", "surrogatepass")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def wrong_type(value: object, wanted: str) -> str:
    """Return the text with which Lemonade's JSON library refuses to read `value` as `wanted`."""
    return f"[json.exception.type_error.302] type must be {wanted}, but is {type_name(value)}"


def type_name(value: object) -> str:
    """Return the name of a JSON value's type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if is_array(value) else "object"
