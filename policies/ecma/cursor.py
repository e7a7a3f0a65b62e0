"""A place in a pattern, and the reading of what brackets and plain text share: escapes."""

import string

from policies.ecma.classes import complement
from policies.ecma.tree import DIGITS, SPACE, WORD
from policies.errors import PolicyError

_ESCAPES = {ord("0"): 0, **dict(zip(b"bfnrtv", b"\b\f\n\r\t\v", strict=True))}
_CLASSES = {ord("d"): DIGITS, ord("s"): SPACE, ord("w"): WORD}
_HEX = frozenset(string.hexdigits.encode())
_DIGIT = frozenset(string.digits.encode())


def invalid(reason: str) -> PolicyError:
    """Return the refusal of a pattern that is not of the language."""
    return PolicyError(f"regex pattern is not valid ECMAScript: {reason}")


class Cursor:
    """A pattern and how far it has been read."""

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern
        self.position: int = 0

    def peek(self) -> int:
        """Return the next byte, -1 at the end."""
        return self.pattern[self.position] if self.position < len(self.pattern) else -1

    def take(self, token: bytes) -> bool:
        """Step over `token` if it comes next."""
        if not self.pattern.startswith(token, self.position):
            return False
        self.position += len(token)
        return True

    def ahead(self, count: int) -> bytes:
        """Return the next bytes without stepping over them."""
        return self.pattern[self.position : self.position + count]

    def digits(self) -> bytes:
        """Step over the digits that come next and return them."""
        start = self.position
        while self.peek() in _DIGIT:
            self.position += 1
        return self.pattern[start : self.position]

    def escapes_class(self) -> bool:
        """Tell whether the letter of an escape that comes next stands for a class."""
        return self.peek() >= 0 and self.peek() | 32 in _CLASSES

    def escapes_number(self) -> bool:
        """Tell whether the digit of an escape that comes next refers to a group; 0 does not."""
        return self.peek() in _DIGIT and self.peek() != ord("0")

    def escaped_set(self) -> int:
        """Return the bytes of an escape that is a class or one byte."""
        if not self.escapes_class():
            return 1 << self.escaped_byte()
        byte = self.peek()
        self.position += 1
        members = _CLASSES[byte | 32]
        return members if byte & 32 else complement(members)

    def escaped_byte(self) -> int:
        """Return the byte of an escape; letters without a meaning stand for themselves."""
        byte = self.peek()
        if byte < 0:
            raise invalid("Invalid escape at end of regular expression")
        self.position += 1
        if byte == ord("c"):
            return self.control()
        if byte in b"xu":
            return self.hexadecimal(2 if byte == ord("x") else 4, chr(byte))
        return _ESCAPES.get(byte, byte)

    def control(self) -> int:
        """Return the byte of a control escape: the letter itself, not the standard's control."""
        byte = self.peek()
        if byte < 0:
            raise invalid("invalid '\\cX' control character in regular expression")
        self.position += 1
        return byte

    def hexadecimal(self, count: int, letter: str) -> int:
        """Return the byte of a hexadecimal escape; of four digits only the last two count."""
        digits = self.pattern[self.position : self.position + count]
        if len(digits) < count or not _HEX.issuperset(digits):
            text = f"Invalid '\\{letter}{'N' * count}' control character in regular expression"
            raise invalid(text)
        self.position += count
        return int(digits, 16) & 0xFF
