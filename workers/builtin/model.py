"""The builtin classifier: whether a request's answer will be code, prose or short, and how surely.

Standard library and msgspec only. The same text gives the same verdict on every machine: byte
features, integer sums, and no library function that may round its own way.
"""

from collections.abc import Iterable
from importlib.resources import files
from math import sqrt
from typing import Self

import msgspec

from workers.builtin.features import features
from workers.builtin.portable import exp, ln
from workers.builtin.weights import Weights, unpack

LABELS = ("code", "prose", "short")


class Verdict(msgspec.Struct, frozen=True):
    """One decision: the likeliest label, how surely, and the probabilities in `LABELS` order."""

    label: str
    confidence: float
    probabilities: dict[str, float]


class Builtin:
    """The classifier with its weights in memory; it keeps no state, so one serves every request."""

    __slots__ = ("_weights",)

    name = "builtin"

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    @classmethod
    def load(cls) -> Self:
        """Read the weights shipped in this package.

        Raises:
            WeightsDamagedError: The file is not what training wrote.
            FileNotFoundError: The file is missing from the installation.
        """
        return cls(unpack((files("workers.builtin") / "weights.bin").read_bytes()))

    def classify(self, text: str) -> Verdict:
        """Decide on any text, the empty one and lone surrogates included."""
        buckets = features(text)
        step = self._weights.scale / sqrt(len(buckets))
        scores = [
            total * step + bias
            for total, bias in zip(self._weights.sums(buckets), self._weights.bias, strict=True)
        ]
        shares = _softmax(scores)
        best = max(range(len(LABELS)), key=shares.__getitem__)
        return Verdict(
            label=LABELS[best],
            confidence=confidence(shares),
            probabilities=dict(zip(LABELS, shares, strict=True)),
        )

    def close(self) -> None:
        """Do nothing: it holds nothing but memory."""


def confidence(probabilities: Iterable[float]) -> float:
    """One minus the entropy as a share of its maximum: 1 for certainty, 0 for an even split.

    Args:
        probabilities: Of every option; they sum to 1.

    Source: the decision model's answer format, `1 - H(p) / ln k` in nats.
    """
    shares = list(probabilities)
    negative = 0.0  # added one by one: what `sum` does with floats depends on the Python version
    for share in shares:
        if share > 0.0:
            negative += share * ln(share)
    return min(max(1.0 + negative / ln(len(shares)), 0.0), 1.0)


def _softmax(scores: list[float]) -> list[float]:
    highest = max(scores)
    powers = [exp(score - highest) for score in scores]
    total = 0.0
    for power in powers:
        total += power
    return [power / total for power in powers]
