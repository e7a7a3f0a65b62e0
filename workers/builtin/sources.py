"""The public prompt files training may read: what is kept of each, and how much it counts.

The class in those files is by source, so it is noisy: the filters here keep what plainly is of its
class. A file not named here is never opened.
"""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from workers.builtin.templates import Prompt

_GATE_BYTES = 1024
_CODE_WORDS = re.compile(
    r"\b(code|python|java|javascript|html|sql|latex|regex|regular expression|bash|function"
    r"|program|script|excel|formula|linux|git|api|json|xml|stackoverflow|command|markdown"
    r"|algorithm)\b",
    re.IGNORECASE,
)
_FACT_OPENING = re.compile(
    r"^(who|when|where|which|how (many|much|old|long|tall|far|big)|name of|(is|are|was|did|does) "
    r"|what (year|is the name|day|time|country|state|city|color|colour|episode|season|kind|type"
    r"|percent\w*|number|language))"
)
_SHORT_ASKS = re.compile(
    r"\b(one sentence|single sentence|yes or no|my answer is|what is the name|which of the"
    r"|riddle|slogan|tweet|title for|how tall|how many|sentence:|joke)\b",
    re.IGNORECASE,
)
_LISTED_BY_LENGTH = re.compile(
    r"\b(write|list|translate|explain|story|essay|steps|describe|expand)\b", re.IGNORECASE
)


class _Row(msgspec.Struct):
    label: str = msgspec.field(name="class")
    text: str


class _Source(msgspec.Struct, frozen=True):
    """How many prompts to keep at most, and which."""

    at_most: int
    keep: Callable[[_Row], bool]


def _any(_row: _Row) -> bool:
    return True


def _fact(row: _Row) -> bool:
    return _FACT_OPENING.match(row.text) is not None


def _story(row: _Row) -> bool:
    return not _CODE_WORDS.search(row.text) and not _SHORT_ASKS.search(row.text)


def _labelled_by_length(row: _Row) -> bool:
    """The class comes from the length of one reference answer: drop what the words contradict."""
    if row.label == "code":
        return _CODE_WORDS.search(row.text) is not None
    if row.label == "short":
        return not _CODE_WORDS.search(row.text) and not _LISTED_BY_LENGTH.search(row.text)
    return _story(row)


SOURCES = {
    "clinc": _Source(600, _any),
    "humaneval": _Source(160, _any),
    "ifeval": _Source(525, _story),
    "mbpp": _Source(400, _any),
    "mbxp": _Source(250, _any),
    "nl2bash": _Source(500, _any),
    "nq_open": _Source(900, _fact),
    "self_instruct_seed": _Source(120, _labelled_by_length),
    "user_oriented": _Source(170, _labelled_by_length),
}


def read_sources(directory: Path) -> list[Prompt]:
    """The kept prompts of every source, in file order, thinned evenly to each source's limit."""
    prompts: list[Prompt] = []
    for name, source in SOURCES.items():
        lines = (directory / f"{name}.jsonl").read_bytes().splitlines()
        rows = [
            row for row in (msgspec.json.decode(line, type=_Row) for line in lines) if _fits(row)
        ]
        kept = [row for row in rows if source.keep(row)]
        step = max(len(kept) / source.at_most, 1.0)
        picked = [kept[int(at * step)] for at in range(int(len(kept) / step))]
        prompts.extend(Prompt(row.label, name, row.text) for row in picked)
    return prompts


def _fits(row: _Row) -> bool:
    return 0 < len(row.text.encode()) < _GATE_BYTES
