"""The generated parts of `policies/POLICY.md`, made from the code that they describe."""

import inspect
import re
from pathlib import Path

import click
import msgspec
from click.testing import CliRunner

from ops.commands.laya_first import laya_first
from ops.commands.policy import policy
from policies import parse, parse_classifiers, parse_match
from policies.row import ClassRow, ExtraFile, OnBusy, Row, Scorer
from policies.table import Head
from support import shared

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "policies/POLICY.md"
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
WANTS = {
    "classifier": "id of a classifier, with `label`, `min_score`, `max_score`",
    "has_images": "boolean",
    "has_tools": "boolean",
    "keywords_all": "array of strings",
    "keywords_any": "array of strings",
    "max_chars": "bytes, inclusive",
    "max_total_chars": "bytes, inclusive",
    "metadata": "`key` and one of `equals`, `any`, `exists`",
    "min_chars": "bytes, inclusive",
    "min_total_chars": "bytes, inclusive",
    "regex": "pattern",
}


def rewritten(text: str) -> str:
    """Return the document with its generated parts as they should be."""
    parts = {
        "keys": keys(),
        "conditions": conditions(),
        "table": table(),
        "commands": commands(),
        "refusals": refusals(),
    }
    return PART.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n\n{found[3]}", text)


def keys() -> str:
    sets = {
        "policy": parse.ROOT_KEYS,
        "routing": parse.ROUTING_KEYS,
        "routing.router": parse.ROUTER_KEYS,
        "classifier": parse_classifiers.CLASSIFIER_KEYS,
        "rule": parse.RULE_KEYS,
        "match": parse_match.MATCH_KEYS,
        "metadata": parse_match.METADATA_KEYS,
    }
    rows = [
        f"| {name} | {', '.join(f'`{k}`' for k in sorted(known))} |" for name, known in sets.items()
    ]
    return "\n".join(["| object | keys |", "|---|---|", *rows])


def conditions() -> str:
    names = ["classifier", *sorted(parse_match.CONDITION_KEYS - {"classifier"})]
    rows = [f"| {i} | `{name}` | {WANTS[name]} |" for i, name in enumerate(names, 1)]
    return "\n".join(["| order | condition | wants |", "|---|---|---|", *rows])


def table() -> str:
    kinds: dict[str, type[msgspec.Struct]] = {
        "the table": Head,
        "a class": ClassRow,
        "a row": Row,
        "`extra_files`": ExtraFile,
        "`on_busy`": OnBusy,
        "`scorer`": Scorer,
    }
    rows: list[str] = []
    for name, kind in kinds.items():
        described = attributes(kind)
        for field in msgspec.structs.fields(kind):
            default = "required" if field.required else shown(field)
            rows.append(
                f"| {name} | `{field.name}` | {default} | {described.get(field.name, '')} |"
            )
    return "\n".join(["| of | key | default | meaning |", "|---|---|---|---|", *rows])


def shown(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT or isinstance(field.default, msgspec.Struct | tuple):
        return ""
    return f"`{msgspec.json.encode(field.default).decode()}`"


def attributes(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the attributes' descriptions out of a docstring."""
    _, _, text = inspect.cleandoc(str(kind.__doc__)).partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.*(?:\n      .*)*)", text, re.MULTILINE)
    return {name: " ".join(words.split()).replace("`None`", "`null`") for name, words in found}


def commands() -> str:
    blocks = [
        help_of(policy, ["check", "--help"], "fairlane policy check"),
        help_of(policy, ["decide", "--help"], "fairlane policy decide"),
        help_of(laya_first, ["--help"], "fairlane laya-first"),
    ]
    return "\n\n".join(f"```\n{block}\n```" for block in blocks)


def help_of(command: click.Command, arguments: list[str], name: str) -> str:
    text = CliRunner().invoke(command, arguments, terminal_width=100).stdout
    return re.sub(r"^Usage: \S+( check| decide)?", f"Usage: {name}", text).strip()


def refusals() -> str:
    rows = shared.json_lines(ROOT / "tests/conformance/errors/cases.jsonl")
    texts = [str(row["error"]) for row in rows if row["error"] is not None]
    # The place differs from case to case; one example of each wording is enough.
    seen: dict[str, str] = {}
    for text in texts:
        seen.setdefault(re.sub(r"routing\S*|\d+|'[^']*'", "", text), text)
    return "\n".join(
        f"- `{text if len(text) < 250 else text[:45] + ' ...' + text[-44:]}`"
        for text in seen.values()
    )
