"""Broker and workers without a supervisor, so that a broker can be killed and started again at once."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ops
from scheduler.bus import Client
from scheduler.settings import Settings
from support.opened import Opened
from support.wait import until

TREE = Path(ops.__file__).parents[1]


class Lone(Opened):
    """A broker with a null engine and a scorer. A context manager."""

    def __init__(self, **settings: object) -> None:
        """Prepare; settings as in the environment, `journal__segment_bytes=65536`."""
        self._room = tempfile.TemporaryDirectory(prefix="fl-")
        self.folder = Path(self._room.name)
        self.journal = self.folder / "journal"
        self.settings = Settings(run_dir=str(self.folder), state_dir=str(self.folder))
        given = {"run_dir": self.folder, "state_dir": self.folder, "workers__engine": "null"}
        self._environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("FAIRLANE", "XDG_"))},
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")]),
            **{f"FAIRLANE__{k.upper()}": str(v) for k, v in {**given, **settings}.items()},
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def open(self) -> None:
        """Start all three and wait until the broker knows them."""
        for kind in ("broker", "hrx", "scorer"):
            self.start(kind)
        with self.client() as client:
            until(lambda: client.status()["scorers"], "a scorer", within_s=120.0)
            until(lambda: client.status()["devices"]["hrx0"]["worker"], "a device worker")

    def close(self) -> None:
        """End all processes and remove their folder."""
        for process in self._running.values():
            process.kill()
            process.wait()
        self._room.cleanup()

    def start(self, kind: str) -> None:
        """Start a process; its log is a file of its kind."""
        with (self.folder / f"{kind}.log").open("ab") as log:
            self._running[kind] = subprocess.Popen(
                [sys.executable, "-m", "ops.processes", kind],
                env=self._environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, kind: str, number: int = signal.SIGKILL) -> None:
        """End a process and wait until it has."""
        process = self._running[kind]
        process.send_signal(number)
        process.wait()

    def restart_broker(self) -> float:
        """Kill the broker, start another at once; return the seconds until that one answered."""
        self.kill("broker")
        began_at = time.monotonic()
        self.start("broker")
        with self.client() as client:
            until(client.status, "an answer", within_s=120.0)
        return time.monotonic() - began_at

    def client(self, lane: str = "test") -> Client:
        """Return a client of the bus."""
        return Client(self.settings.frontend(), lane=lane, timeout_s=60.0)

    def log(self, kind: str = "broker") -> str:
        """Return what a kind of process has said."""
        return (self.folder / f"{kind}.log").read_text()
