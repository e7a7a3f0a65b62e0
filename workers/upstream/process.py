"""One server process of ours: started, listened to, ended with all of its group.

A thread of its own starts it and stays until it has ended: the kernel ends a child with the thread that
made it.
"""

import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from scheduler.bus import processes
from scheduler.log import note
from workers.lines import Lines
from workers.upstream.registry import Registry

log = logging.getLogger(__name__)
_LINE = 4096  # bytes of a line of its output that are kept
_TALK_LINES = 400  # lines of one life that go to the log; a talkative server must not fill the disk
_LAST = 8  # lines that an error may repeat
_CHUNK = 64 * 1024
_TERM_S = 0.7  # from SIGTERM to SIGKILL
_SHARE = 0.2  # of one processor; a server that waits for requests takes a thousandth
_SAMPLES = 8  # of the state of its threads
_POLL_S = 0.1  # how often its end is looked for where the kernel does not tell


class ServerProcess:
    """One life of a server."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        model: str,
        registry: Registry,
        *,
        nice: int = 0,
    ) -> None:
        """Start it; returns at once. A program that cannot be run ends at once and says so.

        Args:
            command: Program and arguments.
            environ: What its environment has beside ours.
            model: For whom it is, for the log.
            registry: Where it is written down.
            nice: Its niceness beside ours.
        """
        self.mark = f"engine-{uuid.uuid4().hex}"
        self._command = [
            sys.executable, "-m", "workers.leash", "--nice", str(nice), str(os.getpid()), *command
        ]  # fmt: skip
        self._environ = {**os.environ, **environ, processes.MARK: self.mark}
        self._model = model
        self._registry = registry
        self._pid = 0
        self._status: int | None = None
        self._last: deque[str] = deque(maxlen=_LAST)
        self._began = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._keep, name=f"server of {model}", daemon=True).start()
        self._began.wait()

    @property
    def pid(self) -> int:
        """Its process id, which is its group's; 0: it was not made."""
        return self._pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended and was reaped, its group with it."""
        return self._ended.is_set()

    @property
    def last_words(self) -> str:
        """What it said last."""
        return " | ".join(self._last)

    def ended_within(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        return self._ended.wait(seconds)

    def end_as_text(self) -> str:
        """Return how it ended, for an error."""
        status = self._status
        if status is None:
            how = "could not be started"
        elif status < 0:
            how = f"was ended by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        return f"{how}; it said: {self.last_words}" if self._last else how

    def end(self, *, gently: bool) -> None:
        """End it and all of its group; returns when that has happened.

        Args:
            gently: SIGTERM first.
        """
        if gently:
            self._signal(signal.SIGTERM)
            self._ended.wait(_TERM_S)
        self._signal(signal.SIGKILL)
        self._ended.wait()

    def cpu_s(self) -> float:
        """Return the processor seconds that its group has taken."""
        total = 0.0
        for process in processes.members(self._pid):
            with suppress(psutil.Error):
                times = psutil.Process(process.pid).cpu_times()
                total += times.user + times.system
        return total

    def resident_bytes(self) -> int:
        """Return the memory that its group holds."""
        total = 0
        for process in processes.members(self._pid):
            with suppress(psutil.Error):
                total += int(psutil.Process(process.pid).memory_info().rss)
        return total

    def works(self, window_s: float) -> bool:
        """Return whether its group computes, looked at for so long.

        Processor time alone says too little where others leave it none: a thread that would run counts, too.
        """
        before_s, ready = self.cpu_s(), 0
        for _ in range(_SAMPLES):
            time.sleep(window_s / _SAMPLES)
            ready += any(_would_run(process.pid) for process in processes.members(self._pid))
        return self.cpu_s() - before_s >= _SHARE * window_s or ready > _SAMPLES // 3

    def listens_on(self, port: int) -> bool:
        """Return whether a process of its group listens on a port; true where the kernel does not tell."""
        for process in processes.members(self._pid):
            try:
                open_ = psutil.Process(process.pid).net_connections("tcp")
            except psutil.NoSuchProcess:
                continue
            except psutil.AccessDenied:
                return True
            if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in open_):
                return True
        return False

    def _signal(self, number: int) -> None:
        if self._pid and not self._ended.is_set():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, number)

    # --- its thread ---

    def _keep(self) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603  # the site chose the program
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,  # a group of its own, to be ended as one
            )
        except OSError as error:
            self._last.append(str(error))
            self._ended.set()
            self._began.set()
            return
        self._pid = process.pid
        began_at = time.monotonic()
        self._registry.add(self.mark, process.pid, self._model)
        note(log, "engine_up", model=self._model, pid=process.pid)
        self._began.set()
        try:
            if process.stdout is not None:
                self._listen(process, process.stdout)
        finally:
            self._status = process.wait()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what it started itself and left behind
            self._registry.remove(self.mark)
            lived_s = round(time.monotonic() - began_at, 3)
            note(
                log, "engine_down", model=self._model, pid=process.pid, status=self._status,
                after_s=lived_s,
            )  # fmt: skip
            self._ended.set()

    def _listen(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        """Take what it says to the log until it ends. Others may hold its output open for longer."""
        lines, talked = Lines(_LINE), 0
        os.set_blocking(output.fileno(), False)
        with selectors.DefaultSelector() as selector, output:
            selector.register(output, selectors.EVENT_READ)
            watch = _watch(process.pid)
            if watch is not None:
                selector.register(watch, selectors.EVENT_READ)
            try:
                while True:
                    selector.select(None if watch is not None else _POLL_S)
                    has_ended = process.poll() is not None
                    data = _read(output)
                    for line in lines.feed(data or b""):
                        talked += self._hear(line, talked)
                    if has_ended and not data:
                        self._hear(lines.rest, talked)
                        return
                    if data == b"" and output in selector.get_map():
                        selector.unregister(output)  # it closed its output and lives on
            finally:
                if watch is not None:
                    os.close(watch)

    def _hear(self, line: bytes, talked: int) -> int:
        said = line.decode("utf-8", "replace").strip()
        # an error shows it on somebody's terminal
        text = "".join(sign if sign.isprintable() else " " for sign in said)
        if not text:
            return 0
        self._last.append(text[:200])
        if talked < _TALK_LINES:
            note(log, "engine_said", model=self._model, pid=self._pid, line=text)
        return 1


def _would_run(pid: int) -> bool:
    """Return whether a thread of a process runs, waits for a processor, or waits in a driver."""
    for file in Path("/proc", str(pid), "task").glob("*/stat"):
        with suppress(OSError, IndexError):
            if file.read_text(errors="replace").rpartition(")")[2].split()[0] in {"R", "D"}:
                return True
    return False


def _watch(pid: int) -> int | None:
    """Return what becomes readable when a process ends, where the kernel has that."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _read(output: IO[bytes]) -> bytes | None:
    try:
        return os.read(output.fileno(), _CHUNK)
    except BlockingIOError:
        return None
