"""The golden bytes, read and written. A vector may be added, never edited, within a version."""

from collections.abc import Callable

import pytest

from scheduler.errors import ProtocolError
from scheduler.wire.codec import decode, decode_limited, encode
from scheduler.wire.messages import Message
from scheduler.wire.verbs import VERBS
from support.vectors import Vector, load

VECTORS = load()
each = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
Decoder = Callable[[bytes], Message]
DECODERS: tuple[Decoder, ...] = (decode, decode_limited)


def test_every_verb_has_a_vector_and_every_name_is_used_once() -> None:
    assert {vector.verb for vector in VECTORS} == {kind.__name__ for kind in VERBS.values()}
    assert len({vector.name for vector in VECTORS}) == len(VECTORS)


@each
def test_a_message_is_written_to_its_bytes(vector: Vector) -> None:
    assert encode(vector.message).hex() == vector.hex


@each
@pytest.mark.parametrize("read", DECODERS)
def test_the_bytes_are_read_to_their_message(vector: Vector, read: Decoder) -> None:
    assert read(vector.header) == vector.message


@each
@pytest.mark.parametrize("read", DECODERS)
def test_a_truncated_header_is_no_message(vector: Vector, read: Decoder) -> None:
    for length in range(len(vector.header)):
        with pytest.raises(ProtocolError):
            read(vector.header[:length])


@each
@pytest.mark.parametrize("read", DECODERS)
def test_trailing_bytes_make_a_header_no_message(vector: Vector, read: Decoder) -> None:
    for more in (b"\x00", b"\xc0", b"\x80", vector.header):
        with pytest.raises(ProtocolError):
            read(vector.header + more)


@each
def test_a_flipped_byte_never_means_two_things(vector: Vector) -> None:
    for place in range(len(vector.header)):
        for flip in (0x01, 0x80, 0xFF):
            spoiled = bytearray(vector.header)
            spoiled[place] ^= flip
            said = {_outcome(read, bytes(spoiled)) for read in DECODERS}
            # one decoder may refuse what the other ignores, such as the text of an unknown field's name
            assert len(said - {"no message"}) <= 1, spoiled.hex()


def _outcome(read: Decoder, header: bytes) -> str:
    """Return the message as text (a NaN equals itself there), or that there is none."""
    try:
        return repr(read(header))
    except ProtocolError:
        return "no message"
