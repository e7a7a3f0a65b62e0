"""A box of single processes, started by the units' own command lines: no `fairlane up` above them.

There is no systemd here. What is shown is that each unit's command runs by itself, under a kernel that denies
memory which is both writable and executable where the unit says so, that a question is answered, that one log
line is one JSON object, and that each ends by SIGTERM within the unit's time.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.box import TREE, Box
from support.http import CHAT, call, chat
from support.ports import free_port
from support.units import install, read
from support.wait import until

NAMES = ("broker", "gateway", "scorer", "store", "sensors", "hrx", "npu")
_DENY = (  # PR_SET_MDWE, which a program inherits; a kernel before 6.3 has none
    "import ctypes, os, sys\n"
    "if sys.argv[1] == 'yes': ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class Lone:
    """The processes of one box, by name."""

    def __init__(self, room: Path) -> None:
        self.box = Box()  # for its environment and views; never started
        self.units = {name: unit for name, unit in read(install(room)).items() if name in NAMES}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.logs = room / "logs"
        self.logs.mkdir()
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start a unit's command; only the place of the settings is another."""
        unit = self.units[name]
        file = self.box.home / "fairlane.toml"
        file.touch()
        command = [str(file) if "fairlane.toml" in part else part for part in unit.command]
        denied = unit.values.get("MemoryDenyWriteExecute", "no")
        environ = {**self.box.environ, "FAIRLANE__GATEWAY__PORT": str(self.port)}
        with (self.logs / name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-c", _DENY, denied, *command],
                env=environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def answers(self) -> bool:
        try:
            return bool(call(self.url, CHAT, chat(model="auto")).status == 200)
        except OSError:
            return False

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.box.close()


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lone]:
    lone = Lone(tmp_path_factory.mktemp("lone"))
    try:
        for name in reversed(NAMES):  # the order is no condition: each waits for the broker
            lone.start(name)
        until(lone.answers, "an answer", within_s=60.0)
        yield lone
    finally:
        lone.close()


def test_a_question_is_answered_and_decided(lone: Lone) -> None:
    reply = call(lone.url, CHAT, chat("What is the capital of Italy?", model="auto"))
    assert (reply.status, reply.outputs["class"]) == (200, "short")
    status = lone.box.status()
    assert status["ready"]
    assert status["supervisor"] == 0
    assert {name for name, device in status["devices"].items() if device["worker"]} == {
        "hrx0", "npu0",
    }  # fmt: skip


def test_a_killed_worker_that_is_started_again_serves_again(lone: Lone) -> None:
    lone.running["hrx"].send_signal(signal.SIGKILL)
    lone.running["hrx"].wait()
    lone.start("hrx")  # as systemd does, a second later
    until(lone.answers, "an answer of the new one", within_s=30.0)


def test_a_worker_that_hangs_is_ended_by_the_broker_itself(lone: Lone) -> None:
    hung = lone.running["npu"]
    hung.send_signal(signal.SIGSTOP)
    until(lambda: hung.poll() is not None, "its end", within_s=30.0)
    assert hung.returncode == -signal.SIGKILL
    lone.start("npu")
    until(lambda: lone.box.status()["devices"]["npu0"]["worker"], "the new one", within_s=30.0)


def test_then_stop_says_that_there_is_no_supervisor(lone: Lone) -> None:
    drained = lone.box.cli("drain", "--then-stop")
    assert drained.returncode == 1
    assert "systemctl stop fairlane.target" in drained.stderr
    assert lone.box.cli("drain", "--undo").returncode == 0


def test_all_end_by_sigterm_in_time_and_every_log_line_was_json(lone: Lone) -> None:
    for name in reversed(NAMES):  # as systemd stops them: the broker last
        process = lone.running[name]
        process.send_signal(signal.SIGTERM)
        assert process.wait(int(lone.units[name].values["TimeoutStopSec"])) == 0, name
        lines = (lone.logs / name).read_text().splitlines()
        assert lines, name
        for line in lines:
            record = json.loads(line)
            assert {"at", "level", "from", "action"} <= record.keys()
    assert os.listdir(lone.logs)  # noqa: PTH208  # nothing else was written beside them
