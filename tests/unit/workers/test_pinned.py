"""What a file's templates are held to when it is loaded."""

import hashlib
import json
import logging
from pathlib import Path

import msgspec
import pytest

from policies.row import ExtraFile
from policies.table import Row
from scheduler.errors import SettingsError
from support.gguf import Value, write_gguf
from workers.job import JobError
from workers.pinned import Pinned, load_pinned

TEMPLATE = "{{ messages }} €"
DIGEST = hashlib.sha256(TEMPLATE.encode()).hexdigest()
KEY = "tokenizer.chat_template"


def row(**fields: object) -> Row:
    values = {"model": "M", "device": "hrx", "ctx": 4096, "template_sha256": DIGEST}
    return msgspec.convert(values | fields, Row)


def model(folder: Path, template: str | None = TEMPLATE, **more: Value) -> Path:
    values: dict[str, Value] = {} if template is None else {KEY: template}
    return write_gguf(folder / "M.gguf", values | {f"{KEY}.{k}": v for k, v in more.items()}, {})


def pins(folder: Path, digest: str) -> str:
    file = folder / "pins.json"
    file.write_text(json.dumps({"version": "1", "pins": {"m.gguf": {"sha256": digest}}}))
    return str(file)


@pytest.fixture
def shipped_pins() -> Pinned:
    return load_pinned("", is_strict=False)


def refusal(pinned: Pinned, made: Row, path: Path) -> JobError:
    with pytest.raises(JobError) as caught:
        pinned.check(made, path)
    assert (caught.value.status, caught.value.code) == (503, "model_not_usable")
    return caught.value


def warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return [vars(record)["fields"] for record in caplog.records]


@pytest.mark.parametrize("expected", [
    {}, {"template_sha256": {"default": DIGEST}},
    {"template_sha256": None, "template_sha256_prefix": DIGEST[:10]}, {"template_sha256": None},
])  # fmt: skip
def test_the_template_a_row_names_is_accepted(
    tmp_path: Path, shipped_pins: Pinned, expected: dict[str, object]
) -> None:
    assert shipped_pins.check(row(**expected), model(tmp_path)) == {"default": DIGEST}


@pytest.mark.parametrize("template", ["other", "", None])
def test_another_template_than_the_rows_or_none_is_refused(
    tmp_path: Path, shipped_pins: Pinned, caplog: pytest.LogCaptureFixture, template: str | None
) -> None:
    for expected in ({}, {"template_sha256": None, "template_sha256_prefix": DIGEST[:10]}):
        error = refusal(shipped_pins, row(**expected), model(tmp_path, template))
        assert error.facts == {"cause": "template_mismatch"}
        assert DIGEST[:10] in error.message
    assert {(w["differs_from"], w["refused"]) for w in warnings(caplog)} == {("row", True)}


def test_a_named_template_that_the_row_does_not_name_is_refused(
    tmp_path: Path, shipped_pins: Pinned
) -> None:
    error = refusal(shipped_pins, row(), model(tmp_path, tool_use="{{ evil }}"))
    assert error.facts == {"cause": "template_mismatch"}


def test_a_template_other_than_the_pin_is_told_and_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lenient = load_pinned(pins(tmp_path, "0" * 64), is_strict=False)
    assert lenient.check(row(), model(tmp_path)) == {"default": DIGEST}
    (told,) = warnings(caplog)
    assert (told["differs_from"], told["refused"], told["template_sha256"]) == (
        "pin",
        False,
        DIGEST,
    )


def test_where_pins_are_strict_it_is_refused_and_the_remedy_named(tmp_path: Path) -> None:
    strict = load_pinned(pins(tmp_path, "0" * 64), is_strict=True)
    error = refusal(strict, row(), model(tmp_path))
    assert error.facts == {"cause": "template_mismatch"}
    assert "fairlane template pin FILE" in error.message
    assert DIGEST in error.message


def test_strict_pins_let_pass_what_is_pinned_and_what_nobody_pinned(tmp_path: Path) -> None:
    path = model(tmp_path)
    for digest in (DIGEST, ""):
        own = pins(tmp_path, digest) if digest else ""
        assert load_pinned(own, is_strict=True).check(row(), path) == {"default": DIGEST}


def test_a_file_that_cannot_be_read_fails_to_load(tmp_path: Path, shipped_pins: Pinned) -> None:
    path = model(tmp_path)
    path.write_bytes(path.read_bytes()[:40])
    error = refusal(shipped_pins, row(), path)
    assert error.facts == {"cause": "load_failed"}
    assert "not a whole GGUF file" in error.message


@pytest.mark.parametrize("content", [None, "{", '{"version": "1", "pins": {"A": {}}}', "\xff"])
def test_a_pin_document_that_cannot_be_used_is_a_wrong_setting(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "pins.json"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    with pytest.raises(SettingsError, match=r"workers\.template_pins .*pins\.json"):
        load_pinned(str(file), is_strict=True)


@pytest.mark.parametrize(
    ("names", "template", "refused"),
    [
        (DIGEST, TEMPLATE, ""),
        (DIGEST, "another", "the row pins"),
        (DIGEST, None, "has digest none"),
        (None, "anything", ""),
        (None, None, ""),
    ],
)
def test_a_further_file_is_held_to_its_own_entry(
    names: str | None, template: str | None, refused: str, tmp_path: Path, shipped_pins: Pinned
) -> None:
    extra = ExtraFile("M.gguf", "draft", template_sha256=names)
    path = model(tmp_path, template)
    if not refused:
        shipped_pins.check_extra(row(), extra, path)
        return
    with pytest.raises(JobError, match=refused) as caught:
        shipped_pins.check_extra(row(), extra, path)
    assert caught.value.facts["cause"] == "template_mismatch"


def test_a_further_file_is_held_to_the_pins_of_its_name(tmp_path: Path) -> None:
    strict = load_pinned(pins(tmp_path, "0" * 64), is_strict=True)
    with pytest.raises(JobError, match="is pinned to another one"):
        strict.check_extra(row(), ExtraFile("M.gguf", "draft"), model(tmp_path))


def test_a_further_file_that_is_no_model_is_nobodys_affair_unless_somebody_pins_it(
    tmp_path: Path, shipped_pins: Pinned
) -> None:
    file = tmp_path / "vision.bin"
    file.write_bytes(b"no model")
    shipped_pins.check_extra(row(), ExtraFile("vision.bin", "mmproj"), file)
    with pytest.raises(JobError, match="not a whole GGUF"):
        shipped_pins.check_extra(
            row(), ExtraFile("vision.bin", "draft", template_sha256=DIGEST), file
        )
