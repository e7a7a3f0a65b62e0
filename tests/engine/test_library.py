"""What an operator sees of the models directory, removes and verifies, beside a store or without one."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fakehub import FakeHub, Fault
from support.pulling import (
    FILE,
    REPO,
    Puller,
    gguf,
    hub_row,
    noise,
    reachable,
    table_of,
    tokenizer_config,
)
from support.wait import until
from workers.store.layout import partials_of, record_of
from workers.store.library import Busy, Item, Library, Unknown


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as made, reachable(made.url, monkeypatch, tmp_path):
        yield made


def library(folder: Path, *rows: dict[str, object]) -> Library:
    return Library(folder / "models", table_of(*rows))


def item(shelf: Library, model: str) -> Item:
    return next(one for one in shelf.items() if one.model == model)


def pulled(hub: FakeHub, folder: Path, *rows: dict[str, object]) -> Puller:
    """Pull rows whose files are one GGUF each."""
    puller = Puller(folder, *rows)
    for number, row in enumerate(rows, 1):
        hub.put(str(row["hf_repo"]), str(row["file"]), gguf(folder, seed=number))
        assert puller.pull(str(row["model"])).cause == ""
    return puller


def test_rows_and_what_no_row_names_are_listed(hub: FakeHub, tmp_path: Path) -> None:
    pulled(hub, tmp_path, hub_row("A", "org/a"), hub_row("B", "org/b"))
    listed = library(tmp_path, hub_row("A", "org/a"), hub_row("C", "org/c")).items()
    by = {one.model: one for one in listed}
    assert (by["A"].state, by["A"].is_named, by["A"].source) == ("ready", True, "hub")
    assert by["A"].bytes == by["A"].files[FILE] == (tmp_path / "models/org/a" / FILE).stat().st_size
    assert by["A"].used_at > 0
    assert (by["C"].state, by["C"].reason) == ("missing", f"{FILE} is not on disk")
    assert (by["B"].state, by["B"].is_named, by["B"].repo) == ("ready", False, "org/b")
    assert by["SmolLM2-135M-Instruct"].source == "package"
    assert listed[-1].model == "B"


def test_a_directory_that_is_not_there_is_an_empty_one(tmp_path: Path) -> None:
    assert item(library(tmp_path, hub_row()), "M").state == "missing"


def test_a_begun_file_is_listed_with_what_it_takes(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path), Fault(cut=100_000))
    Puller(tmp_path, hub_row()).pull()
    one = item(library(tmp_path, hub_row()), "M")
    assert (one.state, one.bytes) == ("missing", 100_000)
    left = item(library(tmp_path), f"{REPO}/{FILE}")
    assert (left.state, left.reason, left.bytes) == ("missing", "begun and not complete", 100_000)
    assert library(tmp_path).remove(f"{REPO}/{FILE}") == 100_000
    assert list((tmp_path / "models").rglob("*")) == []


def test_a_removed_model_is_gone_and_can_be_pulled_again(hub: FakeHub, tmp_path: Path) -> None:
    puller = pulled(hub, tmp_path, hub_row())
    shelf = library(tmp_path, hub_row())
    size = item(shelf, "M").bytes
    assert shelf.remove("M") == size
    assert list((tmp_path / "models").rglob("*")) == []
    assert item(shelf, "M").state == "missing"
    until(lambda: puller.state() == "missing", "the running store sees it")
    assert puller.pull().cause == ""
    assert puller.state() == "ready"


def test_what_no_row_names_is_removed_by_the_name_it_was_pulled_for(
    hub: FakeHub, tmp_path: Path
) -> None:
    pulled(hub, tmp_path, hub_row("A", "org/a"), hub_row("B", "org/b"))
    library(tmp_path, hub_row("A", "org/a")).remove("B")
    assert not (tmp_path / "models/org/b").exists()
    assert (tmp_path / "models/org/a" / FILE).exists()


def test_a_file_that_another_row_names_stays(hub: FakeHub, tmp_path: Path) -> None:
    rows = (hub_row("A"), hub_row("B", ctx=64))
    pulled(hub, tmp_path, rows[0])
    assert library(tmp_path, *rows).remove("A") == 0
    assert item(library(tmp_path, *rows), "B").state == "ready"


def test_what_a_process_has_loaded_is_not_removed(hub: FakeHub, tmp_path: Path) -> None:
    puller = pulled(hub, tmp_path, hub_row())
    script = "import sys; f = open(sys.argv[1]); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(puller.file())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(
            Busy, match=rf"'M' is not removed: process {holder.pid} has {FILE} open"
        ):
            library(tmp_path, hub_row()).remove("M")
        assert puller.file().exists()
        holder.communicate()
    library(tmp_path, hub_row()).remove("M")


def test_what_is_being_pulled_is_not_removed(hub: FakeHub, tmp_path: Path) -> None:
    slow = Fault(rate=20_000)
    hub.put(REPO, FILE, gguf(tmp_path), slow)
    puller = Puller(tmp_path, hub_row())
    puller.ask()
    until(lambda: partials_of(puller.file()), "it is on its way")
    with pytest.raises(Busy, match="open; stop it or let it unload first"):
        library(tmp_path, hub_row()).remove("M")
    slow.rate = 0
    until(lambda: puller.ended, "the end")
    assert puller.ended[0].cause == ""


@pytest.mark.parametrize("model", ["nobody", "", "../x"])
def test_an_unknown_name_is_told_with_those_there_are(tmp_path: Path, model: str) -> None:
    for do in (library(tmp_path, hub_row()).remove, library(tmp_path, hub_row()).verify):
        with pytest.raises(Unknown, match=rf"no model is called '{model}'; there are: .*M"):
            do(model)


def test_a_package_is_not_removed(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no file of the hub's"):
        library(tmp_path).remove("SmolLM2-135M-Instruct")


def test_a_whole_repository_is_removed_with_its_list(hub: FakeHub, tmp_path: Path) -> None:
    hub.put("org/npu", "model.q4nx", noise(9000))
    hub.put("org/npu", "tokenizer_config.json", tokenizer_config(), is_large=False)
    row = hub_row("N", "org/npu", None, device="npu")
    assert Puller(tmp_path, row).pull("N").cause == ""
    shelf = library(tmp_path, row)
    assert sorted(item(shelf, "N").files) == ["model.q4nx", "tokenizer_config.json"]
    assert all(one.is_whole for one in shelf.verify("N"))
    shelf.remove("N")
    assert list((tmp_path / "models").rglob("*")) == []


# --- verify -----------------------------------------------------------------------------------------


def test_a_whole_model_is_told_with_its_digest(hub: FakeHub, tmp_path: Path) -> None:
    pulled(hub, tmp_path, hub_row())
    (one,) = library(tmp_path, hub_row()).verify("M")
    assert one.is_whole
    assert one.message.startswith("sha256 ")
    assert one.message.endswith(hub.url)


def test_a_changed_byte_is_found(hub: FakeHub, tmp_path: Path) -> None:
    file = pulled(hub, tmp_path, hub_row()).file()
    content = bytearray(file.read_bytes())
    content[200_000] ^= 1
    file.write_bytes(content)
    (one,) = library(tmp_path, hub_row()).verify("M")
    assert not one.is_whole
    assert "it was changed since it came; remove the model" in one.message


def test_a_cut_file_is_found(hub: FakeHub, tmp_path: Path) -> None:
    file = pulled(hub, tmp_path, hub_row()).file()
    file.write_bytes(file.read_bytes()[:1000])
    (one,) = library(tmp_path, hub_row()).verify("M")
    assert not one.is_whole
    assert "it has 1000 bytes and should have" in one.message


def test_a_damaged_record_is_made_anew_and_said(hub: FakeHub, tmp_path: Path) -> None:
    file = pulled(hub, tmp_path, hub_row()).file()
    record_of(file).write_bytes(b"{")
    (one,) = library(tmp_path, hub_row()).verify("M")
    assert one.is_whole
    assert "there was no record of it" in one.message or "found on disk" in one.message


def test_a_mismatched_template_is_told(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path, "other"))
    Puller(tmp_path, hub_row()).pull()
    checked = library(tmp_path, hub_row()).verify("M")
    assert [one.is_whole for one in checked] == [True, False]
    assert "has the template" in checked[1].message


def test_a_package_and_a_row_that_is_not_here_are_told(tmp_path: Path) -> None:
    (one,) = library(tmp_path).verify("SmolLM2-135M-Instruct")
    assert one.is_whole
    (none,) = library(tmp_path, hub_row()).verify("M")
    assert not none.is_whole
    assert "is not on disk" in none.message


def test_what_is_not_whole_and_no_row_names_is_to_be_removed_not_pulled(tmp_path: Path) -> None:
    folder = tmp_path / "models/a/b"
    folder.mkdir(parents=True)
    (folder / "m.gguf").symlink_to("/no/such/file")
    shelf = library(tmp_path)
    (found,) = shelf.verify("a/b/m.gguf")
    assert (found.is_whole, "`fairlane models rm a/b/m.gguf` removes it" in found.message) == (
        False,
        True,
    )
    assert shelf.remove("a/b/m.gguf") == 0
    assert not (tmp_path / "models/a").exists()
