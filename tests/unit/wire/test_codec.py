"""The codec's refusals, each with its words."""

import msgspec
import pytest

from scheduler.errors import ProtocolError
from scheduler.wire.codec import BODY_MAX, HEADER_MAX, decode, decode_limited, encode
from scheduler.wire.messages import Ack, Beat, Cancel, Done, Ready

PACK = msgspec.msgpack.encode
CANCEL, DONE, BEAT, READY = b"FL\x01\x11", b"FL\x01\x45", b"FL\x01\x41", b"FL\x01\x40"


def fault(header: bytes) -> str:
    """Return why a header is no message."""
    with pytest.raises(ProtocolError) as caught:
        decode(header)
    return str(caught.value)


def test_a_header_begins_with_magic_version_and_verb() -> None:
    assert encode(Cancel("a")) == CANCEL + PACK({"id": "a"})


def test_a_field_that_holds_its_default_is_left_out() -> None:
    assert encode(Done(1, 2, 3)) == DONE + PACK({"epoch": 1, "ticket": 2, "lease": 3})


@pytest.mark.parametrize("header", [b"", b"F", b"FL", b"GET / HTTP/1.1\r\n\r\n", b"XX\x01\x11\x80"])
def test_foreign_bytes_are_named_so(header: bytes) -> None:
    assert fault(header) == "not a Fairlane message"


def test_another_version_is_named() -> None:
    assert fault(b"FL\x02\x11\x80") == "protocol version 2; this broker speaks version 1"


def test_a_header_without_a_verb_is_refused() -> None:
    assert fault(b"FL\x01") == "no verb"


@pytest.mark.parametrize("verb", [0x00, 0x1F, 0x30, 0xFF])
def test_an_unknown_verb_is_refused(verb: int) -> None:
    assert fault(b"FL\x01" + bytes([verb]) + b"\x80") == f"unknown verb 0x{verb:02x}"


def test_a_header_is_read_up_to_its_limit() -> None:
    fields = {"epoch": 1, "ticket": 2, "lease": 3, "x": "y" * 16_000}
    fields["x"] = "y" * (16_000 + HEADER_MAX - len(DONE + PACK(fields)))
    longest = DONE + PACK(fields)
    assert len(longest) == HEADER_MAX
    assert decode(longest) == Done(1, 2, 3)


def test_a_header_beyond_the_limit_is_not_read() -> None:
    long = DONE + PACK({"epoch": 1, "ticket": 2, "lease": 3, "x": "y" * HEADER_MAX})
    assert fault(long) == f"header of {len(long)} bytes; at most {HEADER_MAX} are read"


def test_an_unknown_field_is_ignored() -> None:
    assert decode(CANCEL + PACK({"id": "a", "new": [1, {"b": 2}]})) == Cancel("a")
    assert decode(b"FL\x01\x45" + PACK({"epoch": 1, "ticket": 2, "lease": 3, "new": 4})) == Done(
        1, 2, 3
    )


@pytest.mark.parametrize(
    "header",
    [
        CANCEL + PACK({}),  # a field is missing
        CANCEL + PACK({"id": ""}),  # too short
        CANCEL + PACK({"id": "x" * 129}),  # too long
        CANCEL + PACK({"id": 1}),  # another type
        CANCEL + PACK({"id": None}),
        CANCEL + PACK(["a"]),  # no map
        CANCEL + PACK({b"id": "a"}),  # bytes for a name
        CANCEL + PACK({1: "a"}),
        DONE + PACK({"epoch": -1, "ticket": 2, "lease": 3}),
        DONE + PACK({"epoch": 2**63, "ticket": 2, "lease": 3}),
        DONE + PACK({"epoch": 1.0, "ticket": 2, "lease": 3}),
        DONE + PACK({"epoch": True, "ticket": 2, "lease": 3}),
        BEAT + PACK({"epoch": 1, "resident": ["m"] * 65}),
        READY + PACK({"kind": "gpu"}),
        b"FL\x01\x25" + PACK({"id": "a", "status": 200, "code": "c", "message": "m"}),
        b"FL\x01\x25" + PACK({"id": "a", "status": 400, "code": "c", "message": "m" * 4097}),
        b"FL\x01\x10" + PACK({"id": "a", "op": "embed"}),
    ],
)
def test_a_value_out_of_its_range_is_refused_with_its_verb(header: bytes) -> None:
    assert fault(header).startswith(f"verb 0x{header[3]:02x}: ")


@pytest.mark.parametrize("verb", [CANCEL, DONE])
def test_deep_nesting_is_refused(verb: bytes) -> None:
    assert fault(verb + b"\x81\xa1x" + b"\x91" * 10_000 + b"\x90").startswith("verb 0x")


@pytest.mark.parametrize(
    "packed",
    [
        b"\xdf\xff\xff\xff\xff",  # a map said to hold four milliard entries
        b"\x81\xa2id\xdd\xff\xff\xff\xff",  # a list that long
        b"\x81\xa2id\xdb\xff\xff\xff\xff",  # a text that long
        b"\x81\xa2id\xc7\x01\x05x",  # an extension type
        b"\x81\xa2id\xa1\xff",  # a text that is no UTF-8
        b"\xc1",  # a byte MessagePack never uses
        b"",
    ],
)
def test_bytes_that_lie_about_their_length_or_type_are_refused(packed: bytes) -> None:
    assert fault(CANCEL + packed).startswith("verb 0x11: ")


def test_a_cold_verb_limits_its_containers() -> None:
    assert decode(CANCEL + PACK({"id": "a", "x": list(range(256))})) == Cancel("a")
    assert "max_array_len" in fault(CANCEL + PACK({"id": "a", "x": list(range(257))}))
    assert "max_map_len" in fault(CANCEL + PACK({"id": "a"} | {str(n): n for n in range(64)}))


def test_both_decoders_refuse_alike() -> None:
    for header in (BEAT + PACK({"epoch": "1"}), b"FL\x01", b"FL\x01\x99\x80"):
        with pytest.raises(ProtocolError):
            decode_limited(header)


def test_messages_equal_by_value() -> None:
    assert decode(encode(Beat(1, ["m"]))) == Beat(1, ["m"])
    assert decode(encode(Ack("a"))) != Cancel("a")
    assert isinstance(decode(encode(Ready("n", "hrx", "hrx0", 1, 2.0, "x", 1, "b"))), Ready)


def test_the_body_limit_is_that_of_an_http_body() -> None:
    assert BODY_MAX == 16 * 1024 * 1024
