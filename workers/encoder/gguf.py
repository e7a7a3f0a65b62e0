"""The architecture that a GGUF names, read before llama.cpp gets the file.

llama.cpp reads dozens of architectures: it would load a chat model of any size whole before anybody saw
that it is no encoder, and some that it finds inconsistent end the process. Source: the GGUF format, version 2
and 3: magic, version, two counts, then keys with typed values.
"""

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

from workers.encoder.errors import UnusableModel

_KEY = b"general.architecture"
_KEYS_MAX = 4096
_TEXT_MAX = 1 << 16  # bytes of a key, or of a name
_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value
_ITEMS_MAX = 1 << 20  # of an array of texts: vocabularies have 256,000


def architecture_of(path: Path) -> str:
    """Return the architecture a model file names; empty if it names none.

    Raises:
        UnusableModel: It cannot be read, or is no GGUF.
    """
    try:
        if not path.is_file():
            raise UnusableModel(path, "there is no such file")
        with path.open("rb") as file:
            return _architecture(file)
    except OSError as error:
        raise UnusableModel(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, struct.error) as error:
        raise UnusableModel(path, f"not a whole GGUF file: {error}") from error


def _architecture(file: BinaryIO) -> str:
    magic, version, _tensors, keys = _unpacked(file, "<4sIQQ")
    if magic != b"GGUF" or version not in (2, 3):
        raise ValueError(f"it begins with {magic!r}, version {version}")
    for _ in range(min(keys, _KEYS_MAX)):
        key = _text(file)
        (kind,) = _unpacked(file, "<I")
        if key == _KEY and kind == _STRING:
            return _text(file).decode("utf-8", "replace")
        _skip(file, kind)
    return ""


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        (length,) = _unpacked(file, "<Q")
        _move(file, length)
    elif kind == _ARRAY:
        item, count = _unpacked(file, "<IQ")
        if item != _STRING:
            _move(file, _width(item) * count)
            return
        if count > _ITEMS_MAX:
            raise ValueError(f"an array of {count} texts")
        for _ in range(count):
            _skip(file, _STRING)
    else:
        _move(file, _width(kind))


def _width(kind: int) -> int:
    if kind not in _WIDTHS:
        raise ValueError(f"a value of type {kind}")
    return _WIDTHS[kind]


def _text(file: BinaryIO) -> bytes:
    (length,) = _unpacked(file, "<Q")
    if length > _TEXT_MAX:
        raise ValueError(f"a name of {length} bytes")
    return file.read(length)


def _move(file: BinaryIO, length: int) -> None:
    if length > os.fstat(file.fileno()).st_size - file.tell():
        raise ValueError("a value ends outside of it")
    file.seek(length, os.SEEK_CUR)


def _unpacked(file: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack(layout, file.read(struct.calcsize(layout)))
