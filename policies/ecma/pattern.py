"""Compiled patterns: found or not in some bytes, within a bounded time.

Three ways, by what a pattern needs: RE2 where the pattern is known to stay linear; RE2 again on
texts short enough that even its slowest way is quick; else a backtracking engine with a time-out.
"""

from policies.ecma.bounds import is_bounded
from policies.ecma.engines import Backtracking, Engine, linear
from policies.ecma.exact import refuse_inexact, simplified
from policies.ecma.gate import refuse_nested_repeats
from policies.ecma.syntax import read
from policies.ecma.tree import Ahead, Back, Node, size, walk
from policies.shape import utf8

# A longer text is no match, whatever the pattern: upstream's own guard.
MAX_INPUT = 1_048_576
# Bytes times states, 60 states added for what each byte costs anyway, that RE2's slowest way gets
# through in 15 ms: it was measured at 8 ns a step, and 0.5 us a byte.
MAX_SLOW_STEPS = 1_500_000


class Pattern:
    """A compiled pattern.

    Attributes:
        source: As the author wrote it.
    """

    __slots__ = ("_long", "_short", "_short_limit", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        node = _checked(utf8(source))
        fast = None if _needs_backtracking(node) else linear(node)
        self._short: Engine = fast or Backtracking(node)
        self._long = self._short if fast is None or is_bounded(node) else Backtracking(node)
        self._short_limit = MAX_SLOW_STEPS // (size(node) + 60)

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and other.source == self.source

    def __hash__(self) -> int:
        return hash(self.source)

    def search(self, data: bytes) -> bool | None:
        """Tell whether the pattern is found anywhere in `data`.

        Returns:
            `None` if the search was stopped by the clock, which counts as not found. A text of
            more than a mebibyte is not found either.
        """
        if len(data) > MAX_INPUT:
            return False
        return (self._short if len(data) <= self._short_limit else self._long).search(data)


def compile_pattern(source: str) -> Pattern:
    """Compile a pattern.

    Args:
        source: The pattern as written; it is matched as UTF-8 bytes.

    Raises:
        PolicyError: With the exact text, less the library's own words after its colon.
    """
    return Pattern(source)


def _checked(pattern: bytes) -> Node:
    refuse_nested_repeats(pattern)
    node = read(pattern)
    refuse_inexact(node)
    has_references = any(isinstance(part, Back) for part in walk(node))
    return node if has_references else simplified(node)


def _needs_backtracking(node: Node) -> bool:
    return any(isinstance(part, Ahead | Back) for part in walk(node))
