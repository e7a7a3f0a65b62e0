"""A real box: `fairlane up` as a subprocess, with directories, sockets and a port of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

import ops
from scheduler.bus import Client
from support.opened import Opened
from support.wait import PATIENCE_S, until

TREE = Path(ops.__file__).parents[1]  # the tree under test, wherever it stands
KINDS = ("broker", "gateway", "scorer", "hrx", "npu")  # that every box has; there may be more
_NOT_HANDED_ON = ("FAIRLANE", "XDG_")


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs; one that ended and was not reaped yet does not."""
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Box(Opened):
    """One appliance. `with Box() as box:` starts it, waits until it is ready and ends it."""

    def __init__(self, **settings: object) -> None:
        """Prepare, but start nothing.

        Args:
            settings: As in the environment, `workers__engine="null"`, on top of a free port and
                directories that no other box has.
        """
        self._room = tempfile.TemporaryDirectory(prefix="fl-", ignore_cleanup_errors=True)
        self.home = Path(self._room.name)
        self.log_file = self.home / "log"
        given: dict[str, object] = {
            "run_dir": self.home / "run",
            "state_dir": self.home / "state",
            "gateway__port": 0,
            **settings,
        }
        self.run_dir = str(given["run_dir"])
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(_NOT_HANDED_ON)},
            "HOME": str(self.home),
            "COLUMNS": "140",
            "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")]),
            **{f"FAIRLANE__{name.upper()}": str(value) for name, value in given.items()},
        }
        self.flags: list[str] = []  # of the command line
        self.url = ""
        self.ready_s = 0.0
        self._up: subprocess.Popen[bytes] | None = None
        self._seen: dict[int, psutil.Process] = {}

    # --- its life ---

    def spawn(self) -> "subprocess.Popen[bytes]":
        """Start `fairlane up` and return at once."""
        with self.log_file.open("ab") as log:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "up", *self.flags],
                env=self.environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        return self._up

    def open(self) -> None:
        """Start it, as `start` does."""
        self.start()

    def start(self) -> None:
        """Start and wait until the box says that it is ready."""
        began_at = time.monotonic()
        self.spawn()
        ready = until(self._ready_record, "the box is ready", within_s=120.0)
        self.ready_s = time.monotonic() - began_at
        self.url = ready["url"]
        self.pids()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Signal the supervisor; return its exit status and the seconds until it had ended."""
        began_at = time.monotonic()
        self.supervisor.send_signal(number)
        status = self.supervisor.wait(timeout=60)
        return status, time.monotonic() - began_at

    def close(self) -> None:
        """End whatever of this box still runs and remove its directories."""
        if self._up is not None and self._up.poll() is None:
            self.pids()
            self._up.kill()
            self._up.wait()
        for process in self._seen.values():
            if lives(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        until(lambda: not any(map(lives, self._seen.values())), "the end of the box's processes")
        self._room.cleanup()

    @property
    def supervisor(self) -> "subprocess.Popen[bytes]":
        """The `fairlane up` process."""
        assert self._up is not None, "the box was not started"
        return self._up

    # --- its processes ---

    def processes(self) -> dict[str, psutil.Process]:
        """Return the living children of the supervisor by kind."""
        found: dict[str, psutil.Process] = {}
        for child in psutil.Process(self.supervisor.pid).children():
            try:
                command = child.cmdline()
            except psutil.NoSuchProcess:
                continue
            if "ops.processes" in command:
                found[command[-1]] = child
                self._seen[child.pid] = child
        return found

    def pids(self) -> dict[str, int]:
        """Return the pids of the box's processes by kind."""
        return {kind: process.pid for kind, process in self.processes().items()}

    def kill(self, kind: str, number: int = signal.SIGKILL) -> int:
        """Send a process of the box a signal and return its pid."""
        pid = self.pids()[kind]
        os.kill(pid, number)
        return pid

    def wait_for_new(self, kind: str, old_pid: int, *, within_s: float = PATIENCE_S) -> int:
        """Return the pid of the process that took a killed one's place."""

        def fresh() -> int:
            pid = self.pids().get(kind, 0)
            return 0 if pid == old_pid else pid

        return until(fresh, f"a new {kind}", within_s=within_s)

    # --- its views ---

    @property
    def clients(self) -> str:
        """Endpoint for clients of the bus."""
        return f"ipc://{self.run_dir}/clients.sock"

    @property
    def workers(self) -> str:
        """Endpoint for workers."""
        return f"ipc://{self.run_dir}/workers.sock"

    def bus(self, lane: str = "test") -> Client:
        """Return a client of the bus."""
        return Client(self.clients, lane=lane, timeout_s=60.0)

    def status(self) -> dict[str, Any]:
        """Return the broker's view."""
        with self.bus() as bus:
            return bus.status()

    def count(self, name: str) -> int:
        """Return one of the broker's counters."""
        return int(self.status()["counts"].get(name, 0))

    def living(self) -> list[int]:
        """Return the pids of this box's processes that still run."""
        return [pid for pid, process in self._seen.items() if lives(process)]

    @staticmethod
    def command(*arguments: str) -> list[str]:
        """Return the command line of a `fairlane` command."""
        return [sys.executable, "-m", "ops.cli", *arguments]

    def cli(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a `fairlane` command against this box."""
        return subprocess.run(
            self.command(*arguments),
            env=self.environ, cwd=TREE, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def log(self) -> list[dict[str, Any]]:
        """Return the records of the log so far."""
        if not self.log_file.exists():
            return []
        lines = self.log_file.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "\n"]

    def _ready_record(self) -> dict[str, Any] | None:
        if self.supervisor.poll() is not None:
            raise AssertionError(f"the box ended: {self.log_file.read_text()[-2000:]}")
        return next((record for record in self.log() if record["action"] == "ready"), None)
