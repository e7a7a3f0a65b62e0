"""What can be wrong with a decision model: its files, once, or one question, each time it is asked.

BackendError
  UnusableModel    the encoder's file or the head's
  FailedDecision   one question; the next one may be decided
"""

from pathlib import Path

from workers.backend import BackendError


class UnusableModel(BackendError):
    """A file cannot be used; the message names it, the reason and, where there is one, the remedy."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class FailedDecision(BackendError):
    """One question could not be decided; the message holds nothing of it."""
