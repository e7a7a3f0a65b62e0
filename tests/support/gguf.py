"""Writes GGUF files, version 3, as far as tests need them: values of a few types, float32 tensors."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Value = bool | int | float | str | list[str] | list[int]
_ALIGNMENT = 32
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


def write_gguf(
    path: Path, values: dict[str, Value], tensors: dict[str, NDArray[np.float64]]
) -> Path:
    """Write a file and return its path.

    Args:
        path: Where.
        values: Key -> value; ints become uint32, ints of a list int32.
        tensors: Name -> weights, written as float32; the file has their dimensions in reverse.
    """
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)))
    for key, value in values.items():
        head += _string(key) + _value(value)
    data = bytearray()
    for name, weights in tensors.items():
        head += _string(name) + struct.pack("<I", weights.ndim)
        head += struct.pack(f"<{weights.ndim}Q", *reversed(weights.shape))
        head += struct.pack("<IQ", 0, len(data))  # type 0 is float32
        data += _padded(weights.astype("<f4").tobytes())
    path.write_bytes(_padded(bytes(head)) + data)
    return path


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _string(value)
    kind = _STRING if isinstance(value[0], str) else _INT32
    items = [_string(x) if isinstance(x, str) else struct.pack("<i", x) for x in value]
    return struct.pack("<IIQ", _ARRAY, kind, len(items)) + b"".join(items)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padded(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % _ALIGNMENT)
