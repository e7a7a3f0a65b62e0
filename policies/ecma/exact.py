"""What stands between a valid pattern and an exact answer: rare forms refused, others made plain.

libstdc++ looks ahead with a matcher of its own that takes the place where it starts for the start
of the text, though only in an attempt at the very start of the text. And it keeps what groups
inside a negative look-ahead found. No other engine does either, so patterns whose answer could
depend on it are refused instead of answered differently.
"""

from collections.abc import Iterable

from policies.ecma.tree import (
    Ahead,
    Back,
    Bytes,
    Choice,
    Edge,
    Group,
    Node,
    Repeat,
    Sequence,
    children,
    is_nullable,
    walk,
)
from policies.errors import PolicyError


def refuse_inexact(node: Node) -> None:
    """Refuse a pattern whose answer another engine would give differently.

    Raises:
        PolicyError: With the reason.
    """
    _check_aheads(node, consumed=False)
    referred = {part.index for part in walk(node) if isinstance(part, Back)}
    if referred:
        _check_groups(node, referred)


def _inexact(reason: str) -> PolicyError:
    return PolicyError(f"regex pattern cannot be evaluated exactly: {reason}")


def _check_aheads(node: Node, *, consumed: bool) -> bool:
    """Check the look-aheads of a node.

    Args:
        node: Any part of the pattern.
        consumed: Whether something may have been consumed before it in the same attempt.

    Returns:
        The same for what follows the node.
    """
    if isinstance(node, Ahead):
        if consumed and _has_leading_edge(node.node):
            raise _inexact("^, \\b or \\B opens a look-ahead that is not at the pattern's start")
        _check_aheads(node.node, consumed=consumed)
        return consumed
    if isinstance(node, Sequence):
        for part in node.parts:
            consumed = _check_aheads(part, consumed=consumed)
        return consumed
    if isinstance(node, Repeat):
        # From the second round on, the first one may have consumed something.
        consumed = consumed or (node.most != 1 and _consumes(node.node))
    after = [_check_aheads(child, consumed=consumed) for child in children(node)]
    return consumed or any(after) or _consumes(node)


def _consumes(node: Node) -> bool:
    return any(isinstance(part, Bytes | Back) for part in walk(node))


def _has_leading_edge(node: Node) -> bool:
    """Tell whether an edge that depends on the byte before is reached without consuming one."""
    if isinstance(node, Edge):
        return node.kind != "end"
    if isinstance(node, Sequence):
        for part in node.parts:
            if _has_leading_edge(part):
                return True
            if not is_nullable(part):
                return False
        return False
    return any(_has_leading_edge(child) for child in children(node))


def _check_groups(node: Node, referred: set[int]) -> None:
    for part in walk(node):
        if isinstance(part, Ahead) and referred & _groups(walk(part.node)):
            raise _inexact("a back-reference into a look-ahead")
        if isinstance(part, Repeat):
            for inner in walk(part.node):
                risky = isinstance(inner, Group) and inner.index in referred
                if risky and is_nullable(inner):
                    raise _inexact("a back-reference to a repeated group that can be empty")


def _groups(nodes: Iterable[Node]) -> set[int]:
    return {node.index for node in nodes if isinstance(node, Group)}


def simplified(node: Node) -> Node:
    """Return an equal pattern with fewer parts, for patterns without back-references.

    Groups vanish, choices of single bytes become one set, and a repeat of a repeat becomes one
    where that is the same. `a++` is two repeats as written and would cost exponential time.
    """
    if isinstance(node, Group):
        return simplified(node.node)
    if isinstance(node, Sequence):
        return _sequence(tuple(simplified(part) for part in node.parts))
    if isinstance(node, Choice):
        return _choice([simplified(option) for option in node.options])
    if isinstance(node, Repeat):
        return _repeat(simplified(node.node), node.least, node.most)
    if isinstance(node, Ahead):
        return Ahead(simplified(node.node), node.negative)
    return node


def _choice(options: list[Node]) -> Node:
    members = 0
    others: list[Node] = []
    for option in options:
        if isinstance(option, Bytes):
            members |= option.members
        elif option not in others:
            others.append(option)
    if members or not others:
        others.append(Bytes(members))
    others = _factored(others)
    return others[0] if len(others) == 1 else Choice(tuple(others))


def _factored(options: list[Node]) -> list[Node]:
    """Write a common first part once: a list of words becomes a tree, which few threads walk."""
    heads: dict[Node, list[Node]] = {}
    for option in options:
        parts = option.parts if isinstance(option, Sequence) else (option,)
        if parts:
            heads.setdefault(parts[0], []).append(_sequence(parts[1:]))
    result = [_sequence((head, _choice(tails))) for head, tails in heads.items()]
    return [*result, Sequence(())] if any(option == Sequence(()) for option in options) else result


def _sequence(parts: tuple[Node, ...]) -> Node:
    """Return parts as one node, sequences among them laid flat."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _repeat(node: Node, least: int, most: int | None) -> Node:
    if not isinstance(node, Repeat):
        return Repeat(node, least, most)
    # (x{a,}){c,} is x{a*c,} for a <= 1; (x?)+ and (x?)* are x*; (x+)? is x*.
    if most is None and node.most is None and node.least <= 1:
        return Repeat(node.node, node.least * least, None)
    if most is None and node.least == 0 and node.most is not None and least <= 1:
        return Repeat(node.node, 0, None)
    if (least, most) == (0, 1) and node.most is None and node.least <= 1:
        return Repeat(node.node, 0, None)
    return Repeat(node, least, most)
