"""Servers that are really processes: the shipped fake, playing what a test names."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

LISTENS = "listening on "


class Server(NamedTuple):
    """A running fake."""

    url: str
    process: subprocess.Popen[str]
    heard: Path  # what it was asked, a JSON line each

    def asked(self) -> list[dict[str, Any]]:
        """Return path and body of each request that is written down whole."""
        lines = self.heard.read_text().splitlines(keepends=True) if self.heard.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def slots(self) -> list[dict[str, Any]]:
        """Return what its slots do."""
        slots: list[dict[str, Any]] = httpx.get(f"{self.url}/slots", timeout=60).json()
        return slots


def command(play: str = "well", *more: object) -> list[str]:
    """Return the program and its arguments."""
    return [sys.executable, "-m", "workers.fake_server", "--play", play, *map(str, more)]


@contextmanager
def server(folder: Path, play: str = "well", *more: object) -> Iterator[Server]:
    """Run a fake for as long as the block runs."""
    count = folder / "asked.jsonl"
    argv = command(play, "--count", count, *more)
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = next((line for line in process.stderr if LISTENS in line), "")
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield Server(line.partition(LISTENS)[2].strip(), process, count)
        finally:
            process.kill()
