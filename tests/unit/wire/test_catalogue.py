"""The bodies that carry table and policies."""

import msgspec
import pytest

from scheduler.errors import ProtocolError
from scheduler.wire import catalogue

NO_JSON = [b"", b"[]", b"\xff", b"[" * 100_000, b'{"table": 1}', b'{"table": "t", "policies": []}']


def test_a_catalogue_keeps_its_policies_to_the_byte() -> None:
    policy = b'{ "b": 1,  "a": [2.50] }'
    raw = msgspec.json.encode(catalogue.CatalogueBody("table", {"p": msgspec.Raw(policy)}))
    got = catalogue.read(raw)
    assert (got.table, bytes(got.policies["p"])) == ("table", policy)


def test_without_registered_policies_a_catalogue_is_its_table() -> None:
    assert catalogue.read(b'{"table": "t"}') == catalogue.CatalogueBody("t")


@pytest.mark.parametrize("raw", NO_JSON)
def test_what_is_no_catalogue_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="catalogue: "):
        catalogue.read(raw)


@pytest.mark.parametrize("raw", NO_JSON)
def test_what_is_no_shelf_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="shelf: "):
        catalogue.read_shelf(raw)
