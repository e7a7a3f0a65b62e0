"""Reading a bracket expression such as `[a-z_]`, `[^]` or `[[:digit:]]`."""

from policies.ecma.classes import CHARACTERS, CLASSES, byte_range, complement, equivalents
from policies.ecma.cursor import Cursor, invalid

_NAMED = (b"[.", b"[:", b"[=")
_BAD_BRACKET = "Unexpected character within '[...]' in regular expression"


class Bracket:
    """Reads one bracket expression, from after the sign that opens it.

    Attributes:
        members: The bytes so far.
        last: The last single byte, which a dash may turn into the start of a range; `None` after
            a range or at the start.
        after_class: The last member was a class, which cannot start a range.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.members = 0
        self.last: int | None = None
        self.after_class = False

    def read(self) -> int:
        """Read up to the closing sign and return the bytes that match."""
        negative = self.cursor.take(b"^")
        while not self.cursor.take(b"]"):
            if self.cursor.peek() < 0:
                raise invalid(_BAD_BRACKET)
            self._member()
        return complement(self.members) if negative else self.members

    def _member(self) -> None:
        if self.cursor.take(b"-"):
            self._dash()
            return
        for token in _NAMED:
            if self.cursor.take(token):
                self._named(token)
                return
        byte = self._single()
        if byte is None:
            self._add_class(self.cursor.escaped_set())
        else:
            self._add(byte)

    def _add(self, byte: int) -> None:
        self.members |= 1 << byte
        self.last, self.after_class = byte, False

    def _add_class(self, members: int) -> None:
        self.members |= members
        self.last, self.after_class = None, True

    def _single(self) -> int | None:
        """Read one byte; `None` before an escaped class, which is left to be read."""
        byte = self.cursor.peek()
        self.cursor.position += 1
        if byte != ord("\\"):
            return byte
        if self.cursor.peek() < 0:
            raise invalid("Invalid escape in regular expression")
        if self.cursor.escapes_number() or self.cursor.peek() == ord("B"):
            raise invalid(_BAD_BRACKET)
        return None if self.cursor.escapes_class() else self.cursor.escaped_byte()

    def _dash(self) -> None:
        """Read what follows a dash: a member of its own at an end or after a range."""
        following = self.cursor.peek()
        if following == ord("]") or (self.last is None and not self.after_class):
            self._add(ord("-"))
            return
        if self.last is None:
            raise invalid("Invalid start of '[x-x]' range in regular expression")
        if self.cursor.ahead(2) in _NAMED:
            raise invalid("Invalid end of '[x-x]' range in regular expression")
        end = None if following < 0 else self._single()
        if end is None:
            raise invalid("Invalid end of '[x-x]' range in regular expression")
        members = byte_range(self.last, end)
        if members is None:
            raise invalid("Invalid range in bracket expression.")
        self.members |= members
        self.last = None

    def _named(self, token: bytes) -> None:
        """Read the rest of `[:alpha:]`, `[=a=]` or `[.hyphen.]`."""
        mark = token[1:]
        start = self.cursor.position
        end = self.cursor.pattern.find(mark, start)
        name = self.cursor.pattern[start:end]
        if end < 0 or self.cursor.pattern[end + 1 : end + 2] != b"]":
            what = "character class" if mark == b":" else "collate element"
            raise invalid(f"Invalid {what} in regular expression")
        self.cursor.position = end + 2
        if mark == b":":
            self._add_class(_class_of(name))
            return
        byte = CHARACTERS.get(name)
        if byte is None:
            what = "collate element" if mark == b"." else "equivalence class"
            raise invalid(f"Invalid {what}.")
        if mark == b".":
            self._add(byte)
        else:
            self._add_class(equivalents(byte))


def _class_of(name: bytes) -> int:
    members = CLASSES.get(name.lower())
    if members is None:
        raise invalid("Invalid character class.")
    return members
