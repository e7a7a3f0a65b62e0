"""Which files a row is made of, where they are, and which of the hub's a table names."""

from pathlib import Path

import msgspec
import pytest

from policies.table import Scorer
from support.pulling import hub_row, row_of, table_of
from workers.store.layout import BadName
from workers.store.places import ROW_PIN, Absent, named_by, names_of, pieces_of
from workers.store.records import Listing, write_listing

EXTRA = [
    {"file": "MTP/h.gguf", "role": "mtp", "template_sha256": "a" * 64},
    {"file": "p.gguf", "role": "mmproj"},
]


def test_a_hub_row_is_its_file_and_its_further_ones(tmp_path: Path) -> None:
    pieces = pieces_of(row_of(hub_row(extra_files=EXTRA)), tmp_path)
    folder = tmp_path / "org" / "small-GGUF"
    assert [(p.name, p.path, p.pin) for p in pieces] == [
        ("small.gguf", folder / "small.gguf", ROW_PIN),
        ("MTP/h.gguf", folder / "MTP" / "h.gguf", "a" * 64),
        ("p.gguf", folder / "p.gguf", ""),
    ]


def test_an_npu_file_comes_with_the_file_that_holds_its_template(tmp_path: Path) -> None:
    row = row_of(hub_row(file="w/m.q4nx", device="npu"))
    assert names_of(row) == ["w/m.q4nx", "w/tokenizer_config.json"]
    assert [piece.pin for piece in pieces_of(row, tmp_path)] == ["", ROW_PIN]


def test_a_whole_repository_is_what_was_listed(tmp_path: Path) -> None:
    row = row_of(hub_row(file=None, device="npu"))
    with pytest.raises(Absent, match=r"org/small-GGUF is not on disk"):
        pieces_of(row, tmp_path)
    folder = tmp_path / "org" / "small-GGUF"
    folder.mkdir(parents=True)
    write_listing(folder, Listing("c", ["a.bin", "tokenizer_config.json", "../x", ".git/x"]))
    assert [(p.name, p.pin) for p in pieces_of(row, tmp_path)] == [
        ("a.bin", ""), ("tokenizer_config.json", ROW_PIN),
    ]  # fmt: skip
    (folder / ".repository.json").write_bytes(b"{")
    with pytest.raises(Absent):
        pieces_of(row, tmp_path)


def test_files_beside_a_path_stay_beside_it(tmp_path: Path) -> None:
    raw = hub_row(extra_files=EXTRA)
    del raw["hf_repo"], raw["file"]
    row = row_of({**raw, "path": "/data/m.gguf"})
    assert [str(p.path) for p in pieces_of(row, tmp_path)] == [
        "/data/m.gguf", "/data/MTP/h.gguf", "/data/p.gguf",
    ]  # fmt: skip
    bad = msgspec.structs.replace(
        row, extra_files=(msgspec.structs.replace(row.extra_files[0], file="../../etc/x"),)
    )
    with pytest.raises(BadName, match=r"beside /data/m.gguf"):
        pieces_of(bad, tmp_path)


def test_a_row_that_no_check_has_seen_gets_no_path(tmp_path: Path) -> None:
    row = msgspec.structs.replace(row_of(hub_row()), file="../../etc/passwd")
    with pytest.raises(BadName):
        pieces_of(row, tmp_path)


def test_a_table_names_its_rows_files_and_no_others() -> None:
    table = table_of(
        hub_row("A", "org/a", extra_files=EXTRA), hub_row("N", "org/npu", None, device="npu")
    )
    named = named_by(table)
    for file in ("small.gguf", "MTP/h.gguf", "p.gguf"):
        assert ("org/a", file) in named
    assert ("org/npu", "anything") in named
    for name in (("org/a", "other.gguf"), ("org/b", "small.gguf"), ("org", "a/small.gguf")):
        assert name not in named
    scorer = Scorer(hf_repo="org/s", file="s.gguf")
    assert ("org/s", "s.gguf") in named_by(msgspec.structs.replace(table, scorer=scorer))
