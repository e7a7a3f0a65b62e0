"""Reading and running a conformance corpus: `<major>/<case>/{policy.json,cases.jsonl}`.

The runner is as strict as the corpus deserves: a file in a wrong place, a key that it does not
know or a model call without a stub is a failure, because a case that was not understood proves
nothing.
"""

import json
from pathlib import Path

from policies.engine import Decision, decide
from policies.errors import PolicyError
from policies.parse import parse_policy
from policies.request import context_of
from policies.stubs import StubbedServices
from support.shared import json_lines

ROW_KEYS = {"name", "note", "request", "decision", "services", "failed", "calls"}
# What lies beside the majors: the tests themselves, and the policies that are refused.
BESIDE = {"README.md", "errors", "__pycache__"}
Case = tuple[str, object, dict[str, object]]


def collect(root: Path) -> list[Case]:
    """Return every case of a corpus as name, policy and row.

    Raises:
        ValueError: Something in the corpus is not understood.
    """
    cases: list[Case] = []
    for major in sorted(root.iterdir()):
        if major.name in BESIDE or major.match("test_*.py"):
            continue
        if not major.is_dir() or not major.name.isdigit():
            raise ValueError(f"stray file {major}")
        for folder in sorted(major.iterdir()):
            cases.extend(_read_folder(folder, major.name))
    return cases


def _read_folder(folder: Path, major: str) -> list[Case]:
    if not folder.is_dir() or {path.name for path in folder.iterdir()} != {
        "policy.json",
        "cases.jsonl",
    }:
        raise ValueError(f"{folder} does not hold exactly policy.json and cases.jsonl")
    policy = json.loads((folder / "policy.json").read_text(encoding="utf-8"))
    if policy.get("version") != major:
        raise ValueError(f"{folder} holds a policy of another version")
    rows = json_lines(folder / "cases.jsonl")
    names = [row.get("name") for row in rows]
    if not rows or len(set(names)) != len(names):
        raise ValueError(f"{folder} has no cases or a name twice")
    for row in rows:
        missing = {"name", "request", "decision"} - row.keys()
        if missing or row.keys() - ROW_KEYS:
            raise ValueError(f"{folder} {row.get('name')}: keys not understood: {sorted(row)}")
    return [(f"{folder.name}/{row['name']}", policy, row) for row in rows]


def run(policy: object, row: dict[str, object]) -> tuple[Decision, StubbedServices]:
    """Decide one case; the caller compares."""
    stubs, request = row.get("services", {}), row["request"]
    assert isinstance(stubs, dict)
    assert isinstance(request, dict)
    services = StubbedServices(stubs)
    context = context_of(request)
    parsed = parse_policy(policy)
    return decide(parsed, context, services, trace=context.wants_trace), services


def error_of(policy: object, types: dict[str, str] | None = None) -> str | None:
    """Return the text with which a policy is refused, `None` if it is accepted."""
    try:
        parse_policy(policy, model_type=None if types is None else types.get)
    except PolicyError as error:
        return str(error)
    return None
