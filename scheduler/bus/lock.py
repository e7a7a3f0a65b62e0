"""One broker a run directory.

libzmq takes over an ipc path that another process listens on, without a word: a second broker would
cut the first one off. The lock is the kernel's, so it ends with its process however that ends.
"""

import fcntl
import os
from pathlib import Path

from scheduler.errors import BusError


class RunDirTaken(BusError):
    """Another box runs in this run directory."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(
            f"a box already runs in {run_dir}; stop it, or set run_dir (FAIRLANE__RUN_DIR) to another"
        )


def take(run_dir: Path) -> int:
    """Take the directory and return the descriptor that holds it, to be kept open.

    Raises:
        RunDirTaken: Another process holds it.
        BusError: The directory cannot be made or written.
    """
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BusError(f"cannot use the run directory {run_dir}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise RunDirTaken(run_dir) from error
    return descriptor


def check_free(run_dir: Path) -> None:
    """Refuse a directory in which a box runs.

    Raises:
        RunDirTaken, BusError: As `take`.
    """
    os.close(take(run_dir))
