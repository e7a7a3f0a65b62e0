"""The gate against patterns that backtrack without end, as Lemonade has it.

It finds an unbounded repeat of a group that holds one, such as `(a+)+`. It is a check of the
text, not of the language: `(a|a)+` passes, and so do patterns that only look different. It stays
in front of engines that do not need it, because the same policies must be refused.
"""

from policies.errors import PolicyError

_REFUSAL = (
    "regex pattern is prone to catastrophic backtracking (nested unbounded quantifier such as "
    "(X+)+); rewrite to avoid the nesting"
)


def refuse_nested_repeats(pattern: bytes) -> None:
    """Refuse a pattern in which a repeat without bound holds another one.

    Raises:
        PolicyError: With the exact text.
    """
    # One flag a group that is open: an unbounded repeat has been seen in it.
    opened: list[bool] = []
    # The last token closed a group, and such a repeat was in it.
    closed_unbounded = False
    position = 0
    while position < len(pattern):
        token = pattern[position : position + 1]
        following, unbounded = _step(pattern, position)
        if token == b")":
            closed_unbounded = opened.pop() if opened else False
            if closed_unbounded and opened:
                opened[-1] = True
        else:
            if unbounded and closed_unbounded:
                raise PolicyError(_REFUSAL)
            if unbounded and opened:
                opened[-1] = True
            closed_unbounded = False
            if token == b"(":
                opened.append(False)
        position = following


def _step(pattern: bytes, position: int) -> tuple[int, bool]:
    """Return where the next token starts and whether this one repeats without bound."""
    token = pattern[position : position + 1]
    if token == b"\\":
        return position + 2, False
    if token == b"[":
        return _after_bracket(pattern, position + 1), False
    if token == b"{":
        end = pattern.find(b"}", position)
        end = len(pattern) if end < 0 else end
        inner = pattern[position + 1 : end]
        comma = inner.find(b",")
        return end + 1, comma >= 0 and comma + 1 >= len(inner)
    return position + 1, token in {b"*", b"+"}


def _after_bracket(pattern: bytes, position: int) -> int:
    """Return the place after a bracket; one that closes at once is taken for a member."""
    if pattern[position : position + 1] == b"^":
        position += 1
    if pattern[position : position + 1] == b"]":
        position += 1
    while position < len(pattern) and pattern[position : position + 1] != b"]":
        position += 2 if pattern[position : position + 1] == b"\\" else 1
    return position + 1
