"""PROTOCOL.md says what the code does."""

from scheduler.wire import codec
from scheduler.wire.verbs import FROM_CLIENT, FROM_WORKER, VERBS
from support import protocol_doc

TEXT = protocol_doc.DOCUMENT.read_text()


def test_the_verb_tables_are_those_of_the_code() -> None:
    fresh = protocol_doc.current(TEXT) == protocol_doc.section()
    assert fresh, "PROTOCOL.md is stale; run: python tests/support/protocol_doc.py"


def test_the_limits_it_names_are_those_of_the_code() -> None:
    assert f"{codec.HEADER_MAX:,} bytes".replace(",", " ") in TEXT
    assert f"{codec.BODY_MAX:,} bytes".replace(",", " ") in TEXT
    assert f"version is {codec.VERSION}" in TEXT


def test_every_verb_is_explained_in_an_exchange() -> None:
    prose = TEXT.replace(protocol_doc.current(TEXT), "")
    assert [k.__name__ for k in VERBS.values() if k.__name__.upper() not in prose] == []


def test_the_byte_of_a_verb_tells_its_direction() -> None:
    assert {kind for verb, kind in VERBS.items() if verb < 0x20} == FROM_CLIENT
    assert {kind for verb, kind in VERBS.items() if 0x40 <= verb < 0x50} == FROM_WORKER
