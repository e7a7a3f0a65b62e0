"""The seam to what tells code, prose and short texts apart."""

from typing import Protocol


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


class Backend(Protocol):
    """Classifies texts below the size gate."""

    def classify(self, text: str) -> Verdict:
        """Return the class of a text."""
        ...
