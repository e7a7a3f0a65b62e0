"""The example of a settings file: every setting with its default and its remark, read out of the code.

`fairlane settings --example` prints it. It decodes to the defaults, so there is no second list to keep.
"""

import inspect
import io
import json
import tokenize
from collections.abc import Iterator

from msgspec import Struct, structs

from policies.shape import is_object
from scheduler.settings import Lane, Settings

_HEAD = """\
# Settings of a Fairlane box: all of them, each with its default. A name behind a `#` has no value by default.
# The environment goes over this file: FAIRLANE__GATEWAY__PORT=8000 sets port in [gateway].

"""
_LANE = "reviewer"  # a name for the example of a lane
_INDENT = 4  # columns of a field in its class


def example() -> str:
    """Return the text of the file."""
    return _HEAD + "\n".join(_section("", Settings())) + "\n"


def remarks(kind: type[Struct]) -> dict[str, list[str]]:
    """Return what the comments above and behind each field of a class say, by field."""
    found: dict[str, list[str]] = {}
    field, above, depth = "", list[str](), 0
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(kind)).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        elif token.type == tokenize.NAME and token.start[1] == _INDENT and not depth:
            field = token.string
            found[field], above = above, []
        elif token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#") and not depth
            words = token.string.removeprefix("#").strip()
            (above if alone else found.setdefault(field, above)).append(words)
    return found


def _section(path: str, values: Struct) -> Iterator[str]:
    """Yield the lines of a class: its own values first, as TOML wants it, then the tables below it."""
    kind = type(values)
    said = remarks(kind)
    below: list[tuple[str, object]] = []
    for name, value in _fields(values):
        if isinstance(value, Struct) or is_object(value):
            below.append((name, value))
        else:
            yield from _remarked(said[name])
            yield f"{name} = {_toml(value)}" if value is not None else f"#{name} ="
    for name, value in below:
        inner = f"{path}.{name}" if path else name
        yield ""
        if isinstance(value, Struct):
            yield from _remarked(
                [(inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")]
            )
            yield f"[{inner}]"
            yield from _section(inner, value)
        else:
            yield from _remarked(said[name])
            yield from _map(inner, name, value)


def _map(path: str, name: str, value: object) -> Iterator[str]:
    """Yield a table whose names the site chooses."""
    if name == "lanes":
        yield f"#[{path}.{_LANE}]"
        yield from (line if line[0] == "#" else f"#{line}" for line in _section(path, Lane()))
        return
    yield f"[{path}]"
    if is_object(value):
        yield from (f"{key} = {_toml(one)}" for key, one in value.items())


def _fields(values: Struct) -> Iterator[tuple[str, object]]:
    for field in structs.fields(values):
        yield field.name, getattr(values, field.name)


def _remarked(words: list[str]) -> Iterator[str]:
    yield from (f"# {line}" for line in words if line)


def _toml(value: object) -> str:
    """Return a value; of the kinds that settings have, JSON and TOML write all alike."""
    return json.dumps(value)
