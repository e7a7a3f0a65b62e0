"""A model file, or one that comes with it, that cannot be used."""

from pathlib import Path


class BadFile(Exception):
    """A file cannot be used; the message names it and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
