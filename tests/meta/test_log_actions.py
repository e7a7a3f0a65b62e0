"""Every record names an action of the catalogue: one that does not would end its process."""

import ast
from collections.abc import Iterator
from pathlib import Path

import ops
from scheduler.log import ACTIONS

_TREE = Path(ops.__file__).parents[1]
_ROOMS = ("ops", "scheduler", "workers")


def _named() -> Iterator[tuple[str, str]]:
    """Yield file and action of each call of `note` and `Record` whose action is written out."""
    for room in _ROOMS:
        for file in sorted((_TREE / room).rglob("*.py")):
            for call in ast.walk(ast.parse(file.read_text())):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                    continue
                at = {"note": 1, "Record": 0}.get(call.func.id)
                if at is None or len(call.args) <= at:
                    continue
                action = call.args[at]
                if isinstance(action, ast.Constant) and isinstance(action.value, str):
                    yield str(file.relative_to(_TREE)), action.value


def test_what_is_logged_is_in_the_catalogue() -> None:
    named = list(_named())
    assert len(named) > 20
    assert [(file, action) for file, action in named if action not in ACTIONS] == []
