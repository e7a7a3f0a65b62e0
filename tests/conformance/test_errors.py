"""Refused policies: every text, to the letter, and that every text has a case.

A case edits one place of `base.json`: `at` names it, `value` replaces it, no `value` removes it.
"""

import ast
import copy
import inspect
import json
import sys
from pathlib import Path
from types import FrameType, ModuleType

import pytest

import policies.ecma.bracket
import policies.ecma.cursor
import policies.ecma.exact
import policies.ecma.gate
import policies.ecma.syntax
import policies.fields
import policies.parse
import policies.parse_classifiers
import policies.parse_match
from policies.errors import PolicyError
from policies.parse import parse_policy
from support import shared

HERE = Path(__file__).parent / "errors"
ROWS = shared.json_lines(HERE / "cases.jsonl")
ROW_KEYS = {"name", "at", "value", "types", "names", "stage", "error"}
MODULES = [
    policies.ecma.bracket,
    policies.ecma.cursor,
    policies.ecma.exact,
    policies.ecma.gate,
    policies.ecma.syntax,
    policies.fields,
    policies.parse,
    policies.parse_classifiers,
    policies.parse_match,
]


def edited(row: dict[str, object]) -> object:
    """Return the base policy with the row's edit."""
    document = {"policy": json.loads((HERE / "base.json").read_text(encoding="utf-8"))}
    if "at" not in row:
        return document["policy"]
    *parents, last = ["policy", *(part for part in str(row["at"]).split(".") if part)]
    node: object = document
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node[key]  # type: ignore[index]  # JSON
    if isinstance(node, list):
        node[int(last)] = row["value"]
    elif "value" in row:
        node[last] = copy.deepcopy(row["value"])  # type: ignore[index]  # JSON
    else:
        del node[last]  # type: ignore[attr-defined]  # JSON
    return document["policy"]


def error_of(row: dict[str, object]) -> str | None:
    types, names = row.get("types"), row.get("names")
    known = names if isinstance(names, list) else None
    try:
        parse_policy(
            edited(row),
            resolve=None if known is None else lambda name: name if name in known else None,
            model_type=types.get if isinstance(types, dict) else None,
        )
    except PolicyError as error:
        return str(error)
    return None


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row["name"])) for row in ROWS])
def test_a_policy_is_refused_with_this_text(row: dict[str, object]) -> None:
    assert row.keys() <= ROW_KEYS
    error = error_of(row)
    if row.get("stage") == "compile":
        assert error is not None
        assert error.partition(": ")[0] == row["error"]
    else:
        assert error == row["error"]


def test_no_case_is_there_twice_and_no_file_is_astray() -> None:
    assert {path.name for path in HERE.iterdir()} == {"base.json", "cases.jsonl"}
    assert len({str(row["name"]) for row in ROWS}) == len(ROWS)


def raising_lines(module: ModuleType) -> set[tuple[str, int]]:
    """Return every line of a module on which a `raise` stands."""
    path = str(inspect.getsourcefile(module))
    tree = ast.parse(inspect.getsource(module))
    return {(path, node.lineno) for node in ast.walk(tree) if isinstance(node, ast.Raise)}


def test_every_refusal_in_the_code_has_a_case() -> None:
    wanted = set[tuple[str, int]]().union(*(raising_lines(module) for module in MODULES))
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: object) -> object:
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # a tracer returns itself
    try:
        for row in ROWS:
            error_of(row)
    finally:
        sys.settrace(before)
    missing = sorted(f"{Path(path).name}:{line}" for path, line in wanted - reached)
    assert missing == []
