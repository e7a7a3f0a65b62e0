"""Which JSON schemas may be turned into a grammar. Pure.

llama.cpp expands a schema into a grammar and repetitions into copies; a schema of a hundred bytes can so cost
gigabytes, and one past its own limit of 2,000 repetitions is refused with a null pointer. What is let
through here stays far below both.
"""

import json
import re

from policies.shape import is_array, is_object
from workers.job import JobError

BYTES_MAX = 16 * 1024
DEPTH_MAX = 16
REPEAT_MAX = 1_000  # llama.cpp's own limit is 2,000
PATTERN_MAX = 256  # characters
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_REPEATS = re.compile(r"\{(\d*),?(\d*)\}")


def schema_of(response_format: object) -> str | None:
    """Return the schema that a response_format asks for, as JSON, or None for plain text.

    Raises:
        JobError: 400, naming what of it cannot be served.
    """
    if response_format is None:
        return None
    if not is_object(response_format):
        raise _refused("it must be an object")
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return '{"type": "object"}'
    if kind != "json_schema":
        raise _refused("its type must be text, json_object or json_schema")
    named = response_format.get("json_schema")
    schema = named.get("schema") if is_object(named) else None
    if not is_object(schema):
        raise _refused("json_schema.schema must be an object")
    text = json.dumps(schema)
    if "\\u0000" in text:
        raise _refused("a NUL cannot be served")  # it would cut the grammar short
    if len(text) > BYTES_MAX:
        raise _refused(f"a schema of at most {BYTES_MAX} bytes can be served")
    _check(schema, 0)
    return text


def _check(node: object, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise _refused(f"a schema at most {DEPTH_MAX} deep can be served")
    if is_array(node):
        for child in node:
            _check(child, depth + 1)
    if not is_object(node):
        return
    for name in _COUNTS:
        count = node.get(name, 0)
        if isinstance(count, int | float) and count > REPEAT_MAX:
            raise _refused(f"{name} of at most {REPEAT_MAX} can be served")
    pattern = node.get("pattern", "")
    if isinstance(pattern, str):
        _check_pattern(pattern)
    for child in node.values():
        _check(child, depth + 1)


def _check_pattern(pattern: str) -> None:
    if len(pattern) > PATTERN_MAX:
        raise _refused(f"a pattern of at most {PATTERN_MAX} characters can be served")
    product = 1
    for low, high in _REPEATS.findall(pattern):
        product *= max(1, int(low or 0), int(high or 0))
    if product > REPEAT_MAX:
        raise _refused(f"repetitions of at most {REPEAT_MAX} in all can be served")


def _refused(why: str) -> JobError:
    facts: dict[str, str | int | float | bool | None] = {"param": "response_format"}
    return JobError(400, "invalid_value", f"'response_format': {why}.", facts)
