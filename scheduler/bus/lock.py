"""One broker a run directory, and one a state directory.

libzmq takes over an ipc path that another process listens on, without a word: a second broker would cut the
first one off. And a broker goes on from the journal in its state directory: of a box that still runs it would
take every worker and every holder for one that its predecessor has left, and have them ended.
The locks are the kernel's, so they end with their process however that ends.
"""

import errno
import fcntl
import os
from pathlib import Path

from scheduler.errors import BusError

_TAKEN = frozenset({errno.EWOULDBLOCK, errno.EACCES})


class RunDirTaken(BusError):
    """Another box runs in this run directory."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(
            f"a box already runs in {run_dir}; stop it, or set run_dir (FAIRLANE__RUN_DIR) to another"
        )


class StateDirTaken(BusError):
    """Another box keeps its state in this directory."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(
            f"another box keeps its state in {state_dir}; stop it, or set state_dir (FAIRLANE__STATE_DIR) "
            "to another: two brokers would end each other's workers"
        )


def take(run_dir: Path) -> int:
    """Take the run directory and return the descriptor that holds it, to be kept open.

    Raises:
        RunDirTaken: Another process holds it.
        BusError: The directory cannot be made or written.
    """
    try:
        run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _open(run_dir / "lock")
    except OSError as error:
        raise BusError(f"cannot use the run directory {run_dir}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise RunDirTaken(run_dir) from error
    return descriptor


def take_state(state_dir: Path) -> int | None:
    """Take the state directory and return the descriptor that holds it, to be kept open.

    Returns:
        None where nothing can be kept there: the box runs without a journal then, and takes over nothing.

    Raises:
        StateDirTaken: Another process holds it.
    """
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        descriptor = _open(state_dir / "broker.lock")
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in _TAKEN:
            raise StateDirTaken(state_dir) from error
        return None  # a file system without locks
    return descriptor


def check_free(run_dir: Path, state_dir: Path) -> None:
    """Refuse directories in which a box runs.

    Raises:
        RunDirTaken, StateDirTaken, BusError: As `take` and `take_state`.
    """
    os.close(take(run_dir))
    descriptor = take_state(state_dir)
    if descriptor is not None:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
