"""`fairlane doctor` against faults that are really there: planted, found, and named with a remedy."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ops.doctor import checks
from ops.doctor.checks import examine
from ops.doctor.finding import Finding, Patient
from policies import shipped
from policies.row import Row
from scheduler.bus import lock
from support.amd_tree import plant
from support.box import TREE, Box
from support.http import ROW
from support.wait import until
from workers.rows import file_of

Boxes = Callable[..., Box]
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may plant it")


def findings(box: Box, *, status: int) -> dict[str, list[dict[str, str]]]:
    """Return what the doctor says of a box, by check."""
    said = box.cli("doctor", "--json")
    assert said.returncode == status, said.stdout + said.stderr
    view = json.loads(said.stdout)
    assert view["ok"] is (status == 0)
    found: dict[str, list[dict[str, str]]] = {}
    for one in view["findings"]:
        found.setdefault(one["check"], []).append(one)
    return found


def fault(box: Box, check: str, words: str, remedy: str) -> None:
    """Hold the doctor to the one fault that was planted: found by its check, and by no other."""
    found = findings(box, status=1)
    failed = [one for ones in found.values() for one in ones if one["state"] == "fail"]
    assert [one["check"] for one in failed] == [check], failed
    assert words in failed[0]["text"], failed[0]["text"]
    assert remedy in failed[0]["remedy"], failed[0]["remedy"]


def table_of(tmp_path: Path, model: Path, **changes: object) -> Path:
    """Return a table whose rows name a file of the test's own."""
    document: dict[str, Any] = json.loads(shipped.read("embedded.json"))
    for row in document["rows"]:
        del row["package"], row["file"]
        row |= {"path": str(model), **changes}
    file = tmp_path / "table.json"
    file.write_text(json.dumps(document))
    return file


def shipped_model() -> Path:
    document: dict[str, Any] = json.loads(shipped.read("embedded.json"))
    row = next(row for row in document["rows"] if row["model"] == ROW)
    return file_of(Row(model=ROW, device="hrx", ctx=1, package=row["package"], file=row["file"]))


# --- nothing wrong ---


def test_a_sound_machine_has_no_fault(prepared: Boxes) -> None:
    found = findings(prepared(), status=0)
    assert {one["state"] for ones in found.values() for one in ones} <= {"ok", "warn"}
    assert {"settings", "table", "build", "models", "disk", "port", "clock"} <= found.keys()


def test_a_box_that_runs_has_none_either(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    port = box.url.rpartition(":")[2]
    box.environ["FAIRLANE__GATEWAY__PORT"] = port  # what `fairlane up` chose
    found = findings(box, status=0)
    assert "is ready" in found["box"][0]["text"]
    assert "the gateway answers" in found["port"][0]["text"]
    assert "the broker answers" in found["sockets"][0]["text"]


def test_with_the_appliances_sensors_and_nodes_nothing_is_left_to_say(tmp_path: Path) -> None:
    root = plant(tmp_path / "root")
    for node in ("kfd", "dri/renderD128", "accel/accel0"):
        (root / "dev" / node).parent.mkdir(parents=True, exist_ok=True)
        (root / "dev" / node).touch()
    environ = {
        **os.environ, "FAIRLANE__SENSORS__ROOT": str(root), "FAIRLANE__RUN_DIR": str(tmp_path / "r"),
        "FAIRLANE__STATE_DIR": str(tmp_path / "s"), "FAIRLANE__GATEWAY__PORT": "0",
    }  # fmt: skip
    found = {one.check: one for one in examine(environ, root=root)}
    assert found["gpu"].text == "kfd, renderD128 may be opened"
    assert found["npu"].text == "accel0 may be opened"
    assert found["memlock"].state in {"ok", "fail"}  # as this machine has it
    assert found["sensors"].state == "ok"


def test_lines_for_people_have_the_remedy_below(prepared: Boxes) -> None:
    box = prepared(limits__queue_total=0)
    said = box.cli("doctor")
    assert said.returncode == 1
    first, second, last = said.stdout.splitlines()
    assert first.startswith("fail  settings")
    assert second.strip() == "-> `fairlane settings --example` shows all of them."
    assert last == "1 findings: 1 failed, 0 to know"


# --- planted faults ---


def test_broken_settings(prepared: Boxes) -> None:
    fault(prepared(gateway__prot=1), "settings", "`prot`", "--example")


def test_a_settings_file_that_is_no_toml(prepared: Boxes) -> None:
    box = prepared()
    file = box.home / "bad.toml"
    file.write_text("[gateway\nport = 1\n")
    box.environ["FAIRLANE_CONFIG"] = str(file)
    fault(box, "settings", "bad.toml", "--example")


def test_a_table_that_is_refused(prepared: Boxes, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text('{"version": "1"}')
    fault(prepared(table=file), "table", "is refused", "laya-first --check")


def test_a_run_dir_that_others_may_enter(prepared: Boxes) -> None:
    box = prepared()
    Path(box.run_dir).mkdir(mode=0o755)
    Path(box.run_dir).chmod(0o755)
    fault(box, "run_dir", "mode 0755", "chmod 700")


@ROOT
def test_a_run_dir_of_somebody_else(prepared: Boxes) -> None:
    box = prepared()
    Path(box.run_dir).mkdir(mode=0o700)
    os.chown(box.run_dir, 65534, 65534)
    fault(box, "run_dir", "belongs to nobody", "set run_dir")


def test_a_run_dir_whose_path_is_too_long(prepared: Boxes) -> None:
    box = prepared()
    box.environ["FAIRLANE__RUN_DIR"] = str(box.home / ("x" * 120))
    assert "shorter" in findings(box, status=1)["run_dir"][0]["remedy"]


def test_dead_sockets_of_a_broker_that_was_killed(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    box.supervisor.kill()
    box.supervisor.wait()
    found = findings(box, status=0)
    assert found["sockets"][0]["state"] == "warn"
    assert "dead" in found["sockets"][0]["text"]


def test_a_broker_that_hangs(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    box.kill("broker", signal.SIGSTOP)
    try:
        found = findings(box, status=1)
        assert "does not answer" in found["sockets"][0]["text"]
        assert "fuser" in found["sockets"][0]["remedy"]
    finally:
        box.kill("broker", signal.SIGCONT)


def test_a_run_dir_that_a_process_holds_without_being_a_broker(prepared: Boxes) -> None:
    box = prepared()
    descriptor = lock.take(Path(box.run_dir))
    try:
        fault(box, "sockets", "does not answer", "fuser")
    finally:
        os.close(descriptor)


def test_a_socket_that_others_may_open(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    Path(box.run_dir, "clients.sock").chmod(0o666)
    fault(box, "sockets", "clients.sock has mode 0666", "chmod 600")


def test_a_state_dir_that_another_box_uses(new_box: Boxes, prepared: Boxes) -> None:
    first = new_box(workers__engine="null")
    second = prepared(workers__engine="null", state_dir=first.home / "state")
    other = first.pids()["broker"]
    fault(second, "state_dir", f"process {other} writes a journal", "of its own")


def test_a_port_that_is_taken(prepared: Boxes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        box = prepared(gateway__port=port)
        fault(box, "port", "Address already in use", "gateway.port")
        assert f"process {os.getpid()}" in findings(box, status=1)["port"][0]["text"]


def test_a_host_that_is_not_this_machines(prepared: Boxes) -> None:
    fault(prepared(gateway__port=8, gateway__host="::2"), "port", "cannot be listened on", "port")


def test_a_model_that_is_missing(prepared: Boxes, tmp_path: Path) -> None:
    table = table_of(tmp_path, tmp_path / "gone.gguf")
    found = findings(prepared(table=table), status=1)["models"]
    assert [one["state"] for one in found] == ["fail", "fail"]
    assert f"there is no file {tmp_path / 'gone.gguf'}" in found[0]["text"]


def test_a_model_that_is_cut_short(prepared: Boxes, tmp_path: Path) -> None:
    model = tmp_path / "cut.gguf"
    shutil.copyfile(shipped_model(), model)
    os.truncate(model, model.stat().st_size // 2)
    found = findings(prepared(table=table_of(tmp_path, model)), status=1)["models"]
    assert "its tensors go on behind byte" in found[0]["text"]
    assert "again" in found[0]["remedy"]


def test_a_model_that_is_no_model(prepared: Boxes, tmp_path: Path) -> None:
    model = tmp_path / "page.gguf"
    model.write_text("<html>404 Not Found</html>")
    found = findings(prepared(table=table_of(tmp_path, model)), status=1)["models"]
    assert "not a whole GGUF" in found[0]["text"]


def test_a_model_with_another_template(prepared: Boxes, tmp_path: Path) -> None:
    table = table_of(tmp_path, shipped_model(), template_sha256="ab" * 32)
    found = findings(prepared(table=table), status=1)["models"]
    assert "872be49dbb638044" in found[0]["text"]
    assert "pin the new digest" in found[0]["remedy"]


def test_a_sensors_root_with_nothing_in_it(prepared: Boxes, tmp_path: Path) -> None:
    fault(prepared(sensors__root=tmp_path), "sensors", str(tmp_path), "sensors.root")


def test_a_trace_that_is_not_there(prepared: Boxes, tmp_path: Path) -> None:
    fault(prepared(sensors__replay=tmp_path / "trace"), "sensors", "No such file", "sensors.replay")


def test_a_temperature_that_is_gone_is_worth_knowing(prepared: Boxes, tmp_path: Path) -> None:
    root = plant(tmp_path / "root")
    for chip in (root / "sys/class/hwmon").iterdir():
        if (chip / "name").read_text().strip() == "k10temp":
            (chip / "name").write_text("something else\n")
    found = findings(prepared(sensors__root=root), status=0)["sensors"]
    assert found[0]["state"] == "warn"
    assert "tctl is unknown" in found[0]["text"]


def test_a_trace_that_is_missing_is_found_and_the_rest_is_looked_at(prepared: Boxes) -> None:
    fault(prepared(sensors__replay="/nowhere/trace.jsonl"), "sensors", "trace.jsonl", "replay")


@pytest.mark.parametrize(
    ("setting", "check"),
    [("run_dir", "run_dir"), ("state_dir", "state_dir"), ("store__dir", "store.dir")],
)
def test_a_file_where_a_directory_should_be(prepared: Boxes, setting: str, check: str) -> None:
    box = prepared()
    file = box.home / "file"
    file.touch(mode=0o600)
    box.environ[f"FAIRLANE__{setting.upper()}"] = str(file)
    fault(box, check, "is no directory", f"set {check}")


def test_a_host_that_nobody_knows(prepared: Boxes) -> None:
    box = prepared(gateway__host="no.such.host.invalid", gateway__port=8111)
    fault(box, "port", "no such host is known", "gateway.host")


def test_an_engine_whose_program_is_missing(prepared: Boxes, tmp_path: Path) -> None:
    table = table_of(tmp_path, shipped_model(), engine="1bit")
    box = prepared(table=table)
    box.environ["PATH"] = str(tmp_path)
    fault(box, "engines", f"1bit, which serves {ROW}", "engines.1bit.command")
    program = tmp_path / "1bit"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert findings(box, status=0)["engines"][0]["text"] == "1bit: what they need is here"


def test_a_neighbour_that_does_not_answer_is_worth_knowing(prepared: Boxes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        file = table_of(tmp_path, tmp_path, url=url)
        document = json.loads(file.read_text())
        for row in document["rows"]:
            del row["path"]
            row.pop("template_sha256", None)
            row.pop("engine", None)
        file.write_text(json.dumps(document))
        box = prepared(table=file)
        sound = findings(box, status=0)
        assert "somebody listens" in sound["engines"][0]["text"]
        assert {one["state"] for one in sound["models"]} == {"ok"}
    (found,) = findings(box, status=0)["engines"]
    assert found["state"] == "warn"
    assert f"{url}, which serves {ROW}" in found["text"]


def test_a_scorer_whose_files_or_program_are_missing(prepared: Boxes, tmp_path: Path) -> None:
    model = tmp_path / "laya.gguf"
    box = prepared(scorer__backend="laya-daemon", scorer__gguf=model)
    box.environ["FAIRLANE__SCORER__COMMAND"] = "nowhere-to-be-found {gguf}"
    said = [one["text"] for one in findings(box, status=1)["scorer"]]
    assert said == [
        f"laya-daemon: {model} cannot be read: No such file or directory",
        "laya-daemon: there is no program nowhere-to-be-found on the PATH, or it may not be run",
    ]
    model.touch()
    box.environ["FAIRLANE__SCORER__COMMAND"] = f"{sys.executable} {{gguf}}"
    assert findings(box, status=0)["scorer"][0]["state"] == "ok"


def test_a_check_that_breaks_is_a_finding_and_the_others_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def breaks(_patient: Patient) -> Iterator[Finding]:
        raise OSError(5, "Input/output error", "/dev/broken")

    monkeypatch.setattr(checks, "CHECKS", (breaks, *checks.CHECKS[:1]))
    environ = {
        "FAIRLANE__RUN_DIR": str(tmp_path / "r"), "FAIRLANE__STATE_DIR": str(tmp_path / "s"),
        "HOME": str(tmp_path),
    }  # fmt: skip
    found = list(examine(environ))
    assert [(one.check, one.state) for one in found[-2:]] == [("breaks", "fail"), ("run_dir", "ok")]
    assert "/dev/broken" in found[-2].text


@ROOT
def test_a_full_disk(prepared: Boxes) -> None:
    box = prepared()
    with _small_disk(box.home / "state"):
        (box.home / "state" / "filler").write_bytes(bytes(2**20 - 2**14))
        fault(box, "disk", "for state_dir", "Make room")


@ROOT
def test_a_disk_too_small_for_a_model_is_worth_knowing(prepared: Boxes) -> None:
    box = prepared()
    with _small_disk(box.home / "models", size="8m"):
        box.environ["FAIRLANE__STORE__DIR"] = str(box.home / "models")
        found = findings(box, status=0)["disk"]
        said = next(one for one in found if "store.dir" in one["text"])
        assert said["state"] == "warn"
        assert "one larger model" in said["remedy"]


@contextmanager
def _small_disk(path: Path, size: str = "1m") -> Iterator[None]:
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no disk may be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def llama_print_system_info(): return b'CPU : AVX2 = 1 | AMX_INT8 = 1 |'", "AMX_INT8"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "ended by SIGILL"),
        ("raise ImportError('libgomp.so.1: cannot open')", "libgomp.so.1"),
    ],
)
def test_a_build_that_crashes_here(prepared: Boxes, code: str, words: str) -> None:
    box = prepared()
    package = box.home / "fake" / "llama_cpp.py"
    package.parent.mkdir()
    package.write_text(code)
    box.environ["PYTHONPATH"] = f"{package.parent}:{box.environ['PYTHONPATH']}"
    fault(box, "build", words, "make setup")


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    code = (
        "import time, sys; real = time.time; time.time = lambda: real() - 10 * 365 * 86400\n"
        "from ops.cli import main; sys.argv = ['fairlane', 'doctor', '--json']; main()"
    )
    environ = {
        **os.environ, "PYTHONPATH": str(TREE), "FAIRLANE__GATEWAY__PORT": "0",
        "FAIRLANE__RUN_DIR": str(tmp_path / "r"), "FAIRLANE__STATE_DIR": str(tmp_path / "s"),
    }  # fmt: skip
    said = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    clock = next(one for one in json.loads(said.stdout)["findings"] if one["check"] == "clock")
    assert (said.returncode, clock["state"]) == (1, "fail")
    assert "set-ntp" in clock["remedy"]


def test_a_worker_that_does_not_come_back(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    worker = box.processes()["npu"]
    box.supervisor.send_signal(signal.SIGSTOP)  # so that nobody starts another
    try:
        worker.kill()
        until(lambda: not box.status()["devices"]["npu0"]["worker"], "its loss")
        fault(box, "box", "no worker serves npu0", "process_down")
    finally:
        box.supervisor.send_signal(signal.SIGCONT)


def test_a_box_that_drains_is_worth_knowing(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    box.cli("drain")
    found = findings(box, status=0)["box"]
    assert [one["state"] for one in found] == ["warn", "ok"]
    assert "--undo" in found[0]["remedy"]
