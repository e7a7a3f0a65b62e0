"""`fairlane template`, as it is called."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ops.commands.template import template
from policies.pins import parse_pins
from support.gguf import Value, write_gguf

KEY = "tokenizer.chat_template"
DIGEST = hashlib.sha256(b"{{ a }}").hexdigest()
OTHER = hashlib.sha256(b"{{ b }}").hexdigest()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(template, [str(argument) for argument in arguments])


def file_with(folder: Path, **templates: Value) -> Path:
    values = {KEY if k == "default" else f"{KEY}.{k}": v for k, v in templates.items()}
    return write_gguf(folder / "Some-Model.gguf", {"general.name": "x", **values}, {})


def test_show_json_names_the_default_and_all(tmp_path: Path) -> None:
    shown = run("show", file_with(tmp_path, default="{{ a }}", rag="{{ b }}"), "--json")
    assert shown.exit_code == 0
    templates = {"default": DIGEST, "rag": OTHER}
    assert json.loads(shown.stdout) == {"sha256": DIGEST, "templates": templates}


def test_show_json_of_a_file_without_one(tmp_path: Path) -> None:
    shown = run("show", file_with(tmp_path), "--json")
    assert json.loads(shown.stdout) == {"sha256": None, "templates": {}}


def test_show_says_what_the_pins_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_with(tmp_path, default="{{ a }}")
    assert run("show", file).stdout == f"{DIGEST}  default\npin: unknown\n"
    pins = tmp_path / "pins.json"
    pins.write_text(f'{{"version": "1", "pins": {{{run("pin", file).stdout}}}}}', encoding="utf-8")
    monkeypatch.setenv("FAIRLANE__WORKERS__TEMPLATE_PINS", str(pins))
    assert run("show", file).stdout.endswith("pin: match\n")
    file_with(tmp_path, default="{{ b }}")
    assert run("show", file).stdout.endswith("pin: mismatch\n")


def test_pin_prints_a_row_of_a_pin_document(tmp_path: Path) -> None:
    printed = run("pin", file_with(tmp_path, default="{{ a }}"))
    assert printed.exit_code == 0
    pins = parse_pins(f'{{"version": "1", "pins": {{{printed.stdout}}}}}')
    assert pins.verdict("some-model.gguf", DIGEST) == "match"


def test_what_has_no_template_cannot_be_pinned(tmp_path: Path) -> None:
    printed = run("pin", file_with(tmp_path, rag="{{ a }}"))
    assert (printed.exit_code, "no default chat template" in printed.stdout) == (1, True)


@pytest.mark.parametrize("verb", ["show", "pin"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    shown = run(verb, file)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert f"{file}: not a whole GGUF file" in shown.stderr
