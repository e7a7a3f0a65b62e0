"""The dashboards as Grafana gets them: complete, readable, and made from their tables."""

import json
import typing
from itertools import combinations, pairwise
from typing import Any

import pytest

from ops.grafana import panels
from ops.grafana.write import BOARDS, FOLDER, text_of

BOARD_NAMES = sorted(BOARDS)
UNITS = typing.get_args(panels.Unit)


@pytest.fixture(params=BOARD_NAMES)
def model(request: pytest.FixtureRequest) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((FOLDER / f"{request.param}.json").read_text())
    return read


def shown(model: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in model["panels"] if panel["type"] != "row"]


def test_the_files_are_made_from_the_tables() -> None:
    stale = [n for n in BOARDS if (FOLDER / f"{n}.json").read_text() != text_of(BOARDS[n])]
    assert not stale, "run: python -m ops.grafana.write"
    assert sorted(file.stem for file in FOLDER.glob("*.json")) == BOARD_NAMES


def test_grafana_10_and_newer_read_it(model: dict[str, Any]) -> None:
    assert model["schemaVersion"] >= 39
    assert model["id"] is None
    assert model["uid"].startswith("fairlane-")
    assert model["title"]
    assert model["description"]


def test_its_data_source_is_a_variable(model: dict[str, Any]) -> None:
    variables = {one["name"]: one for one in model["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in shown(model):
        assert panel["datasource"] == source
        assert [target["datasource"] for target in panel["targets"]] == [source] * len(
            panel["targets"]
        )
    used = {word for word in ("box", "device", "lane") if f"${word}" in json.dumps(model["panels"])}
    assert used | {"datasource"} == set(variables)


def test_every_panel_says_what_it_is_and_in_which_unit(model: dict[str, Any]) -> None:
    for panel in shown(model):
        assert panel["title"]
        assert len(panel["description"]) > 3, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
        assert panel["targets"], panel["title"]
    titles = [panel["title"] for panel in shown(model)]
    assert len(set(titles)) == len(titles)


def test_no_panel_lies_over_another_and_none_leaves_the_page(model: dict[str, Any]) -> None:
    places = [panel["gridPos"] for panel in model["panels"]]
    for place in places:
        assert place["x"] + place["w"] <= panels.WIDTH
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or apart, (one, other)
    assert all(one["y"] <= other["y"] for one, other in pairwise(places))


def test_ids_and_query_letters_are_used_once(model: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in model["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in shown(model):
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_every_column_of_a_table_has_a_title_for_people_or_is_left_out(
    model: dict[str, Any],
) -> None:
    for panel in (one for one in shown(model) if one["type"] == "table"):
        letters = [target["refId"] for target in panel["targets"]]
        columns = ["Value"] if len(letters) == 1 else [f"Value #{letter}" for letter in letters]
        (organize,) = (one for one in panel["transformations"] if one["id"] == "organize")
        excluded, renamed = (
            organize["options"][part] for part in ("excludeByName", "renameByName")
        )
        assert {"Time", *columns} == {*excluded, *renamed}
        with_a_unit = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        assert with_a_unit <= set(renamed.values())


def test_every_query_keeps_to_the_chosen_boxes(model: dict[str, Any]) -> None:
    for panel in shown(model):
        for target in panel["targets"]:
            assert target["expr"].count("{") == target["expr"].count('instance=~"$box"')
