"""The command of an outside lane: a process group of its own, that exists before the grant and runs after it.

The child is forked before anything is asked of the broker and waits, so that the hold names its process
group from the first message on. It dies with this process by the kernel's hand; what it started itself is
ended by the supervisor when the lease ends.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from scheduler.bus import processes
from workers.process import die_with_parent

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit statuses as shells give them


@dataclass(frozen=True, slots=True)
class Group:
    """A process group that uses the device, 0: none; and what it started that made groups of its own."""

    pgid: int
    pid: int
    started: float
    mark: str = ""  # the name of the hold that they carry; empty: they carry none
    strangers: set[processes.Process] = field(default_factory=set)

    def alive(self) -> list[processes.Process]:
        """Return its living processes."""
        if not self.pgid:
            return []
        others = processes.marked(self.mark, self.strangers) if self.mark else []
        return [*{*processes.members(self.pgid), *others}]

    def signal(self, number: int) -> None:
        """Send a signal to the group, as a terminal would. One that has ended is no error."""
        if self.pgid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pgid, number)

    def end_gently(self) -> None:
        """Ask all of it to end; what is stopped must go on for that."""
        self._send_all(signal.SIGTERM)
        self._send_all(signal.SIGCONT)

    def end_now(self) -> None:
        """Kill all of it."""
        self._send_all(signal.SIGKILL)

    def _send_all(self, number: int) -> None:
        self.signal(number)
        for process in self.alive():
            if process.group != self.pgid:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, number)

    def warn(self) -> None:
        """Send SIGUSR1 to those that handle it: for the others it would be the end, without any grace."""
        for process in self.alive():
            if processes.catches(process.pid, signal.SIGUSR1):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGUSR1)


class Command:
    """One command, forked and waiting until `go`."""

    def __init__(self, argv: Sequence[str], mark: str) -> None:
        """Fork.

        Args:
            argv: The command and its arguments.
            mark: Name of the hold; all of its group carry it in their environment.
        """
        gate, self._opener = os.pipe()
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(self._opener)
            _wait_and_become(argv, mark, gate, parent)
        os.close(gate)
        with suppress(PermissionError):  # it has done so itself, and has become another program
            os.setpgid(pid, pid)
        self.group = Group(pid, pid, processes.started_at(pid), mark)
        self.status: int | None = None  # exit status, 128 + n for a signal; None: it runs
        self._terminal = _Terminal()
        self._runs = False

    @property
    def runs(self) -> bool:
        """Whether it was let go and has not ended."""
        return self._runs and self.status is None

    def go(self) -> None:
        """Let it run; the terminal is its own from now on, if there is one and it was ours."""
        self._runs = True
        self._terminal.give(self.group.pgid)
        with suppress(BrokenPipeError):  # it was ended while it waited; its status says how
            os.write(self._opener, b"g")
        os.close(self._opener)

    def drop(self) -> None:
        """End it though it never ran."""
        if not self._runs:
            os.close(self._opener)
            os.waitpid(self.group.pid, 0)

    def look(self) -> bool:
        """Take its exit status if it has ended; return whether it was stopped meanwhile."""
        if self.status is not None:
            return False
        pid, status = os.waitpid(self.group.pid, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            return True
        code = os.waitstatus_to_exitcode(status)
        self.status = code if code >= 0 else 128 - code
        self._terminal.take_back()
        return False

    def stop_with(self) -> None:
        """It was suspended: suspend ourselves as well, so that the shell has its prompt; then both go on."""
        self._terminal.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._terminal.give(self.group.pgid)
        self.group.signal(signal.SIGCONT)

    @property
    def has_terminal(self) -> bool:
        """Whether the terminal was handed to it."""
        return self._terminal.given


def _wait_and_become(argv: Sequence[str], mark: str, gate: int, parent: int) -> None:
    """Wait to be let go, then become the command. Never returns."""
    status = NOT_FOUND
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent()
        if os.getppid() != parent or os.read(gate, 1) == b"":
            os._exit(0)  # nobody waits for it any more
        os.close(gate)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), {**os.environ, processes.MARK: mark})  # noqa: S606  # what was asked for
    except PermissionError:
        status = NOT_EXECUTABLE
        os.write(2, f"fairlane: {argv[0]} is not executable\n".encode())
    except OSError as error:
        os.write(2, f"fairlane: {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(status)


class _Terminal:
    """The terminal of standard input, where this process is in its foreground."""

    def __init__(self) -> None:
        self.given = False
        self._own = os.getpgrp()

    def give(self, pgid: int) -> None:
        """Make a group the one that reads from the terminal and gets its signals."""
        with suppress(OSError):
            if os.isatty(0) and os.tcgetpgrp(0) == self._own:
                self._set(pgid)
                self.given = True

    def take_back(self) -> None:
        """Read from the terminal ourselves again."""
        if self.given:
            self.given = False
            with suppress(OSError):
                self._set(self._own)

    @staticmethod
    def _set(pgid: int) -> None:
        before = signal.signal(
            signal.SIGTTOU, signal.SIG_IGN
        )  # from the background it would stop us
        try:
            os.tcsetpgrp(0, pgid)
        finally:
            signal.signal(signal.SIGTTOU, before)
