"""The seam to what tells code, prose and short texts apart.

BackendError       a text could not be classified; the policy's on_error applies, then the default model
  NotRunning       nothing could be asked at all: it starts, or has just died
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct


class BackendError(Exception):
    """A text could not be classified; the message says why and holds nothing of the text."""


class NotRunning(BackendError):
    """The backend starts or is down; it was not asked."""


class Verdict(Protocol):
    """What a backend says of a text."""

    @property
    def label(self) -> str:
        """The chosen class: code, prose or short."""
        ...

    @property
    def confidence(self) -> float:
        """1 - H(p)/ln 3, 0 to 1."""
        ...

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Label -> share, 0 to 1, in the order of the criteria; empty where the backend tells none."""
        ...


class Answer(Struct, frozen=True):
    """A verdict as most backends make it; fields as of `Verdict`."""

    label: str
    confidence: float
    probabilities: dict[str, float]


class Backend(Protocol):
    """Classifies texts below the size gate, one at a time."""

    @property
    def name(self) -> str:
        """What really decides, as status shows it: `builtin`, `laya-daemon cpu`."""
        ...

    def classify(self, text: str) -> Verdict:
        """Return the class of a text.

        Raises:
            BackendError: It cannot be told; the next text may be asked all the same.
        """
        ...

    def close(self) -> None:
        """Give back what the backend holds, a child process included. Nothing is asked afterwards."""
        ...
