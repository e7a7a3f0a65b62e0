"""Reading the safetensors format: eight bytes of length, a JSON header, then the raw data.

Source: the format's description in its project's README; the bound on the header is this module's own.
"""

import json
import math
from pathlib import Path
from typing import TypeGuard

import numpy as np
from msgspec import Struct

from policies.shape import is_array, is_object
from workers.encoder.errors import UnusableModel
from workers.encoder.tensors import CONFIG, Array, Shape

_HEADER_MAX_BYTES = 16 << 20  # that of a model of 400 tensors has 50 kB
_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


class _Entry(Struct, frozen=True):
    dtype: str
    shape: Shape
    begin: int  # in the file
    size: int  # in bytes


class SafetensorsFile:
    """An open safetensors file: its header is read, no tensor is."""

    def __init__(self, path: Path) -> None:
        """Read and check the header.

        Raises:
            UnusableModel: It is no safetensors file, or its header does not fit the file.
        """
        self.path = path
        self.config: str | None = None
        header, data_at = self._header()
        data_size = path.stat().st_size - data_at
        self._entries: dict[str, _Entry] = {}
        for name, said in header.items():
            if name == "__metadata__":
                self.config = _config_of(said)
            else:
                self._entries[name] = self._entry(name, said, data_at, data_size)
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}

    def read(self, name: str) -> Array:
        """Return a tensor of `shapes`, as float32.

        Raises:
            UnusableModel: It is cut off, or holds no floating-point numbers.
        """
        entry = self._entries[name]
        width = _WIDTHS.get(entry.dtype)
        if width is None:
            raise UnusableModel(self.path, f"the tensor '{name}' is of type {entry.dtype}")
        if entry.size != width * math.prod(entry.shape):
            raise self._damaged(f"the tensor '{name}' has {entry.size} bytes for {entry.shape}")
        with self.path.open("rb") as file:
            file.seek(entry.begin)
            raw = file.read(entry.size)
        if len(raw) != entry.size:
            raise self._damaged(f"the tensor '{name}' is cut off")
        return _numbers(raw, entry.dtype).reshape(entry.shape)

    def _header(self) -> tuple[dict[str, object], int]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length > min(size - 8, _HEADER_MAX_BYTES):
                raise self._damaged(f"a header of {length} bytes in a file of {size}")
            raw = file.read(length)
        try:
            header: object = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"its header is not JSON: {error}") from error
        if not is_object(header):
            raise self._damaged("its header is no JSON object")
        return header, 8 + length

    def _entry(self, name: str, said: object, data_at: int, data_size: int) -> _Entry:
        if is_object(said):
            dtype, shape, offsets = said.get("dtype"), said.get("shape"), said.get("data_offsets")
            if isinstance(dtype, str) and _are_sizes(shape) and _are_sizes(offsets):
                match offsets:
                    case [begin, end] if begin <= end <= data_size:
                        return _Entry(dtype, tuple(shape), data_at + begin, end - begin)
                    case _:
                        pass
        raise self._damaged(f"its header places the tensor '{name}' outside of the file")

    def _damaged(self, reason: str) -> UnusableModel:
        return UnusableModel(self.path, f"not a whole safetensors file: {reason}")


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return is_array(value) and all(type(size) is int and size >= 0 for size in value)


def _config_of(metadata: object) -> str | None:
    text = metadata.get(CONFIG) if is_object(metadata) else None
    return text if isinstance(text, str) else None


def _numbers(raw: bytes, dtype: str) -> Array:
    if dtype == "BF16":  # the upper half of a float32
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    source = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype]
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused for it
        return np.frombuffer(raw, source).astype(np.float32)
