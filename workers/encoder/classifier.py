"""The backend: a question laid out, encoded, and read by the head."""

import math
from typing import Protocol

from workers.backend import Answer
from workers.encoder.calibration import Calibration, confidence_of, shares_of
from workers.encoder.errors import FailedDecision
from workers.encoder.head import Head
from workers.encoder.layout import Layout, Sequence, Special
from workers.encoder.questions import ROUTING, Question
from workers.encoder.tensors import Array


class Rows(Protocol):
    """The encoder as this module needs it."""

    special: Special

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text."""
        ...

    def rows(self, ids: tuple[int, ...]) -> Array:
        """Return a row for each id."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


class Classifier:
    """Answers typed questions about texts; the routing question is laid out once."""

    name = "llama-cpp cpu"

    def __init__(self, encoder: Rows, head: Head, layout: Layout, calibration: Calibration) -> None:
        """Take a loaded model.

        Raises:
            FailedDecision: The routing question does not fit into it.
        """
        self._encoder = encoder
        self._head = head
        self._layout = layout
        self._calibration = calibration
        self._routing = layout.prefix(ROUTING)

    def classify(self, text: str) -> Answer:
        """Return the class of a text: code, prose or short.

        Raises:
            FailedDecision: The model failed on it.
        """
        return self._answer(ROUTING, self._routing, text)

    def ask(self, question: Question, state: object) -> Answer:
        """Return the likeliest label of any question.

        Args:
            question: Its options in the order the model shall see.
            state: Text, or any JSON value.

        Raises:
            FailedDecision: The options do not fit, or the model failed.
        """
        return self._answer(question, self._layout.prefix(question), state)

    def close(self) -> None:
        """Give the memory back."""
        self._encoder.close()

    def _answer(self, question: Question, prefix: Sequence, state: object) -> Answer:
        sequence = self._layout.complete(prefix, state)
        rows = self._encoder.rows(sequence.ids)
        logits = self._head.logits(rows, question.kind, sequence.markers)
        if not all(map(math.isfinite, logits)):
            raise FailedDecision("the model answered with what is no number")
        temperature = self._calibration.temperature(question.kind, len(logits))
        shares = shares_of(logits, temperature)
        best = max(range(len(shares)), key=shares.__getitem__)
        return Answer(
            label=question.labels[best],
            confidence=confidence_of(question.kind, shares),
            probabilities=dict(zip(question.labels, shares, strict=True)),
        )
