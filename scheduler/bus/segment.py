"""A segment of the journal as bytes: where it starts, and what happened from there on.

    "FLJ", one byte of format, then frames: header, checkpoint, and one frame a burst of events
    frame: length (4 bytes, little endian), CRC-32 of the payload (4 bytes), payload (MessagePack)

A burst is framed as a whole because it is written as a whole, before any effect of it is sent: what a
torn tail loses was never acted on. Reading is total: whatever the bytes are, only `BadSegment` escapes.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw, Struct

from scheduler.core.checkpoint import Checkpoint
from scheduler.core.entry import Fact
from scheduler.core.events import Event
from scheduler.errors import JournalError

FORMAT = 2  # of the frames, the header and what is kept of an effect
_MAGIC = b"FLJ"
_FRAME = struct.Struct("<II")
OVERHEAD = _FRAME.size
_FILE_MAX = 2**31  # bytes; a segment is a few megabytes
_BOOT_MAX = 2**31 - 2  # an epoch of the next boot still fits its 63 bits

# What happened, and what was decided on it. msgspec reads no union of text and bytes, so `Any` for `Fact`.
Kept = tuple[Event, list[list[Any]]]

_encode = msgspec.msgpack.Encoder().encode
_headers = msgspec.msgpack.Decoder(dict[str, Any])
_checkpoints = msgspec.msgpack.Decoder(Checkpoint)
_bursts = msgspec.msgpack.Decoder(list[Kept])
_events = msgspec.msgpack.Decoder(list[tuple[Event, Raw]])


class BadSegment(JournalError):
    """The bytes are no segment that this program can use."""


class Header(Struct, frozen=True, kw_only=True):
    """Who wrote a segment, when and on what machine."""

    shape: str  # digest of all that is in checkpoints and events
    boot: int  # the broker's count of its starts
    number: int  # of the segment within that start
    kernel: str  # id of the machine's own start, empty where it is unknown
    wall: float  # the same instant by both clocks, seconds
    monotonic: float


@cache
def shape() -> str:
    """Return a digest of what checkpoints and events consist of; it differs where they do."""
    schema = msgspec.json.schema(tuple[Checkpoint, Event])
    return hashlib.sha256(msgspec.json.encode(schema, order="sorted")).hexdigest()[:12]


def beginning(header: Header, checkpoint: Checkpoint) -> bytes:
    """Return the bytes a segment starts with."""
    frames = [frame(_encode(part)) for part in (header, checkpoint)]
    return b"".join([_MAGIC, bytes([FORMAT]), *frames])


def frame(payload: bytes) -> bytes:
    """Return the frame of a payload."""
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def burst(entries: list[tuple[Event, list[tuple[Fact, ...]]]]) -> bytes:
    """Return the frame of a burst."""
    return frame(_encode(entries))


class Reader:
    """One segment, read from its beginning on. A context manager."""

    def __init__(self, path: Path) -> None:
        """Open it and read as far as its checkpoint.

        Raises:
            BadSegment: It is none, or one of another version, or damaged so early.
            OSError: It cannot be read.
        """
        if not path.is_file():  # a pipe of that name would be waited on for ever
            raise BadSegment("it is no file")
        self._file: BinaryIO = path.open("rb")
        try:
            self.size = path.stat().st_size
            self.offset = 0  # of the first byte after the last good frame
            self.is_damaged = False  # a frame was there and is wrong; a torn tail is no damage
            self.header = self._header()
            self.checkpoint = self._checkpoint()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def left(self) -> int:
        """Bytes after the last good frame; not 0 at the end: a torn tail, or damage."""
        return self.size - self.offset

    def entries(self) -> Iterator[Kept]:
        """Yield each event with what was decided on it, as far as the frames are good.

        Raises:
            BadSegment: A good frame holds something else than a burst.
        """
        for payload in self._payloads():
            yield from _decoded(_bursts, payload)

    def events(self) -> Iterator[Event]:
        """Yield the events alone, as far as the frames are good.

        Raises:
            BadSegment: As `entries`.
        """
        for payload in self._payloads():
            for event, _ in _decoded(_events, payload):
                yield event

    def _payloads(self) -> Iterator[bytes]:
        while (payload := self._frame()) is not None:
            yield payload

    def _frame(self) -> bytes | None:
        """Return the next payload, or None where no whole good frame follows."""
        head = self._file.read(OVERHEAD)
        if len(head) < OVERHEAD:
            return None
        length, crc = _FRAME.unpack(head)
        if length > self.size - self.offset - OVERHEAD:
            return None
        payload = self._file.read(length)
        if length == 0 or zlib.crc32(payload) != crc:  # an empty one: zeros of a dead disk
            self.is_damaged = True
            return None
        self.offset += OVERHEAD + length
        return payload

    def _header(self) -> Header:
        start = self._file.read(len(_MAGIC) + 1)
        if start[: len(_MAGIC)] != _MAGIC or len(start) <= len(_MAGIC):
            raise BadSegment("it is no segment of a journal")
        if self.size > _FILE_MAX:
            raise BadSegment(f"it has {self.size} bytes; at most {_FILE_MAX} are read")
        self.offset = len(start)
        payload = self._frame()
        if payload is None:
            raise BadSegment("its header is torn")
        fields = _decoded(_headers, payload)
        if start[len(_MAGIC)] != FORMAT or fields.get("shape") != shape():
            raise BadSegment(
                "another version of Fairlane wrote it "
                f"(format {start[len(_MAGIC)]}-{fields.get('shape')}, this one has {FORMAT}-{shape()}); "
                "use the version that wrote it"
            )
        try:
            header = msgspec.convert(fields, Header)
        except msgspec.ValidationError as error:
            raise BadSegment(f"its header is wrong: {error}") from error
        if not 0 <= header.boot <= _BOOT_MAX:
            raise BadSegment(f"it names the boot {header.boot}")
        return header

    def _checkpoint(self) -> Checkpoint:
        payload = self._frame()
        if payload is None:
            raise BadSegment("its checkpoint is torn")
        checkpoint: Checkpoint = _decoded(_checkpoints, payload)
        return checkpoint


def _decoded(decoder: msgspec.msgpack.Decoder[Any], payload: bytes) -> Any:
    try:
        return decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadSegment(f"a frame holds something else: {error}") from error
