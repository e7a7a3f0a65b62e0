"""Which table is in force."""

import json
from pathlib import Path

import pytest

from ops.table import load_table
from policies import shipped
from scheduler.errors import SettingsError
from scheduler.settings import Settings

MODEL = "SmolLM2-135M-Instruct"


def test_the_embedded_table_is_the_last_resort(tmp_path: Path) -> None:
    assert load_table(Settings(), tmp_path).name == "embedded"


def test_the_users_own_table_comes_before_it(tmp_path: Path) -> None:
    own = tmp_path / ".local/share/fairlane/laya-first.json"
    own.parent.mkdir(parents=True)
    own.write_text(shipped.read("laya-first.json"))
    assert load_table(Settings(), tmp_path).name == str(own)


def test_the_settings_come_before_both(tmp_path: Path) -> None:
    assert load_table(Settings(table="laya-first"), tmp_path).name == "laya-first"


def test_the_overlay_lies_over_the_table(tmp_path: Path) -> None:
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"rows": {MODEL: {"ctx": 1024}}, "weights": {"me": 3}}))
    source = load_table(Settings(table_overlay=str(site)), tmp_path)
    assert source.table.rows[MODEL].ctx == 1024
    assert source.table.weights == {"me": 3}


def test_an_overlay_cannot_change_a_digest(tmp_path: Path) -> None:
    site = tmp_path / "site.json"
    site.write_text(json.dumps({"rows": {MODEL: {"template_sha256": "0" * 64}}}))
    with pytest.raises(SettingsError, match="template_sha256"):
        load_table(Settings(table_overlay=str(site)), tmp_path)


def test_a_table_that_is_refused_names_all_its_faults(tmp_path: Path) -> None:
    table = tmp_path / "t.json"
    table.write_text('{"version": "1", "default_model": "x", "classes": {}}')
    with pytest.raises(SettingsError, match="classes"):
        load_table(Settings(table=str(table)), tmp_path)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="gone"):
        load_table(Settings(table=str(tmp_path / "gone.json")), tmp_path)
