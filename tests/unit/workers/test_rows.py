"""Where a row's file is, and whether its template is the pinned one."""

from pathlib import Path

import msgspec
import pytest

from policies.table import Row
from workers import rows
from workers.job import JobError


def row(**fields: object) -> Row:
    values = {"model": "M", "device": "hrx", "ctx": 4096}
    return msgspec.convert(values | fields, Row)


def fault(made: Row) -> JobError:
    """Return why a row cannot be used."""
    with pytest.raises(JobError) as caught:
        rows.file_of(made)
    assert (caught.value.status, caught.value.code) == (503, "model_not_usable")
    return caught.value


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    assert rows.file_of(row(path=str(file))) == file


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.gguf").touch()
    assert rows.file_of(row(path="~/m.gguf")) == tmp_path / "m.gguf"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    error = fault(row(path=f"{tmp_path}/none.gguf"))
    assert error.message == f"Model 'M' cannot be used: there is no file {tmp_path}/none.gguf."
    assert error.facts == {"cause": "load_failed"}


def test_a_file_of_a_package_is_found_without_importing_it() -> None:
    found = rows.file_of(row(package="pytest", file="pytest/py.typed"))
    assert found.is_file()
    assert found.name == "py.typed"


def test_a_package_that_is_not_installed_says_what_installs_it() -> None:
    error = fault(row(package="no-such-package", file="m.gguf"))
    assert "no-such-package is not installed; run `make setup`" in error.message
    assert error.facts == {"cause": "pull_failed"}


def test_a_package_without_the_file_is_named() -> None:
    assert "pytest holds no file m.gguf" in fault(row(package="pytest", file="m.gguf")).message


@pytest.mark.parametrize("source", [
    {"hf_repo": "o/r", "file": "m.gguf"}, {"url": "https://x.example/m.gguf"}, {"tag": "m:1b"},
])  # fmt: skip
def test_what_would_have_to_be_pulled_is_named(source: dict[str, str]) -> None:
    error = fault(row(**source))
    assert next(iter(source.values())) in error.message
    assert error.facts == {"cause": "pull_failed"}
