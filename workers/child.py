"""A child process that is talked to over its pipes and never outlives us."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

_CHUNK = 64 * 1024
_EOF_S, _TERM_S = (
    0.7,
    0.4,
)  # how long a child gets to end at the end of its input, then after SIGTERM


class Child:
    """One process. Belongs to the thread that makes it: the kernel ends it with that thread."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it.

        Args:
            command: Program and arguments; a program that cannot be run says so on its stderr and
                exits with 127.

        Raises:
            OSError: No process can be made.
        """
        self._process = subprocess.Popen(  # noqa: S603  # the site chose the program
            [sys.executable, "-m", "workers.leash", str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # a group of its own, to be killed as one
        )
        self._stdin = _pipe(self._process.stdin)
        self.stdout = _pipe(self._process.stdout)
        self.stderr = _pipe(self._process.stderr)
        for pipe in (self._stdin, self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        return self._process.pid

    def write(self, line: bytes) -> None:
        """Send it a line.

        Raises:
            OSError: It is gone, or does not read.
        """
        if os.write(self._stdin.fileno(), line) != len(line):
            raise BlockingIOError("it does not read")

    def read(self, pipe: IO[bytes]) -> bytes | None:
        """Return the next bytes of its stdout or stderr, empty at the end, None if none wait."""
        try:
            return os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return None

    def end(self, *, gently: bool) -> int:
        """End it, with all of its group, and return its exit status.

        Args:
            gently: Let it end by itself first: no more input, then SIGTERM. Else SIGKILL at once.
        """
        self._stdin.close()
        if gently and self._ended_within(_EOF_S) is None:
            self._signal(signal.SIGTERM)
            self._ended_within(_TERM_S)
        self._signal(signal.SIGKILL)  # also what it started itself and left behind
        status = self._process.wait()
        self.stdout.close()
        self.stderr.close()
        return status

    def _ended_within(self, seconds: float) -> int | None:
        """Wait for its end and return the status, or None; reaps it no more than `wait` does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # never: all three were asked for
        raise RuntimeError("a child without its pipes")
    return pipe
