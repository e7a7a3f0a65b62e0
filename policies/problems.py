"""Reading our own documents so that one pass reports every fault, each with its JSON path.

A decoder stops at the first fault and hides dictionary keys in its paths. An operator who edits a
table wants the whole list, so fields are converted one by one and what fails is written down.
"""

import json
from collections.abc import Mapping
from types import NoneType
from typing import Literal, TypeVar, get_args, get_origin

import msgspec

from policies.shape import is_array, is_object

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Problem(msgspec.Struct, frozen=True):
    """One fault of a document.

    Attributes:
        path: Where, as a JSON path such as `$.classes.code.device`.
        message: What is wrong and what would be right, without the path.
        severity: An `error` refuses the document; a `warning` does so only under strict checking.
    """

    path: str
    message: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class _Pairs(list[tuple[str, object]]):
    """An object as its key-value pairs, so that a repeated key is still there to be seen."""


def load_unique(text: str, problems: list[Problem]) -> object:
    """Decode JSON and report each key that one object holds twice.

    Args:
        text: The document.
        problems: Faults are appended here; text that is no JSON is one fault at `$`.

    Returns:
        The document as builtins (the last of two equal keys counts), `None` if it is no JSON.
    """
    try:
        return _plain(json.loads(text, object_pairs_hook=_Pairs), "$", problems)
    except ValueError as error:
        problems.append(Problem("$", f"not JSON: {error}"))
        return None
    except RecursionError:
        problems.append(Problem("$", "not JSON that can be read: nested too deeply"))
        return None


def _plain(value: object, path: str, problems: list[Problem]) -> object:
    if isinstance(value, _Pairs):
        result: dict[str, object] = {}
        for key, item in value:
            if key in result:
                problems.append(Problem(f"{path}.{key}", "the key is given twice"))
            result[key] = _plain(item, f"{path}.{key}", problems)
        return result
    if is_array(value):
        return [_plain(item, f"{path}[{index}]", problems) for index, item in enumerate(value)]
    return value


def want_object(value: object, path: str, problems: list[Problem]) -> dict[str, object] | None:
    """Return `value` if it is an object; report it otherwise."""
    if is_object(value):
        return value
    problems.append(Problem(path, "must be an object"))
    return None


def convert_struct(
    raw: Mapping[str, object], kind: type[_Struct], path: str, problems: list[Problem]
) -> _Struct | None:
    """Convert an object field by field, so that every fault in it is reported.

    Args:
        raw: The object as builtins.
        kind: A Struct without renamed fields; its field types carry the bounds.
        path: Path of the object.
        problems: Faults are appended here: unknown keys, missing keys, misfits.

    Returns:
        The value, or `None` if anything was at fault.
    """
    before = len(problems)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    problems.extend(Problem(f"{path}.{key}", "unknown key") for key in raw if key not in fields)
    for name, field in fields.items():
        if name in raw:
            _check_field(raw[name], field.type, f"{path}.{name}", problems)
        elif field.required:
            problems.append(Problem(f"{path}.{name}", "missing"))
    return msgspec.convert(raw, kind) if len(problems) == before else None


def _check_field(value: object, kind: object, path: str, problems: list[Problem]) -> None:
    """Report what is wrong with one value, looking into Structs and arrays of them."""
    struct, many = _struct_in(kind)
    if struct is None or (value is None and NoneType in get_args(kind)):
        _check_plain(value, kind, path, problems)
    elif many and is_array(value):
        for index, item in enumerate(value):
            _check_field(item, struct, f"{path}[{index}]", problems)
    elif not many:
        raw = want_object(value, path, problems)
        if raw is not None:
            convert_struct(raw, struct, path, problems)
    else:
        problems.append(Problem(path, "must be an array"))


def _struct_in(kind: object) -> tuple[type[msgspec.Struct] | None, bool]:
    """Return the Struct that a field holds, and whether it holds an array of them."""
    for part in (kind, *get_args(kind)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part, get_origin(kind) is tuple
    return None, False


def _check_plain(value: object, kind: object, path: str, problems: list[Problem]) -> None:
    try:
        msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        message, _, inner = str(error).partition(" - at `$")
        for part in (kind, *get_args(kind)):
            if get_origin(part) is Literal:
                message = f"must be one of {', '.join(map(str, get_args(part)))}, not {value!r}"
        problems.append(Problem(path + inner.removesuffix("`"), message))
