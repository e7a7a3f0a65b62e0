"""The codec under values and bytes that nobody thought of."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect as shapes

from scheduler.errors import ProtocolError
from scheduler.wire.codec import HEADER_MAX, decode, decode_limited, encode
from scheduler.wire.messages import Message
from scheduler.wire.verbs import VERBS
from support.vectors import load

KINDS = [pytest.param(kind, id=kind.__name__) for kind in VERBS.values()]
HEADERS = [vector.header for vector in load()]


def values(kind: shapes.Type) -> st.SearchStrategy[object]:  # noqa: C901, PLR0911  # one branch a type
    """Return what a field of a type may hold, its bounds included."""
    match kind:
        case shapes.StrType():
            text = st.characters(codec="utf-8")
            return st.text(
                text, min_size=kind.min_length or 0, max_size=min(kind.max_length or 30, 30)
            )
        case shapes.IntType():
            low, high = kind.ge, kind.le
            return st.integers(
                -(2**63) if low is None else low, 2**63 - 1 if high is None else high
            )
        case shapes.FloatType():
            return st.floats(kind.ge, kind.le, allow_nan=False)
        case shapes.BoolType():
            return st.booleans()
        case shapes.NoneType():
            return st.none()
        case shapes.LiteralType():
            return st.sampled_from(kind.values)
        case shapes.ListType():
            return st.lists(values(kind.item_type), max_size=8)
        case shapes.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type), max_size=8)
        case shapes.UnionType():
            return st.one_of([values(one) for one in kind.types])
        case shapes.StructType():
            return structs(kind.cls)
        case _:
            raise AssertionError(kind)


def structs(kind: type) -> st.SearchStrategy[object]:
    """Return the values of a Struct."""
    info = shapes.type_info(kind)
    assert isinstance(info, shapes.StructType)
    return st.builds(kind, **{field.name: values(field.type) for field in info.fields})


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_message_survives_the_wire(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(structs(kind))
    assert isinstance(message, Message)
    assert decode(encode(message)) == message
    assert decode_limited(encode(message)) == message


@pytest.mark.parametrize("read", [decode, decode_limited])
@given(rest=st.binary(max_size=200), verb=st.sampled_from(sorted(VERBS)))
def test_arbitrary_bytes_raise_nothing_but_a_protocol_error(
    read: Callable[[bytes], Message], rest: bytes, verb: int
) -> None:
    for header in (rest, b"FL\x01" + bytes([verb]) + rest):
        survives(read, header)


@pytest.mark.parametrize("read", [decode, decode_limited])
@given(value=st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.binary() | st.integers(0, 9), inner),
    max_leaves=20,
), verb=st.sampled_from(sorted(VERBS)))  # fmt: skip
def test_any_messagepack_value_raises_nothing_but_a_protocol_error(
    read: Callable[[bytes], Message], value: object, verb: int
) -> None:
    survives(read, b"FL\x01" + bytes([verb]) + msgspec.msgpack.encode(value))


@given(data=st.data())
def test_a_spliced_message_raises_nothing_but_a_protocol_error(data: st.DataObject) -> None:
    first, second = data.draw(st.sampled_from(HEADERS)), data.draw(st.sampled_from(HEADERS))
    cut = data.draw(st.integers(4, len(first)))
    resume = data.draw(st.integers(4, len(second)))
    survives(decode, first[:cut] + second[resume:])


@given(length=st.integers(HEADER_MAX + 1, HEADER_MAX + 4096))
def test_a_long_header_is_not_even_looked_at(length: int) -> None:
    with pytest.raises(ProtocolError, match="at most"):
        decode(b"FL\x01\x11".ljust(length, b"\x91"))


def survives(read: Callable[[bytes], Message], header: bytes) -> None:
    """Read a header; a message that comes of it is one that can be written again."""
    try:
        message = read(header)
    except ProtocolError:
        return
    assert type(message) in VERBS.values()
    assert repr(decode(encode(message))) == repr(message)
