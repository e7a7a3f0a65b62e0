"""Reading a pattern: ECMAScript in the reading of libstdc++, which the contract names.

It differs from the ECMAScript standard where noted. Every refusal has the same occasion there;
the words after the colon belong to the library's build and are only close.
"""

from policies.ecma.bracket import Bracket
from policies.ecma.cursor import Cursor, invalid
from policies.ecma.tree import (
    NOT_NEWLINE,
    Ahead,
    Back,
    Bytes,
    Choice,
    Edge,
    Group,
    Node,
    Repeat,
    Sequence,
    size,
)

# A deeper pattern is no pattern that somebody wrote, and reading recurses.
MAX_NESTING = 100
# Where libstdc++ stops building its automaton.
MAX_STATES = 100_000

_SPECIAL = frozenset(b"^$\\.*+?()[]{}|")
_UNBALANCED = "Mismatched '(' and ')' in regular expression"
_BAD_ASSERTION = "Invalid '(?...)' zero-width assertion in regular expression"
_OPEN_BRACE = "Mismatched '{' and '}' in regular expression"
_BAD_BRACE = "Invalid range in '{}' in regular expression"
_TOO_LARGE = "Number of NFA states exceeds limit"


def read(pattern: bytes) -> Node:
    """Return the tree of a pattern.

    Raises:
        PolicyError: The pattern is not valid, or larger than any that would be accepted.
    """
    reader = _Reader(pattern)
    node = reader.choice(0)
    if reader.position < len(pattern):
        raise invalid(_UNBALANCED)
    if size(node) > MAX_STATES:
        raise invalid(_TOO_LARGE)
    return node


class _Reader(Cursor):
    """Reads one pattern from left to right."""

    def __init__(self, pattern: bytes) -> None:
        super().__init__(pattern)
        self.groups = 0
        self.open_groups: set[int] = set()

    def choice(self, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise invalid("nested too deeply")
        options = [self.sequence(depth)]
        while self.take(b"|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while (part := self.term(depth)) is not None:
            parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def term(self, depth: int) -> Node | None:
        """Return an edge, which takes no quantifier, or an atom with its quantifiers."""
        edge = self.edge(depth)
        if edge is not None:
            return edge
        node = self.atom(depth)
        while node is not None:
            repeated = self.quantified(node)
            if repeated is None:
                break
            node = repeated
        return node

    def edge(self, depth: int) -> Node | None:
        if self.take(b"^"):
            return Edge("start")
        if self.take(b"$"):
            return Edge("end")
        if self.take(b"\\b"):
            return Edge("word")
        if self.take(b"\\B"):
            return Edge("inside")
        for token in (b"(?=", b"(?!"):
            if self.take(token):
                return Ahead(self.closed(depth), negative=token == b"(?!")
        return None

    def closed(self, depth: int) -> Node:
        """Return what stands before the closing parenthesis, and step over it."""
        node = self.choice(depth + 1)
        if not self.take(b")"):
            raise invalid(_UNBALANCED)
        return node

    def atom(self, depth: int) -> Node | None:
        if self.take(b"("):
            return self.parenthesis(depth)
        byte = self.peek()
        if byte < 0 or (byte in _SPECIAL and byte not in b".[\\]}"):
            return None
        self.position += 1
        if byte == ord("\\"):
            return self.escape()
        if byte == ord("["):
            return Bytes(Bracket(self).read())
        return Bytes(NOT_NEWLINE if byte == ord(".") else 1 << byte)

    def parenthesis(self, depth: int) -> Node:
        if self.take(b"?:"):
            return self.closed(depth)
        if self.take(b"?"):
            ended = self.peek() < 0
            raise invalid(_UNBALANCED if ended else _BAD_ASSERTION)
        return self.group(depth)

    def group(self, depth: int) -> Node:
        self.groups += 1
        index = self.groups
        self.open_groups.add(index)
        node = self.closed(depth)
        self.open_groups.discard(index)
        return Group(index, node)

    def escape(self) -> Node:
        """Return what an escape outside brackets stands for."""
        if self.escapes_number():
            return self.back()
        return Bytes(self.escaped_set())

    def back(self) -> Node:
        """Return a reference; all digits belong to it, and its group must be closed by now."""
        digits = self.digits()
        index = int(digits) if len(digits) < 7 else MAX_STATES
        if index > self.groups:
            raise invalid("Back-reference index exceeds current sub-expression count.")
        if index in self.open_groups:
            raise invalid("Back-reference referred to an opened sub-expression.")
        return Back(index)

    def quantified(self, node: Node) -> Node | None:
        """Return the node with the quantifier that follows, `None` if none does.

        Whether it prefers fewer or more rounds does not matter to a search that only asks whether
        there is a match, so a following `?` is read and forgotten.
        """
        for token, least, most in ((b"*", 0, None), (b"+", 1, None), (b"?", 0, 1)):
            if self.take(token):
                self.take(b"?")
                return Repeat(node, least, most)
        return self.counted(node) if self.take(b"{") else None

    def counted(self, node: Node) -> Node:
        digits = self.digits()
        if not digits:
            raise invalid(_BAD_BRACE)
        least = self.count(digits)
        most: int | None = least
        if self.take(b","):
            upper = self.digits()
            most = self.count(upper) if upper else None
        if not self.take(b"}"):
            raise invalid(_OPEN_BRACE if self.peek() < 0 else _BAD_BRACE)
        if most is not None and most < least:
            raise invalid(_BAD_BRACE)
        self.take(b"?")
        return Repeat(node, least, most)

    def count(self, digits: bytes) -> int:
        if len(digits) > 6:
            raise invalid(_TOO_LARGE)
        return int(digits)
