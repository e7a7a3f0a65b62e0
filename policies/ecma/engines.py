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


def _options() -> Any:  # the engine has no types
    """Return RE2's options: bytes as they are, any longest match, no word on stderr."""
    options = _re2.Options()
    options.encoding = _re2.Options.Encoding.LATIN1
    options.longest_match = True
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


class Linear:
    """A pattern in RE2.

    It asks for a match from the start of the text, with anything before the pattern: a search
    would read the text a second time, backwards, to find where the match began.
    """

    __slots__ = ("_pattern",)

    def __init__(self, node: Node) -> None:
        self._pattern = _re2.compile(
            f"{_ANYTHING}(?:{RE2.write(node)})".encode("ascii"), _options()
        )

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


class LiteralSet:
    """Several plain byte strings, looked for in one pass.

    A pass that runs out of memory reports nothing found, so a report of nothing is checked by a
    second engine, which never runs out.
    """

    __slots__ = ("_any", "_set")

    def __init__(self, literals: tuple[bytes, ...]) -> None:
        spelled = ["".join(f"\\x{byte:02x}" for byte in literal) for literal in literals]
        self._set = _re2.Set.SearchSet(_options())
        for text in spelled:
            self._set.Add(text.encode("ascii"))
        self._set.Compile()
        self._any = _re2.compile(f"{_ANYTHING}(?:{'|'.join(spelled)})".encode("ascii"), _options())

    def search(self, data: bytes) -> list[int] | None:
        """Return the numbers of the literals that occur; `None` if that cannot be told."""
        numbers: list[int] | None = self._set.Match(data)
        if numbers:
            return numbers
        return [] if self._any.match(data) is None else None
