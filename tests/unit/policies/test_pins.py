"""Template digests: what counts as the expected template."""

import json

import pytest

from policies import shipped
from policies.pins import parse_pins, row_verdict
from policies.row import Row
from policies.table import TableError, parse_table

DIGEST = "0123456789abcdef" * 4
OTHER = "f" * 64


def row(expected: str | dict[str, str] | None, prefix: str | None = None) -> Row:
    return Row("M", "hrx", 1, template_sha256=expected, template_sha256_prefix=prefix)


@pytest.mark.parametrize(
    ("expected", "prefix", "templates", "verdict"),
    [
        (DIGEST, None, {"default": DIGEST}, "match"),
        (DIGEST, None, {"default": OTHER}, "mismatch"),
        (DIGEST, None, {}, "mismatch"),
        (DIGEST, None, {"default": DIGEST, "tool_use": OTHER}, "mismatch"),
        (None, "0123456789", {"default": DIGEST}, "prefix"),
        (None, "0123456780", {"default": DIGEST}, "mismatch"),
        (None, None, {"default": DIGEST}, "unknown"),
        ({"default": DIGEST, "tool_use": OTHER}, None, {"default": DIGEST}, "match"),
        ({"default": DIGEST}, None, {"default": DIGEST, "tool_use": OTHER}, "mismatch"),
    ],
)
def test_a_rows_file_is_compared_with_what_the_row_expects(
    expected: str | dict[str, str] | None,
    prefix: str | None,
    templates: dict[str, str],
    verdict: str,
) -> None:
    assert row_verdict(row(expected, prefix), templates) == verdict


def test_pins_are_found_by_base_name_in_any_case() -> None:
    pins = parse_pins(json.dumps({"version": "1", "pins": {"a.gguf": {"sha256": DIGEST}}}))
    assert pins.verdict("/models/A.GGUF", DIGEST) == "match"
    assert pins.verdict("a.gguf", OTHER) == "mismatch"
    assert pins.verdict("a.gguf", None) == "mismatch"
    assert pins.verdict("b.gguf", DIGEST) == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"version": "1", "pins": {"a": {}}}',
        '{"version": "1", "pins": {"a": {"sha256": "00"}}}',
        '{"version": "2", "pins": {}}',
        '{"version": "1", "pins": {"A.gguf": {"sha256_prefix": "01234567"}}}',
        '{"version": "1", "pins": {"b/a.gguf": {"sha256_prefix": "01234567"}}}',
        json.dumps(
            {"version": "1", "pins": {"a": {"sha256": DIGEST, "sha256_prefix": "01234567"}}}
        ),
        '{"version": "1", "pins": {"a": {"sha256_prefix": "01234567"}, "a": {}}}',
    ],
)
def test_a_faulty_pin_document_is_refused(text: str) -> None:
    with pytest.raises(TableError):
        parse_pins(text)


@pytest.mark.parametrize("name", ["laya-first.json", "embedded.json"])
def test_shipped_pins_agree_with_the_shipped_tables(name: str) -> None:
    pins = parse_pins(shipped.read("template-pins.json"))
    for entry in parse_table(shipped.read(name)).rows.values():
        known = pins.pins[str(entry.file).lower()]
        assert known.sha256 == entry.template_sha256
        assert known.sha256_prefix == entry.template_sha256_prefix
