"""Fitting a three-class logistic regression over hashed features, full batch.

numpy is a training dependency only. Full-batch steps from zero with no draws: the same prompts give
the same weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workers.builtin.features import BUCKETS, features
from workers.builtin.templates import CLASSES, Prompt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Settings:
    """What cross-validation chose; see MODEL_CARD.md."""

    decay: float = 1e-6
    steps: int = 60
    rate: float = 0.15


@dataclass(frozen=True)
class Matrix:
    """Active buckets, row after row: row i is `buckets[starts[i]:starts[i + 1]]`."""

    buckets: Ints
    starts: Ints
    scales: Floats


def matrix(texts: list[str]) -> Matrix:
    """The features of each text as rows."""
    rows = [sorted(features(text)) for text in texts]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Matrix(
        buckets=np.array([bucket for row in rows for bucket in row], dtype=np.int64),
        starts=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
        scales=1.0 / np.sqrt(lengths.astype(np.float64)),
    )


def logits(weights: Floats, bias: Floats, x: Matrix) -> Floats:
    """One row of class scores for each row of `x`."""
    sums = np.add.reduceat(weights[x.buckets], x.starts[:-1], axis=0)
    scores: Floats = sums * x.scales[:, None] + bias
    return scores


def softmax(scores: Floats) -> Floats:
    """Probabilities by row."""
    powers: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares


def fit(x: Matrix, labels: Ints, masses: Floats, settings: Settings) -> tuple[Floats, Floats]:
    """Weights by bucket and class, and the bias, minimising weighted log loss with decay by Adam.

    Args:
        x: Rows of features.
        labels: The class number of each row.
        masses: What each row counts; sums to 1.
        settings: Strength of decay, steps and rate.
    """
    classes = len(CLASSES)
    target = np.eye(classes)[labels]
    lengths = np.diff(x.starts)
    theta = np.zeros((BUCKETS + 1, classes))
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, settings.steps + 1):
        error = (softmax(logits(theta[:-1], theta[-1], x)) - target) * masses[:, None]
        spread = np.repeat(error * x.scales[:, None], lengths, axis=0)
        slope = np.empty_like(theta)
        for column in range(classes):
            slope[:-1, column] = np.bincount(
                x.buckets, weights=spread[:, column], minlength=BUCKETS
            )
        slope[-1] = error.sum(axis=0)
        slope[:-1] += settings.decay * theta[:-1]
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope * slope
        rate = settings.rate * (1.0 - step / (settings.steps + 1))
        theta -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return theta[:-1], theta[-1]


def row_masses(prompts: list[Prompt], shares: dict[str, float]) -> Floats:
    """What each prompt counts: classes equally, a class's sources by share and root of count."""
    counts: dict[tuple[str, str], int] = {}
    for prompt in prompts:
        key = (prompt.label, prompt.source)
        counts[key] = counts.get(key, 0) + 1
    weight = {key: shares.get(key[1], 1.0) * count**0.5 for key, count in counts.items()}
    total = {
        label: sum(value for key, value in weight.items() if key[0] == label) for label in CLASSES
    }
    return np.array(
        [
            weight[prompt.label, prompt.source]
            / counts[prompt.label, prompt.source]
            / total[prompt.label]
            / len(CLASSES)
            for prompt in prompts
        ]
    )
