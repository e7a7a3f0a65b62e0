"""Other processes of this machine: when they started, which are of a group, and how to end them.

Rules of this file: nothing here waits. A pid is used again by the kernel, so a process is named by its
pid and its start together, and that is looked at again before each signal. A start is told in seconds
since the machine's own, as the kernel keeps it: the wall clock may be set meanwhile.
"""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# In the environment of an outside holder's command, and so of all that it starts: the name of the hold. Its
# group alone would not do: `timeout`, `setsid` and shells with job control make groups of their own.
MARK = "FAIRLANE_HOLD"
_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# places in /proc/PID/stat behind the parenthesis that ends the command's name
_STATE, _GROUP, _STARTED = 0, 2, 19


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the kernel shows it."""

    pid: int
    group: int
    started: float  # seconds since the machine's start


def seen(pid: int) -> Process | None:
    """Return a process, or None if there is none of that pid; one that only has not been reaped is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _STARTED or fields[_STATE] in {"Z", "X"}:
        return None
    return Process(pid, int(fields[_GROUP]), int(fields[_STARTED]) / _TICKS_PER_S)


def started_at(pid: int) -> float:
    """Return a process's start, in seconds since the machine's; 0.0 if there is no such process."""
    process = seen(pid)
    return process.started if process is not None else 0.0


def members(pgid: int) -> list[Process]:
    """Return the living processes of a group."""
    return [process for process in _all() if process.group == pgid]


def marked(name: str, strangers: set[Process]) -> list[Process]:
    """Return the living processes that carry the mark of a hold, of whatever group they are.

    Args:
        name: Of the hold.
        strangers: Those that were looked at and carry none, which is for good; to be handed in again.
    """
    found = _all()
    strangers.intersection_update(found)
    carry = {one: _carries(one.pid, name) for one in found if one not in strangers}
    strangers.update(one for one, carries in carry.items() if carries is False)
    return [one for one, carries in carry.items() if carries]


def _all() -> list[Process]:
    with os.scandir(_PROC) as entries:
        pids = [int(entry.name) for entry in entries if entry.name.isdigit()]
    found = [seen(pid) for pid in pids]
    return [process for process in found if process is not None]


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal that would end it else, or ignores it."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    masks = [line.split()[1] for line in status.splitlines() if line[:7] in {"SigIgn:", "SigCgt:"}]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


class Doomed:
    """One process, or one group, that is being ended."""

    def __init__(self, name: str, pid: int, pgid: int, started: float, grace_s: float) -> None:
        """Remember what to end.

        Args:
            name: Name of the hold, which all that was started under it carries in its environment.
            pid: The process, the group's leader if there is one.
            pgid: The group; 0: the process alone.
            started: The process's start, seconds since the machine's.
            grace_s: From SIGTERM to SIGKILL; 0: SIGKILL at once.
        """
        self.pid = pid
        self._name = name
        self._pgid = pgid
        self._started = started
        self._grace_s = grace_s
        self._kill_at: float | None = None
        self._strangers: set[Process] = set()

    def step(self, at: float) -> bool:
        """Send what is due; return whether all of it has ended."""
        alive = self._alive()
        if not alive:
            return True
        if self._kill_at is None:
            self._kill_at = at + self._grace_s
            if self._grace_s > 0:
                self._send(alive, signal.SIGTERM)
                self._send(alive, signal.SIGCONT)  # what is stopped hears SIGTERM only then
        if at >= self._kill_at:
            self._send(alive, signal.SIGKILL)
        return False

    @property
    def lives(self) -> bool:
        """Whether any of it is still there."""
        return bool(self._alive())

    def _alive(self) -> list[Process]:
        leader = seen(self.pid)
        is_ours = leader is not None and abs(leader.started - self._started) < 1.5 / _TICKS_PER_S
        if not self._pgid:
            return [leader] if leader is not None and is_ours else []
        # the kernel gives a pid away again only when no group has its number any more
        group = members(self._pgid) if is_ours else []
        return [*{*group, *marked(self._name, self._strangers)}]

    @staticmethod
    def _send(processes: list[Process], number: int) -> None:
        for process in processes:
            now = seen(process.pid)
            if now is not None and now.started == process.started:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, number)


def _carries(pid: int, name: str) -> bool | None:
    """Return whether a process has the mark of a hold in the environment it was started with.

    None: it shows none, as one that is just becoming another program does.
    """
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except PermissionError:
        return False  # another user's
    except OSError:
        return None
    return f"{MARK}={name}".encode() in environ.split(b"\0") if environ else None


class Reaper:
    """Ends processes and groups, and says when each has ended."""

    def __init__(self) -> None:
        self._doomed: dict[tuple[int, int], Doomed] = {}  # (pid, lease)

    def __bool__(self) -> bool:
        return bool(self._doomed)

    def has(self, pid: int) -> bool:
        """Return whether the end of a process, or of its group, will be told."""
        return any(pid == known for known, _ in self._doomed)

    def add(self, lease: int, doomed: Doomed) -> None:
        """Take something in hand; what is in hand already stays as it is."""
        self._doomed.setdefault((doomed.pid, lease), doomed)

    def step(self, at: float) -> list[tuple[int, int]]:
        """Send the signals that are due; return (pid, lease) of what has ended."""
        ended = [key for key, doomed in self._doomed.items() if doomed.step(at)]
        for key in ended:
            del self._doomed[key]
        return ended
