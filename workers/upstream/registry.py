"""Which server processes are ours, written down so that the next worker ends what this one left behind.

The kernel ends a child with us (workers/leash.py), but not what the child started itself. A killed worker
tells nobody; its successor reads this.
"""

import json
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from scheduler.bus import processes
from scheduler.bus.processes import Doomed
from scheduler.log import note

log = logging.getLogger(__name__)
_REAP_S = 3.0  # what was killed has ended within this, or the driver holds it and nothing helps
_LOOK_S = 0.02


class Entry(NamedTuple):
    """One server process."""

    name: str  # carried in the environment of all its group
    pid: int  # of its leader, and of its group
    started: float  # seconds since the machine's start
    owner: int  # the worker
    owner_started: float
    model: str


class Registry:
    """A folder with a file a process."""

    def __init__(self, folder: Path, owner: int) -> None:
        """Remember where; nothing is made before there is something to write.

        Args:
            folder: Of this device alone.
            owner: Our pid.
        """
        self._folder = folder
        self._owner = owner
        self._owner_started = processes.started_at(owner)

    def add(self, name: str, pid: int, model: str) -> None:
        """Write a process down."""
        started = processes.started_at(pid)
        entry = Entry(name, pid, started, self._owner, self._owner_started, model)
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"{name}.part"
        part.write_text(json.dumps(entry), encoding="utf-8")
        part.rename(self._folder / f"{name}.json")

    def remove(self, name: str) -> None:
        """Forget a process that has ended."""
        with suppress(OSError):
            (self._folder / f"{name}.json").unlink()

    def reap(self) -> int:
        """End what workers that live no more have left behind; return how many groups there were."""
        left: list[tuple[Entry, Doomed]] = []
        for file in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            entry = _read(file)
            if entry is not None and _lives(entry.owner, entry.owner_started):
                continue
            if entry is not None:
                doomed = Doomed(entry.name, entry.pid, entry.pid, entry.started, 0.0)
                if doomed.lives:
                    left.append((entry, doomed))
            with suppress(OSError):
                file.unlink()
        ends_at = time.monotonic() + _REAP_S
        for entry, doomed in left:
            note(log, "orphan_reaped", level=logging.WARNING, pid=entry.pid, model=entry.model)
            while not doomed.step(time.monotonic()) and time.monotonic() < ends_at:
                time.sleep(_LOOK_S)
        return len(left)


def _read(file: Path) -> Entry | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Entry)
    except (OSError, msgspec.MsgspecError):
        return None


def _lives(pid: int, started: float) -> bool:
    return abs(processes.started_at(pid) - started) < 0.02
