"""The vector of a text: pooled, and of length 1. Pure."""

import math
from typing import Any


def pooled(vector: list[Any]) -> list[float]:
    """Return one vector of a text: itself, or the mean of its tokens' vectors."""
    if not vector or not isinstance(vector[0], list):
        return vector
    return [sum(column) / len(vector) for column in zip(*vector, strict=True)]


def unit(vector: list[float]) -> list[float]:
    """Return a vector of length 1 in the same direction; a zero vector stays."""
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else vector
