"""The weights file: how it is laid out, checked and written. Runtime reads it, training writes it.

Little-endian: magic, version, bucket bits, scale, three biases, then one signed byte for each
class of each bucket (code, prose, short beside each other), then the CRC-32 of all before it.
"""

import struct
from array import array
from collections.abc import Sequence
from zlib import crc32

import msgspec

from workers.builtin.features import BUCKET_BITS, BUCKETS

MAGIC = b"FLCLASS\0"
VERSION = 1

_HEAD = struct.Struct("<8sHHdddd")
_CRC = struct.Struct("<I")
_FIELD_BITS = 20
_FIELD = (1 << _FIELD_BITS) - 1
_OFFSET = 128


class WeightsDamagedError(Exception):
    """The classifier's weights file cannot be used; reinstall the package or train again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the builtin classifier's weights are damaged: {reason}")
        self.reason = reason


class Weights(msgspec.Struct, frozen=True):
    """A linear model over buckets.

    A class scores `bias + scale * (sum of its bytes over the active buckets) / sqrt(their number)`.
    """

    scale: float
    bias: tuple[float, float, float]
    table: Sequence[int]

    def sums(self, buckets: set[int]) -> tuple[int, int, int]:
        """The three classes' byte sums: exact integers, so the order of the set cannot matter."""
        total = sum(map(self.table.__getitem__, buckets))
        offset = _OFFSET * len(buckets)
        return (
            (total & _FIELD) - offset,
            (total >> _FIELD_BITS & _FIELD) - offset,
            (total >> 2 * _FIELD_BITS) - offset,
        )


def unpack(blob: bytes) -> Weights:
    """The weights in `blob`.

    Three bytes become one 60-bit number of three fields, each lifted by 128 to be positive, so that
    one `sum` adds all classes at once; 20 bits hold the sum of 4,112 features, far more than the
    features of a text.

    Raises:
        WeightsDamagedError: Anything in the file is not as `pack` writes it.
    """
    if len(blob) < _HEAD.size + _CRC.size or blob[: len(MAGIC)] != MAGIC:
        raise WeightsDamagedError("this is not a weights file")
    _, version, bits, scale, *bias = _HEAD.unpack_from(blob)
    if version != VERSION:
        raise WeightsDamagedError(f"version {version}, and this code reads version {VERSION}")
    if crc32(blob[: -_CRC.size]) != _CRC.unpack(blob[-_CRC.size :])[0]:
        raise WeightsDamagedError("the checksum does not match")
    weights = array("b", blob[_HEAD.size : -_CRC.size])
    if bits != BUCKET_BITS or len(weights) != 3 * BUCKETS:
        raise WeightsDamagedError(f"{len(weights)} weights for {bits} bits of buckets")
    table = array(
        "q",
        (
            code + _OFFSET | (prose + _OFFSET) << _FIELD_BITS | (short + _OFFSET) << 2 * _FIELD_BITS
            for code, prose, short in zip(weights[::3], weights[1::3], weights[2::3], strict=True)
        ),
    )
    return Weights(scale=scale, bias=(bias[0], bias[1], bias[2]), table=table)


def pack(weights: bytes, *, scale: float, bias: tuple[float, float, float]) -> bytes:
    """The file's bytes.

    Args:
        weights: Signed bytes, three to a bucket.
        scale: What one step of a byte is worth.
        bias: Added to the scores, in the order of the classes.
    """
    body = _HEAD.pack(MAGIC, VERSION, BUCKET_BITS, scale, *bias) + weights
    return body + _CRC.pack(crc32(body))
