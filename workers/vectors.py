"""The vector of a text: pooled, and of length 1. Pure."""

import base64
import math
import struct
from typing import Any


def pooled(vector: list[Any]) -> list[float]:
    """Return one vector of a text: itself, or the mean of its tokens' vectors."""
    if not vector or not isinstance(vector[0], list):
        return vector
    return [sum(column) / len(vector) for column in zip(*vector, strict=True)]


def packed(vector: list[float]) -> str:
    """Return a vector as OpenAI writes it in base64: little-endian numbers of four bytes."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def unit(vector: list[float]) -> list[float]:
    """Return a vector of length 1 in the same direction; a zero vector stays."""
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else vector
