"""Where a row's file is, and whether its template is the pinned one."""

import os
from pathlib import Path

import msgspec
import pytest

from policies.table import Row
from workers import rows
from workers.job import JobError
from workers.store import records
from workers.store.layout import record_of
from workers.store.records import Record


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


# --- pulled files -----------------------------------------------------------------------------------


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(rows, "_models", tmp_path)  # what `look_in` says, for this test alone
    return tmp_path


def put(models: Path, name: str, content: bytes = b"content") -> Path:
    """Put a file of a repository there as a pull leaves it."""
    file = models / "o" / "r" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    records.write(file, Record("o/r", name, len(content), "00"))
    return file


PULLED = {"hf_repo": "o/r", "file": "m.gguf"}


def test_a_pulled_file_is_found_by_its_record_and_length(models: Path) -> None:
    file = put(models, "m.gguf")
    assert rows.file_of(row(**PULLED)) == file
    assert rows.size_of(row(**PULLED)) == 7


@pytest.mark.parametrize("fault_of", ["no record", "shorter", "longer", "gone", "damaged record"])
def test_a_file_that_is_not_whole_is_not_found(models: Path, fault_of: str) -> None:
    file = put(models, "m.gguf")
    match fault_of:
        case "no record":
            records.drop(file)
        case "shorter":
            file.write_bytes(b"conten")
        case "longer":
            file.write_bytes(b"content.")
        case "gone":
            file.unlink()
        case _:
            record_of(file).write_bytes(b"{}\n")
    error = fault(row(**PULLED))
    assert "m.gguf of o/r is not on disk; `fairlane pull M` brings it" in error.message
    assert error.facts == {"cause": "pull_failed"}


def test_a_missing_further_file_is_told_to_whoever_asks_for_it(models: Path) -> None:
    file, extra = put(models, "m.gguf"), {"file": "h.gguf", "role": "mtp"}
    made = row(**PULLED, extra_files=[extra])
    assert rows.file_of(made) == file
    with pytest.raises(JobError, match=r"h\.gguf of o/r is not on disk"):
        rows.extras_of(made)
    head = put(models, "h.gguf", b"head")
    assert [(one.role, path) for one, path in rows.extras_of(made)] == [("mtp", head)]
    assert rows.size_of(made) == 11


def test_use_is_noted_on_the_record(models: Path) -> None:
    file = put(models, "m.gguf")
    os.utime(record_of(file), (1.0, 1.0))
    rows.used(row(**PULLED))
    assert record_of(file).stat().st_mtime > 1e9
    rows.used(row(path="/no/such/file"))  # another's, and nobody's business here


def test_names_that_leave_the_directory_are_refused(models: Path) -> None:
    put(models, "m.gguf")
    made = msgspec.structs.replace(row(**PULLED), file="../../o/r/m.gguf")
    assert "must be a relative path inside its source" in fault(made).message
