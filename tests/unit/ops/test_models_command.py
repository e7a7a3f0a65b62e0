"""`fairlane models`, as it is called, without a box."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ops.commands.models import models
from support.helping import table
from support.pulling import DIGEST, FILE, REPO, gguf, hub_row

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The models directory: the file of row M, of row N nothing, and a file that no row names."""
    found = tmp_path / "models"
    for repo, file in ((REPO, FILE), ("org/old", "old.gguf")):
        (found / repo).mkdir(parents=True)
        (found / repo / file).write_bytes(gguf(tmp_path, kib=2))
    return found


@pytest.fixture
def run(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    file = tmp_path / "table.json"
    file.write_text(
        table(hub_row(), hub_row("N", "org/other"), code="M", default="M"), encoding="utf-8"
    )
    for name, value in {"STORE__DIR": folder, "TABLE": file, "RUN_DIR": tmp_path / "run"}.items():
        monkeypatch.setenv(f"FAIRLANE__{name}", str(value))
    return lambda *arguments: CliRunner().invoke(models, list(arguments))


def listed(run: Run) -> dict[str, Any]:
    shown = run("ls", "--json")
    assert shown.exit_code == 0, shown.output
    return {one["model"]: one for one in json.loads(shown.stdout)["models"]}


def test_ls_names_each_row_and_what_no_row_names(run: Run, folder: Path) -> None:
    found = listed(run)
    assert {"M", "N", "org/old/old.gguf"} < set(found)
    content = (folder / REPO / FILE).read_bytes()
    one = found["M"]
    assert (one["state"], one["bytes"]) == ("ready", len(content))
    assert one["sha256"] == {FILE: hashlib.sha256(content).hexdigest()}
    assert one["templates"] == {"default": DIGEST}
    assert one["loaded_on"] is None  # no box runs: unknown, and not "nowhere"
    assert set(one["classes"]) == {"default", "code"}
    assert (found["N"]["state"], found["N"]["bytes"], found["N"]["sha256"]) == ("missing", 0, {})
    assert found["org/old/old.gguf"]["is_named"] is False


def test_ls_says_which_extra_files_the_engine_of_a_row_cannot_use(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = [{"file": "eyes.gguf", "role": "mmproj"}]
    mine = hub_row(extra_files=extra, engine="llama-cpp-python")
    other = hub_row("N", extra_files=extra, engine="llama-server")
    (tmp_path / "table.json").write_text(table(mine, other), encoding="utf-8")
    monkeypatch.setenv("FAIRLANE__TABLE", str(tmp_path / "table.json"))
    monkeypatch.setenv("FAIRLANE__STORE__DIR", str(folder))
    monkeypatch.setenv("FAIRLANE__RUN_DIR", str(tmp_path / "run"))
    shown = CliRunner().invoke(models, ["ls", "--json"])
    found = {one["model"]: one["unused"] for one in json.loads(shown.stdout)["models"]}
    assert (found["M"], found["N"]) == (["mmproj"], [])
    text = CliRunner().invoke(models, ["ls"]).stdout
    assert "without its mmproj" in " ".join(text.split())


def test_ls_is_a_table(run: Run, folder: Path) -> None:
    shown = run("ls")
    assert shown.exit_code == 0
    assert all(text in shown.stdout for text in ("M", "missing", DIGEST[:10], "nothing"))
    assert f"{folder}; no box runs" in shown.stdout.replace("\n", "")


def test_rm_removes_and_says_how_much(run: Run, folder: Path) -> None:
    listed(run)
    size = (folder / REPO / FILE).stat().st_size
    assert json.loads(run("rm", "M", "--json").stdout) == {"removed": "M", "bytes": size}
    assert not (folder / REPO).exists()
    assert listed(run)["M"]["state"] == "missing"
    again = run("rm", "M")
    assert (again.exit_code, again.stdout) == (0, "nothing of M was on disk\n")
    assert run("rm", "org/old/old.gguf").exit_code == 0
    assert not (folder / "org/old").exists()


def test_rm_refuses_what_a_process_has_open_unless_forced(run: Run, folder: Path) -> None:
    file = folder / REPO / FILE
    hold = "import sys; f = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        refused = run("rm", "M")
        assert refused.exit_code == 5
        assert f"process {holder.pid} has {FILE} open" in refused.stdout
        assert "--force" in refused.stdout
        assert file.exists()
        assert run("rm", "M", "--force").exit_code == 0
        assert not file.exists()
        holder.communicate()


def test_rm_of_what_is_not_there_names_what_is(run: Run) -> None:
    shown = run("rm", "nobody")
    assert (shown.exit_code, "org/old/old.gguf" in shown.stdout) == (1, True)


def test_verify_reads_all_and_says_so(run: Run) -> None:
    listed(run)
    shown = run("verify", "--json")
    told = json.loads(shown.stdout)
    assert (shown.exit_code, told["is_whole"]) == (0, True)
    assert {FILE, "old.gguf"} < {one["file"] for one in told["files"]}


def test_verify_finds_one_changed_byte(run: Run, folder: Path) -> None:
    listed(run)
    file = folder / REPO / FILE
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    shown = run("verify", "M")
    assert shown.exit_code == 1
    assert shown.stdout.startswith(f"BAD M  {FILE}: it has sha256")
    assert file.exists()


def test_verify_of_nobody_is_refused(run: Run) -> None:
    assert run("verify", "nobody").exit_code == 1
