"""The generated schemas: up to date, and no stricter than the reader that they describe."""

import json
from pathlib import Path

import jsonschema
import pytest

from policies import schemas, shipped
from policies.schemas import overlay_schema, pins_schema, table_schema
from policies.table import check_table

FOLDER = Path(schemas.__file__).parent / "schema"
DIGEST = "0123456789abcdef" * 4
ROW = {"model": "M", "path": "/m.gguf", "device": "hrx", "ctx": 1, "template_sha256": DIGEST}
CLASSES = {name: {"model": "M"} for name in ("prose", "code", "long_doc")} | {"short": ROW}
TABLE: dict[str, object] = {"version": "1", "default_model": "M", "classes": CLASSES}


def is_valid(document: object, schema: dict[str, object]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(document))


def test_the_files_are_what_the_types_say() -> None:
    # To write them anew, write `schemas.texts()` to the folder and look at the difference.
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == (
        schemas.texts()
    )


@pytest.mark.parametrize("schema", [table_schema(), overlay_schema(), pins_schema()])
def test_a_schema_is_a_schema(schema: dict[str, object]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", ["laya-first.json", "embedded.json"])
def test_shipped_tables_are_valid(name: str) -> None:
    assert is_valid(json.loads(shipped.read(name)), table_schema())


def test_shipped_pins_are_valid() -> None:
    assert is_valid(json.loads(shipped.read("template-pins.json")), pins_schema())


def test_an_overlay_is_valid() -> None:
    assert is_valid({"rows": {"M": {"ctx": 1}}, "weights": {"night": 0.5}}, overlay_schema())
    assert not is_valid({"rows": {"M": {"template_sha256": DIGEST}}}, overlay_schema())


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"colour": 1},
        {"tools": "poem"},
        {"pull_budget_s": 0},
        {"rows": {}},
        {"rows": [ROW | {"device": "gpu"}]},
        {"rows": [ROW | {"ctx": 0}]},
        {"rows": [ROW | {"extra_files": [{"file": "f", "role": "x"}]}]},
        {"classes": CLASSES | {"poem": {"model": "M"}}},
        {"classes": {"short": ROW}},
        {"classes": CLASSES | {"code": {"model": "M", "on_busy": {"device": "cpu", "model": "N"}}}},
        {"scorer": {"backend": "magic"}},
    ],
)
def test_reader_and_schema_refuse_the_same_shapes(change: dict[str, object]) -> None:
    assert is_valid(TABLE, table_schema())
    assert check_table(json.dumps(TABLE), strict=True) == []
    assert not is_valid(TABLE | change, table_schema())
    assert check_table(json.dumps(TABLE | change), strict=True) != []
