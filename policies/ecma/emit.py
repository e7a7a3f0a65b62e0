"""Writing a tree out as a pattern for the engine that runs it.

Everything is spelled in the plainest terms both engines share, so that no option, flag or dialect
of theirs has a say: bytes as explicit sets, edges as themselves, groups only where referred to.
"""

from functools import lru_cache
from typing import assert_never

from policies.ecma.tree import (
    ALL_BYTES,
    WORD,
    Ahead,
    Back,
    Bytes,
    Choice,
    Edge,
    Group,
    Node,
    Repeat,
    Sequence,
)

# The backtracking engine takes a repeat of one byte in a single step and looks at its clock every
# thousand steps or so: over a mebibyte that was measured to overrun a limit of 40 ms by 900. In
# blocks of this length a step is short, and a text still falls into blocks in only one way.
BLOCK = 256


class Dialect:
    """How one engine spells what the engines spell differently.

    Attributes:
        edges: Kind of edge -> its spelling.
        backtracks: Whether groups are remembered, and long repeats of one byte cut into blocks.
    """

    def __init__(self, edges: dict[str, str], *, backtracks: bool) -> None:
        self.edges = edges
        self.backtracks = backtracks

    def write(self, node: Node) -> str:
        """Return the pattern of a node, safe to stand in any place."""
        match node:
            case Bytes(members=members):
                text = write_set(members)
            case Sequence(parts=parts):
                text = "".join(self.write(part) for part in parts) or "(?:)"
            case Choice(options=options):
                text = f"(?:{'|'.join(self.write(option) for option in options)})"
            case Repeat():
                text = self._repeat(node)
            case Group(node=inner):
                text = f"({'' if self.backtracks else '?:'}{self.write(inner)})"
            case Back(index=index):
                text = f"(?:\\g<{index}>)"
            case Ahead(node=inner, negative=negative):
                text = f"(?{'!' if negative else '='}{self.write(inner)})"
            case Edge(kind=kind):
                text = self.edges[kind]
            case _:
                assert_never(node)
        return text

    def _repeat(self, node: Repeat) -> str:
        text = self.write(node.node)
        if not self.backtracks or not isinstance(node.node, Bytes):
            return f"(?:{text}){_count(node.least, node.most)}"
        if max(node.least, node.most or 0) > BLOCK:
            return f"(?:{text}|(?!)){_count(node.least, node.most)}"
        if node.most is not None:
            return f"{text}{_count(node.least, node.most)}"
        least = f"{text}{{{node.least}}}" if node.least else ""
        return f"{least}(?:(?:{text}{{{BLOCK}}})*{text}{{0,{BLOCK - 1}}})"


def _count(least: int, most: int | None) -> str:
    if most == least:
        return f"{{{least}}}"
    plain = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return plain.get((least, most), f"{{{least},{'' if most is None else most}}}")


@lru_cache(maxsize=256)
def write_set(members: int) -> str:
    """Return a set of bytes as one class; the empty set never matches, in either engine."""
    if members.bit_count() == 1:
        return f"\\x{members.bit_length() - 1:02x}"
    if members == ALL_BYTES:
        return r"[\x00-\xff]"
    if not members:
        return r"[^\x00-\xff]"
    plain, negated = _ranges(members), _ranges(ALL_BYTES & ~members)
    if len(negated) < len(plain):
        return f"[^{''.join(negated)}]"
    return f"[{''.join(plain)}]"


def _ranges(members: int) -> list[str]:
    """Return a set as runs of neighbouring bytes."""
    ranges: list[tuple[int, int]] = []
    for value in range(256):
        if not members >> value & 1:
            continue
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1] = (ranges[-1][0], value)
        else:
            ranges.append((value, value))
    return [
        f"\\x{first:02x}" if first == last else f"\\x{first:02x}-\\x{last:02x}"
        for first, last in ranges
    ]


_WORD = write_set(WORD)
_EDGES = {"start": r"\A", "word": r"\b", "inside": r"\B"}

# RE2 knows word boundaries by ASCII words, the same as meant here.
RE2 = Dialect(_EDGES | {"end": r"\z"}, backtracks=False)

# The other engine's idea of a word depends on options, so its boundaries are written out.
BACKTRACKING = Dialect(
    {
        "start": r"\A",
        "end": r"\Z",
        "word": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
        "inside": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
    },
    backtracks=True,
)
