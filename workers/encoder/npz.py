"""Reading numpy's npz format: a zip of arrays. Nothing in it is ever unpickled.

An array's shape and type are read and compared with the member's size before it is unpacked, so neither a
header that promises terabytes nor a member that unpacks to them is followed.
"""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.lib import format as npy

from workers.encoder.errors import UnusableModel
from workers.encoder.tensors import CONFIG, CONFIG_MAX_BYTES, Array, Shape

_SUFFIX = ".npy"
_ARRAYS_MAX = 10_000
# RuntimeError: a member is encrypted, or packed in a way that zipfile does not know
_FAULTS = (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
_FLOATS = {"<f8", "<f4", "<f2"}


class _Entry(Struct, frozen=True):
    shape: Shape
    fortran: bool
    dtype: str
    begin: int  # in the unpacked member
    size: int  # in bytes


class NpzFile:
    """An open npz file: its headers are read, no array is."""

    def __init__(self, path: Path) -> None:
        """Read and check the headers.

        Raises:
            UnusableModel: It is no npz file, or a header does not fit its array.
        """
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                if len(members) > _ARRAYS_MAX:
                    raise UnusableModel(path, f"{len(members)} arrays are more than a model has")
                self._entries = {
                    member.filename.removesuffix(_SUFFIX): _entry(archive, member)
                    for member in members
                }
        except _FAULTS as error:
            raise self._damaged(error) from error
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}
        self.config = self._config()

    def read(self, name: str) -> Array:
        """Return an array of `shapes`, as float32.

        Raises:
            UnusableModel: It is cut off, or holds no floating-point numbers.
        """
        entry = self._entries[name]
        if entry.dtype not in _FLOATS:
            raise UnusableModel(self.path, f"the tensor '{name}' is of type {entry.dtype}")
        numbers = np.frombuffer(self._raw(name), entry.dtype)
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused for it
            array = numbers.astype(np.float32)
        return np.ascontiguousarray(array.reshape(entry.shape, order="F" if entry.fortran else "C"))

    def _raw(self, name: str) -> bytes:
        entry = self._entries[name]
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(name + _SUFFIX) as member:
                member.read(entry.begin)
                raw = member.read(entry.size)
        except (*_FAULTS, KeyError) as error:
            raise self._damaged(error) from error
        if len(raw) != entry.size:
            raise self._damaged(f"the tensor '{name}' is cut off")
        return raw

    def _config(self) -> str | None:
        """Return the configuration: one string, as numpy keeps it, or the bytes of its UTF-8."""
        entry = self._entries.get(CONFIG)
        if entry is None or entry.size > 4 * CONFIG_MAX_BYTES:
            return None
        encodings = {"<U": "utf-32-le", "|S": "utf-8", "|u1": "utf-8"}
        encoding = encodings.get(entry.dtype) or encodings.get(entry.dtype[:2])
        if encoding is None:
            return None
        return self._raw(CONFIG).decode(encoding, "replace").rstrip("\0")

    def _damaged(self, reason: object) -> UnusableModel:
        return UnusableModel(self.path, f"not a whole npz file: {reason}")


def _entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Entry:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{member.filename}' is packed in a way that numpy does not use")
    with archive.open(member) as file:
        # The second version exists for headers of 64 KB and more, and would be read whole.
        if npy.read_magic(file) != (1, 0):
            raise ValueError(f"'{member.filename}' is no array of version 1.0")
        shape, fortran, dtype = npy.read_array_header_1_0(file)
        begin = file.tell()
    size = dtype.itemsize * math.prod(shape)
    if begin + size != member.file_size:
        raise ValueError(f"'{member.filename}' has {member.file_size} bytes for {shape}")
    return _Entry(shape, fortran, dtype.str, begin, size)
