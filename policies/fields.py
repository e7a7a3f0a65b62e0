"""Reading fields of a policy: each function either returns a value or raises the exact text.

The texts are another server's contract. They live here and in the parse modules, once each.
"""

from collections.abc import Collection

from policies.errors import PolicyError
from policies.shape import is_array, is_filled, is_object


def known_keys(value: object, known: Collection[str], path: str) -> dict[str, object]:
    """Return `value` as an object that holds only known keys.

    Raises:
        PolicyError: No object, or an unknown key; of several the first in byte order is named.
    """
    if not is_object(value):
        raise PolicyError(f"{path} must be an object")
    unknown = value.keys() - known
    if unknown:
        raise PolicyError(f"{path} contains unknown key '{min(unknown)}'")
    return value


def required(value: dict[str, object], key: str, path: str) -> object:
    """Return a field that must be there; it may be null."""
    if key not in value:
        raise PolicyError(f"{path} is missing required key '{key}'")
    return value[key]


def required_text(value: dict[str, object], key: str, path: str) -> str:
    """Return a field that must be there and be a filled string."""
    return filled(required(value, key, path), f"{path}.{key}")


def filled(value: object, path: str) -> str:
    """Return `value` as a string with at least one character."""
    if not is_filled(value):
        raise PolicyError(f"{path} must be a non-empty string")
    return value


def filled_texts(value: object, path: str) -> tuple[str, ...]:
    """Return `value` as a non-empty array of filled strings."""
    items = non_empty(value, path)
    return tuple(filled(item, f"{path}[{index}]") for index, item in enumerate(items))


def non_empty(value: object, path: str) -> list[object]:
    """Return `value` as an array with at least one item."""
    if not is_array(value) or not value:
        raise PolicyError(f"{path} must be a non-empty array")
    return value
