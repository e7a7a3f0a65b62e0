"""The site overlay: what a box may change about a table, and what not."""

import json

import pytest

from policies import shipped
from policies.overlay import overlay
from policies.table import Table, TableError, parse_table

MODEL = "SmolLM2-135M-Instruct"


@pytest.fixture
def table() -> Table:
    return parse_table(shipped.read("embedded.json"))


def test_numbers_change_and_the_rest_stays(table: Table) -> None:
    text = json.dumps({"rows": {MODEL: {"ctx": 2048, "slots": 4}}, "weights": {"night": 0.5}})
    site = overlay(table, text)
    assert (site.rows[MODEL].ctx, site.rows[MODEL].slots) == (2048, 4)
    assert site.rows[MODEL].template_sha256 == table.rows[MODEL].template_sha256
    assert site.rows[f"{MODEL}-npu"] == table.rows[f"{MODEL}-npu"]
    assert site.weights == {"night": 0.5}


def test_time_to_live_and_pinning_can_be_set(table: Table) -> None:
    site = overlay(table, json.dumps({"rows": {MODEL: {"ttl_s": 60, "pinned": True}}}))
    assert (site.rows[MODEL].ttl_s, site.rows[MODEL].pinned) == (60.0, True)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"rows": {"Z": {"ctx": 1}}}, "$.rows.Z"),
        ({"rows": {MODEL: {"ctx": 0}}}, f"$.rows.{MODEL}.ctx"),
        ({"rows": {MODEL: {"device": "npu"}}}, f"$.rows.{MODEL}.device"),
        ({"rows": {MODEL: {"template_sha256": "00"}}}, f"$.rows.{MODEL}.template_sha256"),
        ({"rows": {MODEL: 3}}, f"$.rows.{MODEL}"),
        ({"weights": {"night": 0}}, "$.weights[...]"),
        ({"lanes": {}}, "$.lanes"),
        ([], "$"),
    ],
)
def test_what_a_site_may_not_say_is_refused(table: Table, document: object, where: str) -> None:
    with pytest.raises(TableError) as caught:
        overlay(table, json.dumps(document))
    assert [problem.path for problem in caught.value.problems] == [where]


def test_an_overlay_that_is_no_json_is_refused(table: Table) -> None:
    with pytest.raises(TableError, match="not JSON"):
        overlay(table, "{")
