"""Where files are, that no name leaves the models directory, and which files a directory holds."""

from pathlib import Path

import pytest

from workers.store.layout import (
    BadName,
    file_in,
    names_in,
    own_files_of,
    partial_of,
    partials_of,
    record_of,
    repo_folder,
)

MODELS = Path("/models")


def test_a_file_is_where_people_look_for_it() -> None:
    file = file_in(MODELS, "org/repo", "sub/m.gguf")
    assert file == Path("/models/org/repo/sub/m.gguf")
    assert record_of(file) == Path("/models/org/repo/sub/.m.gguf.json")
    assert partial_of(file, "ab" * 32) == Path("/models/org/repo/sub/.m.gguf.abababababababab.part")


def test_an_etag_becomes_no_path() -> None:
    assert partial_of(Path("/m/x"), '../../"a/b\0').name == ".x.ab.part"


@pytest.mark.parametrize(
    ("repo", "file"),
    [
        ("../x", "m"), ("a/..", "m"), ("/a/b", "m"), ("a", "m"), ("a/b/c", "m"), ("a\\b/c", "m"),
        ("a/b", "../m"), ("a/b", "/m"), ("a/b", "x/../../m"), ("a/b", "x\\m"), ("a/b", "m\0"),
        ("a/b", ".m.json"), ("a/b", ".repository.json"), ("a/b", "x/.m.ab.part"), ("a/b", ""),
        ("a/b", "nul.gguf"),
    ],
)  # fmt: skip
def test_a_name_that_must_not_become_a_path_does_not(repo: str, file: str) -> None:
    with pytest.raises(BadName):
        file_in(MODELS, repo, file)


def test_a_repository_that_must_not_become_a_path_does_not() -> None:
    with pytest.raises(BadName, match=r"the repository '../x' must be"):
        repo_folder(MODELS, "../x")


def test_whole_and_begun_files_are_named_and_the_stores_own_are_not(tmp_path: Path) -> None:
    for name in (
        "org/repo/m.gguf", "org/repo/.m.gguf.json", "org/repo/.m.gguf.json.bad", "org/repo/.repository.json",
        "org/repo/sub/n.gguf", "org/repo/sub/.o.gguf.abcd.part", "org/repo/.m.gguf.json.1-2.new",
        "org/.hidden/x", "stray", "org/stray",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(names_in(tmp_path)) == [
        ("org/repo", "m.gguf"), ("org/repo", "sub/n.gguf"), ("org/repo", "sub/o.gguf"),
    ]  # fmt: skip
    assert list(names_in(tmp_path / "none")) == []


def test_partial_files_of_another_file_are_left_out(tmp_path: Path) -> None:
    mine, other = tmp_path / "m.gguf", tmp_path / "m.gguf.2"
    for file, etag in ((mine, "aa"), (mine, "bb"), (other, "cc")):
        partial_of(file, etag).touch()
    assert [p.name for p in partials_of(mine)] == [".m.gguf.aa.part", ".m.gguf.bb.part"]
    assert [p.name for p in partials_of(other)] == [".m.gguf.2.cc.part"]
    assert partials_of(tmp_path / "none" / "x") == []
    assert partial_of(other, "cc") not in own_files_of(mine)
