"""A row at a server of our own: a child, started when a job wants it and ended when the row leaves."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from scheduler.log import note
from workers.job import JobError
from workers.upstream import slots
from workers.upstream.call import CallFailed, Target, get
from workers.upstream.command import CommandLine
from workers.upstream.place import GivenUp
from workers.upstream.process import ServerProcess
from workers.upstream.registry import Registry
from workers.upstream.seats import Seats
from workers.upstream.templates import filled

log = logging.getLogger(__name__)
_HOST = "127.0.0.1"
_LOOK_S = 0.02  # how often who waits for a load looks whether it is still wanted
_PROBE_S = (0.05, 0.5)  # between two looks whether it is ready, growing
_PORTS = 3  # a port that was free may be taken when the server comes to it: so often another one is tried
_IDLE_WINDOW_S = 0.2  # over which the processor time of a group is looked at
_SLOT_OPS = frozenset({"chat", "completion"})


class _Load:
    """A start that some wait for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.unwanted = threading.Event()  # all who waited have left
        self.waiting = 0
        self.error: JobError | None = None
        self.load_s = 0.0


class Served:
    """One row at one child."""

    def __init__(self, command: CommandLine, registry: Registry) -> None:
        """Remember what to start; nothing is started.

        Args:
            command: How it is started.
            registry: Where its processes are written down.
        """
        self._line = command
        self._row = command.row
        self._conf = command.conf
        # a server that is started for a tag knows no other name, and pulls what it is asked for by another
        self.name = command.row.tag or command.row.model
        self.target = Target(_HOST, 0)
        self._registry = registry
        self._process: ServerProcess | None = None
        self._size = 0
        self._load: _Load | None = None
        self._seats = Seats(command.row.slots)
        self._active: dict[object, int | None] = {}  # job that entered -> its slot
        self._has_idle = command.conf.idle.startswith("/")
        self._lock = threading.Lock()

    @property
    def is_resident(self) -> bool:
        """Whether it is ready."""
        process = self._process
        return self._load is None and process is not None and not process.has_ended

    @property
    def size(self) -> int:
        """Bytes that its processes hold, measured when it was ready; 0: it is not."""
        return self._size if self.is_resident else 0

    # --- starting ---

    def ready(self, on_load: Callable[[], None], is_wanted: Callable[[], bool]) -> float | None:
        """Start it, or wait for who does; see `Place`."""
        with self._lock:
            if self.is_resident:
                return None
            is_mine = self._load is None
            load = self._load = self._load or _Load()
            load.waiting += 1
            if is_mine:
                threading.Thread(target=self._start, args=(load,), daemon=True).start()
        on_load()
        try:
            while not load.done.wait(_LOOK_S):
                if not is_wanted():
                    raise GivenUp
        finally:
            with self._lock:
                load.waiting -= 1
                if not load.waiting:
                    load.unwanted.set()
        if load.error is not None:
            raise load.error
        return load.load_s if is_mine else None

    def _start(self, load: _Load) -> None:
        """Start it; in a thread of its own, because who asked for it may leave while others wait."""
        began_at = time.monotonic()
        try:
            digest, pin = self._line.check()
            command = self._line.command()
            for attempt in range(_PORTS):
                if self._try(load, command, is_last=attempt == _PORTS - 1):
                    break
            load.load_s = time.monotonic() - began_at
            self._size = self._process.resident_bytes() if self._process else 0
            note(
                log, "model_loaded", model=self._row.model, device=self._row.device,
                backend=self._line.engine, load_s=load.load_s, pid=self._process.pid if self._process else 0,
                template_sha256=digest, pin=pin,
            )  # fmt: skip
        except JobError as error:
            load.error = error
            note(
                log,
                "model_failed",
                level=logging.WARNING,
                model=self._row.model,
                error=error.message,
            )
        except Exception as error:  # the boundary of this thread: whoever waits must hear of it
            log.exception("load failed", extra={"action": "model_failed"})
            load.error = self._line.unusable(f"{type(error).__name__}: {error}")
        with self._lock:
            self._load = None
        load.done.set()

    def _try(self, load: _Load, command: list[str], *, is_last: bool) -> bool:
        """Start one life and wait until it is ready; return False if another port should be tried.

        Raises:
            JobError: It does not get ready.
        """
        port = _free_port()
        argv = [filled(word, {"port": str(port)}) for word in command]
        nice = 10 if self._row.device == "cpu" else self._conf.nice
        process = ServerProcess(
            argv, self._conf.environ, self._row.model, self._registry, nice=nice
        )
        self._process = process
        self.target = Target(_HOST, port)
        self._seats.clear()
        ends_at = time.monotonic() + self._conf.start_s
        pause_s = _PROBE_S[0]
        while not self._answers(process, port):
            if process.ended_within(pause_s):
                if not is_last and _is_taken(port):
                    return False
                raise self._line.unusable(f"{argv[0]} {process.end_as_text()}")
            if load.unwanted.is_set():
                process.end(gently=True)
                raise self._line.unusable("nobody waited for it any more")
            if time.monotonic() > ends_at:
                process.end(gently=False)
                said = f"; it said: {process.last_words}" if process.last_words else ""
                text = f"{argv[0]} was not ready within {self._conf.start_s:g} s{said}"
                raise self._line.unusable(text)
            pause_s = min(_PROBE_S[1], pause_s * 1.3)
        return True

    def _answers(self, process: ServerProcess, port: int) -> bool:
        """Return whether it is ready, and it is it that answers, not another on the same port."""
        try:
            status, _ = get(self.target, self._conf.ready, slots.TIMEOUT_S)
        except CallFailed:
            return False
        return 200 <= status < 300 and process.listens_on(port) and not process.has_ended

    # --- jobs ---

    def enter(self, conversation: str, op: str) -> tuple[object, Mapping[str, bytes]]:
        """Give a conversation its slot."""
        entered = object()
        with self._lock:
            takes_slot = self._conf.id_slot and op in _SLOT_OPS
            slot = self._seats.take(conversation) if takes_slot else None
            self._active[entered] = slot
        if slot is None:
            return entered, {}
        return entered, {"id_slot": b"%d" % slot, "cache_prompt": b"true"}

    def leave(self, entered: object) -> None:
        """Free the slot."""
        with self._lock:
            slot = self._active.pop(entered, None)
            if slot is not None:
                self._seats.leave(slot)

    def is_idle(self, entered: object) -> bool | None:
        """Look at its slots, or at its processor time; see `Place`."""
        if self._has_idle:
            return self._is_slot_free(entered)
        if self._conf.idle == "cpu" and self._is_alone(entered):
            process = self._process
            return process is None or not process.works(_IDLE_WINDOW_S)
        return None

    def _is_slot_free(self, entered: object) -> bool | None:
        busy = slots.busy(self.target, self._conf.idle)
        if busy is None:
            return None
        with self._lock:
            slot, count = self._active.get(entered), len(self._active)
        return slot not in busy if slot is not None else len(busy) < count

    def progress(self) -> object | None:
        """Return its processor seconds, and what its slots say."""
        process = self._process
        if process is None:
            return None
        told = b""
        if self._has_idle:
            with suppress(CallFailed):
                told = get(self.target, self._conf.idle, slots.TIMEOUT_S)[1]
        return int(process.cpu_s()), told

    def give_up(self, entered: object) -> bool:
        """End it, with its group, if no other job is on it."""
        process = self._process
        if process is None or not self._is_alone(entered):
            return False
        note(log, "engine_killed", level=logging.WARNING, model=self._row.model, pid=process.pid)
        process.end(gently=False)
        return True

    def _is_alone(self, entered: object) -> bool:
        with self._lock:
            return not self._active.keys() - {entered}

    def fault(self, wait_s: float) -> str:
        """Return how it ended; see `Place`."""
        process = self._process
        return process.end_as_text() if process is not None and process.ended_within(wait_s) else ""

    def stop(self) -> None:
        """End it."""
        process = self._process
        if process is not None and not process.has_ended:
            process.end(gently=True)
            note(log, "model_unloaded", model=self._row.model, device=self._row.device)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_taken(port: int) -> bool:
    """Return whether another program listens on a port."""
    with socket.socket() as probe, suppress(OSError):
        probe.bind((_HOST, port))
        return False
    return True
