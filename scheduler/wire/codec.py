"""Frames to messages and back.

Rules of this file: pure; only `ProtocolError` escapes `decode`, whatever the bytes are. A message is
two frames, a header and a body: the header is `FL`, one version byte, one verb byte, then one
MessagePack map. Both decoders below read the same bytes to the same message (the golden vectors hold
them to it): verbs on the hot path go straight through msgspec behind the length cap, the others
through `msgpack` with a limit on every container first.
"""

import msgpack
import msgspec

from scheduler.errors import ProtocolError
from scheduler.wire.messages import (
    Ask,
    Beat,
    Chunk,
    Decide,
    Decision,
    Done,
    Final,
    Message,
    Note,
    Partial,
    Placed,
    Run,
    Staged,
)
from scheduler.wire.verbs import VERBS

VERSION = 1
MAGIC = b"FL" + bytes([VERSION])
HEADER_MAX = 16 * 1024  # bytes; the longest honest header is a refusal of about 5 KiB
BODY_MAX = 16 * 1024 * 1024  # bytes; the same bound the gateway puts on an HTTP body
_PREFIX = len(MAGIC) + 1

_encoder = msgspec.msgpack.Encoder()
_prefix_of: dict[type[Message], bytes] = {
    kind: MAGIC + bytes([verb]) for verb, kind in VERBS.items()
}
_HOT: frozenset[type[Message]] = frozenset(
    {Ask, Beat, Decide, Decision, Run, Staged, Chunk, Done, Placed, Note, Partial, Final}
)
_decoder_of: dict[int, msgspec.msgpack.Decoder[Message]] = {
    verb: msgspec.msgpack.Decoder(kind) for verb, kind in VERBS.items() if kind in _HOT
}


def encode(message: Message) -> bytes:
    """Return the header frame of a message."""
    return _prefix_of[type(message)] + _encoder.encode(message)


def decode(header: bytes) -> Message:
    """Return the message of a header frame.

    Raises:
        ProtocolError: The bytes are no message of this version: wrong magic, unknown verb, too
            long, truncated, trailing bytes, a missing field or a value out of its range.
    """
    verb = _verb_of(header)
    decoder = _decoder_of.get(verb)
    try:
        if decoder is not None:
            return decoder.decode(memoryview(header)[_PREFIX:])
        return decode_limited(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"verb 0x{verb:02x}: {error}") from error


def decode_limited(header: bytes) -> Message:
    """Decode any verb through `msgpack` with a limit on every container.

    Raises:
        ProtocolError: As `decode`.
    """
    verb = _verb_of(header)
    kind = VERBS.get(verb)
    if kind is None:
        raise ProtocolError(f"unknown verb 0x{verb:02x}" if verb >= 0 else "no verb")
    try:
        fields = _unpack(header[_PREFIX:])
        return msgspec.convert(fields, kind)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise ProtocolError(f"verb 0x{verb:02x}: {error}") from error


def _verb_of(header: bytes) -> int:
    if len(header) > HEADER_MAX:
        raise ProtocolError(f"header of {len(header)} bytes; at most {HEADER_MAX} are read")
    if header[:3] != MAGIC:
        raise ProtocolError(_wrong_magic(header))
    return header[3] if len(header) > 3 else -1


def _unpack(packed: bytes) -> object:
    fields: object = msgpack.unpackb(  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # untyped library
        packed,
        max_map_len=64,
        max_array_len=256,
        max_str_len=HEADER_MAX,
        max_bin_len=HEADER_MAX,
        max_ext_len=0,
        strict_map_key=True,
    )
    return fields  # pyright: ignore[reportUnknownVariableType]


def _wrong_magic(header: bytes) -> str:
    if header[:2] == b"FL" and len(header) > 2:
        return f"protocol version {header[2]}; this broker speaks version {VERSION}"
    return "not a Fairlane message"
