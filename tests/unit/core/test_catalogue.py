"""What names mean."""

from policies import shipped
from policies.table import parse_table
from scheduler.core.catalogue import from_table
from support.stand import ROUTER, catalogue


def test_a_name_is_a_row_or_a_collection_or_nothing() -> None:
    names = catalogue()
    row = names.row("M")
    assert row is not None
    assert (row.model, names.default_of("M")) == ("M", None)
    assert (names.row(ROUTER), names.default_of(ROUTER)) == (None, "M")
    assert (names.row("nope"), names.default_of("nope")) == (None, None)


def test_an_alias_is_followed_once() -> None:
    names = catalogue()
    assert names.row("em") == names.row("M")
    assert names.default_of("auto") == "M"


def test_a_table_becomes_a_catalogue_with_all_its_rows() -> None:
    table = parse_table(shipped.read("laya-first.json"))
    made = from_table(table, collection=ROUTER, aliases={"auto": ROUTER})
    assert made.rows.keys() == table.rows.keys()
    assert made.collections == {ROUTER: table.default_model}
    for name, row in table.rows.items():
        facts = made.rows[name]
        assert (facts.device, facts.ctx, facts.images) == (row.device, row.ctx, row.vision)
