"""What every process of the box does first: die with its supervisor, and know its own start."""

import ctypes
import os
import signal

from scheduler.bus import processes

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, however the parent ends.

    SIGKILL, because a process inside a long driver call handles no other signal in time. Only Linux has
    it; elsewhere `parent_is_gone` is asked at every heartbeat.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return


def parent_is_gone(parent: int) -> bool:
    """Return whether the process that started this one has ended."""
    return os.getppid() != parent


def started_at() -> float:
    """Return this process's start, in seconds since the machine's, as the kernel keeps it.

    With the pid it names one process for as long as the machine runs.
    """
    return processes.started_at(os.getpid())
