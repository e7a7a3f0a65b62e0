"""The two engines behind patterns, each as one question about some bytes.

RE2 reads a text once, whatever the pattern. The other engine backtracks, which look-aheads and
back-references need, and stops at a time limit.
"""

from typing import Any, Protocol

import re2  # type: ignore[import-untyped]  # it ships no types
import regex  # type: ignore[import-untyped]  # it ships no types

from policies.ecma.emit import BACKTRACKING, RE2
from policies.ecma.tree import Node

# The boundary to code without types; what comes back from it is named at once.
_re2: Any = re2
_regex: Any = regex

# Seconds of the process's own time, which is what the engine's clock counts. Leaves room, under a
# promise of 50 ms, for what lies between two looks at it.
TIMEOUT_S = 0.04

# Automata of patterns within `bounds` stay far below it; reserved only as far as used.
_MEMORY = 64 << 20

# The engine's own `.` knows no option here that would let it match every byte.
_ANYTHING = r"[\x00-\xff]*"


class Engine(Protocol):
    """A compiled pattern."""

    def search(self, data: bytes) -> bool | None:
        """Tell whether the pattern is found; `None` if that was stopped by the clock."""
        ...


class Linear:
    """A pattern in RE2.

    It asks for a match from the start of the text, with anything before the pattern: a search
    would read the text a second time, backwards, to find where the match began.
    """

    __slots__ = ("_pattern",)

    def __init__(self, node: Node) -> None:
        options = _re2.Options()
        options.encoding = _re2.Options.Encoding.LATIN1
        options.longest_match = True
        options.log_errors = False
        options.max_mem = _MEMORY
        self._pattern = _re2.compile(f"{_ANYTHING}(?:{RE2.write(node)})".encode("ascii"), options)

    def search(self, data: bytes) -> bool:
        """Tell whether the pattern is found."""
        found: object = self._pattern.match(data)
        return found is not None


class Backtracking:
    """A pattern in an engine that backtracks, under a time limit."""

    __slots__ = ("_pattern",)

    def __init__(self, node: Node) -> None:
        self._pattern = _regex.compile(BACKTRACKING.write(node).encode("ascii"), _regex.V0)

    def search(self, data: bytes) -> bool | None:
        """Tell whether the pattern is found; `None` if the limit stopped it."""
        try:
            found: object = self._pattern.search(data, timeout=TIMEOUT_S)
        except TimeoutError:
            return None
        return found is not None


def linear(node: Node) -> Linear | None:
    """Return the pattern in RE2, `None` where RE2 finds it too large."""
    try:
        return Linear(node)
    except _re2.error:
        return None
