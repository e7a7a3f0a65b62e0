"""The texts in a GGUF file's metadata, read from the front and no further: no tensor is touched.

A file comes from somebody else, so nothing in it is believed: what it counts must fit into it, and all its
metadata into `_REGION_MAX`. That bounds time and memory whatever it says. llama.cpp is not asked: it loads a
quarter of a second, and ends the process over some files that it finds inconsistent.
Source: the GGUF format, versions 2 and 3, little-endian: magic, version, two counts, keys with typed values.
"""

import os
import stat
import struct
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from workers.badfile import BadFile

_KEYS_MAX = 4096  # files have dozens
_TENSORS_MAX = 1 << 20
_KEY_MAX = 65_535  # bytes, as the format says
_TEXT_MAX = 1 << 20  # bytes of a text that is returned: templates have up to some 50,000
_TEXTS_MAX = 1 << 22  # of all arrays together: a vocabulary of 262,144 comes with 514,906 merges
_REGION_MAX = 256 << 20  # bytes of all metadata: the largest vocabularies take 16 MiB
_KEY_LEAST = 13  # bytes: an empty key's length, a type, a value
_TENSOR_LEAST = 24  # bytes: an empty name's length, a count of no dimensions, a type, an offset
_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value
_SWAPPED = frozenset({2 << 24, 3 << 24})  # versions with their bytes in the other order
_CHUNK = 1 << 18  # bytes read at once
_LENGTH = struct.Struct("<Q")


def texts(
    path: Path, is_wanted: Callable[[str], bool], count: Callable[[int], object] = lambda _: None
) -> Generator[tuple[str, str]]:
    """Yield the wanted keys of a file with their texts, in the file's order.

    Lazy: who stops early leaves the rest unread, and unchecked. The file is opened at the first step.

    Args:
        path: A regular file.
        is_wanted: Says of a key whether its text is; the value of a wanted key must be a text.
        count: Takes the number of bytes of each read.

    Raises:
        BadFile: It cannot be read, or is no whole GGUF.
    """
    with _opened(path, count) as source:
        yield from _texts(source, is_wanted)


def least_size(path: Path) -> int:
    """Return how many bytes a file must have at least: where the last of its tensors begins, and one more.

    Raises:
        BadFile: It cannot be read, or ends before its tensors do.
    """
    with _opened(path) as source:
        tensors = int.from_bytes(source.peek(16)[8:], "little")
        for _ in _texts(source, lambda _key: False):
            pass
        last = 0
        for _ in range(tensors):
            _text(source, _KEY_MAX)
            source.skip(8 * source.number(4) + 4)  # its dimensions and its type
            last = max(last, source.number(8))
        return source.place() + last + 1 if tensors else source.place()


@contextmanager
def _opened(path: Path, count: Callable[[int], object] = lambda _: None) -> Generator["_Source"]:
    """Open a file; what is wrong with it, from then on too, is a `BadFile`."""
    try:
        # without waiting: a pipe of this name has nobody at its other end
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise BadFile(path, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise BadFile(path, f"cannot be opened: {error}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadFile(path, "it is no regular file")
        yield _Source(descriptor, status.st_size, count)
    except OSError as error:
        raise BadFile(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadFile(path, f"not a whole GGUF file: {error}") from error
    finally:
        os.close(descriptor)


def architecture_of(path: Path) -> str:
    """Return the architecture a model file names; empty if it names none.

    Raises:
        BadFile: It cannot be read, or is no GGUF as far as it was read.
    """
    with closing(texts(path, "general.architecture".__eq__)) as found:
        return next((text for _, text in found), "")


class _Source:
    """A file read forward, a chunk at a time."""

    def __init__(self, descriptor: int, size: int, count: Callable[[int], object]) -> None:
        self._descriptor = descriptor
        self._size = size
        self._count = count
        self._held = b""  # what was read and not passed yet, and some that was
        self._at = 0  # place in it
        self._held_at = 0  # its place in the file

    def left(self) -> int:
        """Return how many bytes are ahead."""
        return self._size - self._held_at - self._at

    def place(self) -> int:
        """Return how many bytes are behind."""
        return self._held_at + self._at

    def peek(self, length: int) -> bytes:
        """Return the next bytes and stay before them."""
        self._need(length)
        return self._held[self._at : self._at + length]

    def take(self, length: int) -> bytes:
        """Return the next bytes."""
        self._need(length)
        begin = self._at
        self._at += length
        return self._held[begin : self._at]

    def number(self, width: int) -> int:
        """Return the next unsigned number of so many bytes."""
        return int.from_bytes(self.take(width), "little")

    def skip(self, length: int) -> None:
        """Pass bytes; those that are not held are not read."""
        self._fit(length)
        self._at += length
        if self._at > len(self._held):
            self._held_at += self._at
            self._held, self._at = b"", 0

    def skip_texts(self, count: int) -> None:
        """Pass texts, each after its length. Of 262,144 it is the loop that takes the time."""
        unpack = _LENGTH.unpack_from
        while count:
            self._need(_LENGTH.size)
            held, last, at, left = self._held, len(self._held) - _LENGTH.size, self._at, count
            for left in range(count - 1, -1, -1):  # noqa: B007  # it is how far the loop got
                at += _LENGTH.size + unpack(held, at)[0]
                if at > last:
                    break
            count = left
            self.skip(at - self._at)

    def _need(self, length: int) -> None:
        """Hold so many bytes from here on."""
        self._fit(length)
        while len(self._held) - self._at < length:
            rest = self._held[self._at :]
            self._held_at += self._at
            more = os.pread(self._descriptor, max(_CHUNK, length), self._held_at + len(rest))
            if not more:
                raise ValueError("it became shorter while it was read")
            self._count(len(more))
            self._held, self._at = rest + more, 0

    def _fit(self, length: int) -> None:
        if length > self.left():
            raise ValueError(f"{length} bytes are to come and it ends after {self.left()}")
        if self._held_at + self._at + length > _REGION_MAX:
            raise ValueError(f"its metadata take more than {_REGION_MAX} bytes")


def _texts(source: _Source, is_wanted: Callable[[str], bool]) -> Generator[tuple[str, str]]:
    magic, version = source.take(4), source.number(4)
    if magic == b"GGUF" and version in _SWAPPED:
        raise ValueError("it is big-endian, which no engine here reads")
    if magic != b"GGUF" or version not in {2, 3}:
        raise ValueError(f"it begins with {magic!r}, version {version}")
    tensors, keys = source.number(8), source.number(8)
    if tensors > _TENSORS_MAX or keys > _KEYS_MAX:
        raise ValueError(f"it counts {tensors} tensors and {keys} keys")
    if keys * _KEY_LEAST + tensors * _TENSOR_LEAST > source.left():
        raise ValueError(f"{tensors} tensors and {keys} keys do not fit into it")
    seen: set[str] = set()
    room = _TEXTS_MAX
    for _ in range(keys):
        key = _text(source, _KEY_MAX)
        if key in seen:  # readers would disagree about which one counts
            raise ValueError(f"the key {key!r} is there twice")
        seen.add(key)
        kind = source.number(4)
        if is_wanted(key):
            if kind != _STRING:
                raise ValueError(f"{key!r} is no text but a value of type {kind}")
            yield key, _text(source, _TEXT_MAX)
        else:
            room -= _skip(source, kind, room)


def _text(source: _Source, longest: int) -> str:
    length = source.number(8)
    if length > longest:
        raise ValueError(f"a text of {length} bytes")
    return source.take(length).decode()


def _skip(source: _Source, kind: int, room: int) -> int:
    """Pass a value; return how many texts were in it."""
    if kind == _STRING:
        source.skip_texts(1)
        return 1
    if kind != _ARRAY:
        source.skip(_width(kind))
        return 0
    item, count = source.number(4), source.number(8)
    if item != _STRING:
        source.skip(_width(item) * count)
        return 0
    if count > room:
        raise ValueError(f"an array of {count} texts")
    source.skip_texts(count)
    return count


def _width(kind: int) -> int:
    if kind not in _WIDTHS:  # an array in an array among them: no reader knows those
        raise ValueError(f"a value of type {kind}")
    return _WIDTHS[kind]
