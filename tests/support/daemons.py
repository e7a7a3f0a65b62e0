"""Daemons that are really processes: the shipped fake, playing what a test names."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from workers.daemon import Daemon


def command(play: str = "well", *more: object) -> list[str]:
    """Return the program and its arguments."""
    words = ["--play", play, *map(str, more)]
    return [sys.executable, "-m", "workers.fake_daemon", *words]


@contextmanager
def daemon(argv: Sequence[str], *, ready_s: float = 20.0, reply_s: float = 5.0) -> Iterator[Daemon]:
    """Keep a daemon for as long as the block runs."""
    kept = Daemon(argv, "a daemon", ready_s=ready_s, reply_s=reply_s)
    try:
        yield kept
    finally:
        kept.close()


def fakes(parent: int | None = None) -> list[psutil.Process]:
    """Return the living fakes below a process, this one by default. A zombie is one, too."""
    found = []
    for child in psutil.Process(parent).children(recursive=True):
        try:
            is_zombie = child.status() == psutil.STATUS_ZOMBIE
            if is_zombie or any("workers." in word for word in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def asked(file: Path) -> int:
    """Return how many questions a counting fake has heard."""
    return file.read_text().count("\n") if file.exists() else 0
