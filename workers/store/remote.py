"""What a hub has of a file, and why it does not give it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import Struct


class HubError(Exception):
    """The hub did not give what was asked.

    Attributes:
        again: Whether it may help to ask again.
        after_s: How long the hub wants to be left alone before that; 0: it does not say.
    """

    def __init__(self, text: str, *, again: bool = False, after_s: float = 0.0) -> None:
        super().__init__(text)
        self.again = again
        self.after_s = after_s


class Remote(Struct, frozen=True):
    """One content of one file, as the hub says.

    Attributes:
        etag: SHA-256 of the content where the hub keeps it as a large file, else git's digest.
        size: Bytes; None: it does not say.
    """

    repo: str
    file: str
    commit: str
    etag: str
    size: int | None


class Source(Protocol):
    """A hub."""

    @property
    def address(self) -> str:
        """Where it is."""
        ...

    def look(self, repo: str, file: str, commit: str | None = None) -> Remote:
        """Return what the hub has of a file, now or at a commit."""
        ...

    def files(self, repo: str) -> tuple[str, list[str]]:
        """Return the commit and the names of all files of a repository."""
        ...

    def read(
        self, remote: Remote, start: int
    ) -> AbstractContextManager[tuple[int, int | None, Iterator[bytes]]]:
        """Read a file from an offset on: where it really begins, the whole length, and the bytes."""
        ...
