"""Small files under a root, read with a bound on everything: bytes, entries, time.

Rules of this file: whatever is in the tree - a pipe nobody writes, a device without an end, a loop of links,
bytes that are no text - ends in a value, `Unread` with a reason, or `Hung`.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from os import scandir
from pathlib import Path
from typing import TypeVar

from workers.sensors.guard import Guard
from workers.sensors.raw import Hung, Reason, Unread

T = TypeVar("T", bytes, list[str])

_TEXT_MAX = 4096  # bytes of a file of numbers or names
_ENTRIES_MAX = 4096  # of a directory
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class Files:
    """The tree under one root."""

    def __init__(self, root: Path, guard: Guard) -> None:
        """Read nothing yet.

        Args:
            root: Where `sys` and `proc` are.
            guard: Makes every call that touches the tree.
        """
        self._root = root
        self._guard = guard
        self._known: dict[str, bytes | list[str] | Unread | Hung] = {}  # of this round

    def forget(self) -> None:
        """Begin a round: within one, each file is read once, however many readings rest on it."""
        self._known.clear()

    def blob(self, path: str, most: int = _TEXT_MAX) -> bytes:
        """Return the first `most` bytes of a file.

        Raises:
            Unread: It is not there, or cannot be read.
            Hung: The read does not come back.
        """

        def read() -> bytes:
            with (self._root / path).open("rb", buffering=0) as file:
                return file.read(most) or b""

        return self._once(path, read)

    def text(self, path: str) -> str:
        """Return a small file as text, without the white space around it.

        Raises:
            Unread: As `blob`, or it is no UTF-8.
            Hung: As `blob`.
        """
        try:
            return self.blob(path).decode().strip()
        except UnicodeDecodeError as error:
            raise Unread(Reason.UNREADABLE) from error

    def integer(self, path: str) -> int:
        """Return a file that holds one whole number.

        Raises:
            Unread: As `text`, or it holds something else.
            Hung: As `blob`.
        """
        text = self.text(path)
        if not _INTEGER.fullmatch(text):
            raise Unread(Reason.UNREADABLE)
        return int(text)

    def names(self, path: str) -> list[str]:
        """Return what is in a directory, numbers in their order: hwmon2 before hwmon10.

        Raises:
            Unread: It is not there, or cannot be read.
            Hung: The call does not come back.
        """

        def read() -> list[str]:
            with scandir(self._root / path) as entries:
                return [entry.name for entry in islice(entries, _ENTRIES_MAX)]

        return sorted(self._once(f"{path}/", read), key=_numbered)

    def under(self, path: str, start: str) -> Iterator[str]:
        """Yield the paths of entries named `start` and a number; none where the directory is not there.

        Raises:
            Unread: It is there and cannot be read.
            Hung: The call does not come back.
        """
        try:
            names = self.names(path)
        except Unread as error:
            if error.reason is Reason.MISSING:
                return
            raise
        for name in names:
            if name.startswith(start) and name.removeprefix(start).isdecimal():
                yield f"{path}/{name}"

    def _once(self, name: str, read: Callable[[], T]) -> T:
        known = self._known.get(name)
        if known is None:
            try:
                known = self._guard.call(name, read)
            except (OSError, ValueError) as error:  # ValueError: a NUL in the name
                known = Unread(_why(error))
            except Hung as error:
                known = error
            self._known[name] = known
        if isinstance(known, Unread | Hung):
            raise known
        return known  # type: ignore[return-value]  # a directory's name ends in a slash, a file's does not


def _numbered(name: str) -> tuple[str, int, str]:
    digits = re.search(r"[0-9]{1,9}\Z", name, re.ASCII)
    return (name[: digits.start()], int(digits[0]), name) if digits else (name, -1, name)


def _why(error: Exception) -> Reason:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Reason.MISSING
    return Reason.DENIED if isinstance(error, PermissionError) else Reason.UNREADABLE
