"""The syntax tree of a pattern, over bytes.

A set of bytes is an integer of 256 bits: bit 97 is `a`. A pattern is read once and written out
again for the engine that runs it, so no engine's own dialect can leak in.
"""

from collections.abc import Iterable

import msgspec

ALL_BYTES = (1 << 256) - 1


def byte_set(values: Iterable[int]) -> int:
    """Return the set of the given byte values."""
    result = 0
    for value in values:
        result |= 1 << value
    return result


DIGITS = byte_set(b"0123456789")
LOWER = byte_set(b"abcdefghijklmnopqrstuvwxyz")
UPPER = byte_set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
WORD = DIGITS | LOWER | UPPER | byte_set(b"_")
SPACE = byte_set(b" \t\n\v\f\r")
# The only white space that `.` does not match.
NOT_NEWLINE = ALL_BYTES & ~byte_set(b"\n\r")


class Bytes(msgspec.Struct, frozen=True):
    """One byte out of a set; an empty set never matches."""

    members: int


class Sequence(msgspec.Struct, frozen=True):
    """One after the other; nothing at all matches the empty text."""

    parts: "tuple[Node, ...]"


class Choice(msgspec.Struct, frozen=True):
    """One of several."""

    options: "tuple[Node, ...]"


class Repeat(msgspec.Struct, frozen=True):
    """A number of times; `most` is `None` where there is no upper bound."""

    node: "Node"
    least: int
    most: int | None


class Group(msgspec.Struct, frozen=True):
    """A group whose text is remembered, counted from 1."""

    index: int
    node: "Node"


class Back(msgspec.Struct, frozen=True):
    """The text of a group again; a group that took no part matches nothing."""

    index: int


class Ahead(msgspec.Struct, frozen=True):
    """What follows matches, or does not; nothing is consumed."""

    node: "Node"
    negative: bool


class Edge(msgspec.Struct, frozen=True):
    """A place between bytes: `start`, `end`, `word` for a word boundary, `inside` for no such."""

    kind: str


Node = Bytes | Sequence | Choice | Repeat | Group | Back | Ahead | Edge

EMPTY = Sequence(())


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below a node."""
    if isinstance(node, Sequence):
        return node.parts
    if isinstance(node, Choice):
        return node.options
    if isinstance(node, Repeat | Group | Ahead):
        return (node.node,)
    return ()


def walk(node: Node) -> Iterable[Node]:
    """Yield a node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def is_nullable(node: Node) -> bool:
    """Tell whether a node can match without consuming a byte."""
    if isinstance(node, Bytes):
        return False
    if isinstance(node, Sequence):
        return all(is_nullable(part) for part in node.parts)
    if isinstance(node, Choice):
        return any(is_nullable(option) for option in node.options)
    if isinstance(node, Repeat):
        return node.least == 0 or is_nullable(node.node)
    if isinstance(node, Group):
        return is_nullable(node.node)
    return True


def size(node: Node) -> int:
    """Return about how many states a plain automaton for a node has, repeats written out."""
    inner = sum(size(child) for child in children(node))
    if isinstance(node, Repeat):
        optional = max(0, (node.most or 0) - node.least)
        return 1 + max(1, node.least) * inner + optional * (inner + 1)
    return 1 + inner
