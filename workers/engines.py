"""Which engine serves a row, and all of them behind one `Engine`.

A row names its engine; one that names none is served by `url` if it has an address, else by the settings'
`workers.engine`. A device's worker may hold rows of several engines: each job goes to its row's, and what
must leave first leaves whichever engine holds it.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

from policies.table import Row
from scheduler.log import note
from scheduler.settings import EngineConf, Settings
from scheduler.wire.catalogue import CatalogueBody
from workers.engine import Engine, Sink
from workers.job import Error, Job, JobError, Unloaded
from workers.pinned import Pinned
from workers.rows import size_of
from workers.upstream.registry import Registry

log = logging.getLogger(__name__)
IN_PROCESS = "llama-cpp-python"
_ALIASES = {"llama": IN_PROCESS}
_SEATS = 64  # jobs at a time of a worker with servers; each row's slots bound it further
_EVICT_S = (
    30.0  # what must leave first has left after this long, or the job goes on without waiting
)
# As the rack guesses: bytes that a token of context takes until somebody measures it.
_CACHE_PER_TOKEN = 64 * 1024


def engine_of(row: Row, default: str) -> str:
    """Return the name of the engine that serves a row.

    Args:
        row: The row.
        default: The settings' `workers.engine`.
    """
    name = row.engine or ("url" if row.url is not None else default)
    return _ALIASES.get(name, name)


class Server(Protocol):
    """An engine that is a server: `workers.upstream.jobs.Jobs`."""

    def learn(self, rows: Mapping[str, Row]) -> None:
        """Learn the rows it serves."""
        ...

    def start(self, job: Job, sink: Sink) -> None:
        """Begin a job."""
        ...

    def cancel(self, lease: int) -> None:
        """Stop a job."""
        ...

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Let go of a row."""
        ...

    def resident(self) -> list[str]:
        """Return the rows that are ready."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes that the rows take which are ready, as far as they were measured."""
        ...

    def close(self) -> None:
        """End all."""
        ...


class Engines:
    """The engines of one device."""

    def __init__(
        self,
        device: str,
        conf: Settings,
        rows: Mapping[str, Row],
        pinned: Pinned,
        in_process: Callable[[], Engine],
    ) -> None:
        """Make the engines that the rows need; what a killed worker of this device left behind is ended.

        Args:
            device: Kind of device; only its rows are served.
            conf: The settings.
            rows: All rows of the table, as far as known yet.
            pinned: What the files' templates are held to.
            in_process: Makes the engine that runs models in this process.
        """
        self._device = device
        self._default = conf.workers.engine
        self._site = conf.engines
        self._threads = conf.workers.threads or max(1, (os.cpu_count() or 2) // 2)
        self._registry = Registry(Path(conf.run_dir) / "engines" / device, os.getpid())
        self._pinned = pinned
        self._make_in_process = in_process
        self._in_process: Engine | None = None
        self._servers: dict[str, Server] = {}
        self._rows: dict[str, Row] = {}
        self._sizes: dict[str, int] = {}
        self._registry.reap()
        self._learn(rows)
        if not self._rows and _ALIASES.get(self._default, self._default) == IN_PROCESS:
            self._local()  # a build that cannot run is said at once, not at the first job
        local = self._computes_here()
        seats = [self._seats_of(name) for name in self._servers]
        self.by_row = bool(seats) or (local is not None and local.by_row)
        self.seats = max([*seats, local.seats if local else 1])
        slots = [row.slots for row in self._rows.values() if self._keeps_prompts(row)]
        self.slots = max([*slots, local.slots if local else 0])

    @property
    def backend(self) -> str:
        """What computes: of each engine that has rows here, in the order of their names."""
        parts = {self._backend_of(name) for name in self._servers}
        if self._in_process is not None:
            parts.add(self._in_process.backend)
        return ", ".join(sorted(parts)) or "nothing"

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn which rows there are."""
        self._learn(dict(body.parsed().rows))
        if self._in_process is not None:
            self._in_process.take_catalogue(body)

    def start(self, job: Job, sink: Sink) -> None:
        """Begin a job at its row's engine, after what must leave first has left."""
        away = [name for name in job.evict if self._jobs_of(name) is not None]
        here = self._jobs_of(job.model)
        local = [name for name in job.evict if name not in away]
        if not away and not (here is not None and local):
            self._begin(job, sink)
            return
        waits = threading.Thread(target=self._evict_first, args=(job, sink), daemon=True)
        waits.start()

    def cancel(self, lease: int) -> None:
        """Stop a job, whichever engine has it."""
        for jobs in list(self._servers.values()):
            jobs.cancel(lease)
        if self._in_process is not None:
            self._in_process.cancel(lease)

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Let go of a row."""
        jobs = self._jobs_of(model)
        if jobs is not None:
            jobs.unload(model, done)
        elif self._in_process is not None:
            self._in_process.unload(model, done)
        else:
            done(Unloaded(model))

    def sizes(self) -> dict[str, int]:
        """Return the bytes that rows take, as far as known; a neighbour's are not this box's affair."""
        local = self._in_process.sizes() if self._in_process is not None else {}
        own = {name: size for name, size in local.items() if self._jobs_of(name) is None}
        measured: dict[str, int] = {}
        for jobs in list(self._servers.values()):
            measured |= jobs.sizes()
        return measured | own | self._sizes  # of a file the guess counts: it is there before a load

    def resident(self) -> list[str]:
        """Return the rows that are loaded, or at a neighbour that is well."""
        local = self._in_process.resident() if self._in_process is not None else []
        return local + [name for jobs in list(self._servers.values()) for name in jobs.resident()]

    def close(self) -> None:
        """End the children."""
        for jobs in self._servers.values():
            jobs.close()

    # --- which engine ---

    def _learn(self, rows: Mapping[str, Row]) -> None:
        self._rows = {name: row for name, row in rows.items() if row.device == self._device}
        of: dict[str, dict[str, Row]] = {name: {} for name in self._servers}
        for name, row in self._rows.items():
            engine = engine_of(row, self._default)
            if engine == IN_PROCESS:
                self._local()
            else:
                of.setdefault(engine, {})[name] = row
        for engine, theirs in of.items():
            if engine not in self._servers:
                self._servers[engine] = self._server(engine)
            self._servers[engine].learn(theirs)
            self._sizes |= {name: size for name, row in theirs.items() if (size := _guess(row))}

    def _computes_here(self) -> Engine | None:
        return self._in_process

    def _local(self) -> Engine:
        if self._in_process is None:
            self._in_process = self._make_in_process()
        return self._in_process

    @cached_property
    def _confs(self) -> dict[str, EngineConf]:
        from workers.upstream import templates  # noqa: PLC0415  # see _server

        return templates.engines(self._site)

    def _server(self, engine: str) -> Server:
        # A box whose rows all run in the process starts sooner without HTTP.
        from workers.upstream.command import CommandLine  # noqa: PLC0415
        from workers.upstream.jobs import Jobs  # noqa: PLC0415
        from workers.upstream.neighbour import Neighbour  # noqa: PLC0415
        from workers.upstream.place import Place  # noqa: PLC0415
        from workers.upstream.served import Served  # noqa: PLC0415

        conf = self._confs.get(engine)

        def place_of(row: Row) -> Place:
            if conf is None:
                known = ", ".join(sorted([*self._confs, IN_PROCESS]))
                text = f"Model '{row.model}' cannot be used: no engine is called {engine}; known are {known}."
                raise JobError(503, "model_not_usable", text, {"cause": "load_failed"})
            if conf.command:
                command = CommandLine(row, engine, conf, self._threads, self._pinned)
                return Served(command, self._registry)
            return Neighbour(row, engine, conf)

        grace_s, stall_s = (conf.cancel_grace_s, conf.stall_s) if conf else (0.0, 120.0)
        return Jobs(engine, place_of, grace_s=grace_s, stall_s=stall_s)

    def _jobs_of(self, model: str) -> Server | None:
        row = self._rows.get(model)
        return None if row is None else self._servers.get(engine_of(row, self._default))

    def _backend_of(self, engine: str) -> str:
        conf = self._confs.get(engine)
        if conf is None:
            return f"{engine} (no such engine)"
        told = conf.backend.replace("{device}", self._device) or f"{engine}, backend unknown"
        return f"{told} ({'child' if conf.command else 'neighbour'})"

    def _seats_of(self, engine: str) -> int:
        conf = self._confs.get(engine)
        return conf.seats or _SEATS if conf else 1

    def _keeps_prompts(self, row: Row) -> bool:
        engine = engine_of(row, self._default)
        conf = self._confs.get(engine) if engine != IN_PROCESS else None
        return conf is not None and conf.id_slot

    # --- a job's start ---

    def _begin(self, job: Job, sink: Sink) -> None:
        jobs = self._jobs_of(job.model)
        if jobs is not None:
            jobs.start(job, sink)
        elif self._in_process is not None:
            self._in_process.start(job, sink)
        else:
            message = f"No row '{job.model}' for {self._device} here."
            sink(Error(job.lease, 503, "model_not_usable", message))

    def _evict_first(self, job: Job, sink: Sink) -> None:
        """Let go of rows of whichever engine, then begin."""
        ends_at = time.monotonic() + _EVICT_S
        for model in job.evict:
            gone = threading.Event()
            self.unload(model, _setter(gone))
            if not gone.wait(max(0.0, ends_at - time.monotonic())):
                note(log, "eviction_late", level=logging.WARNING, model=model)
        self._begin(job, sink)


def _setter(event: threading.Event) -> Callable[[Unloaded], None]:
    return lambda _unloaded: event.set()


def _guess(row: Row) -> int:
    """Return about how many bytes a child takes for a row; 0: unknown, or not of this box."""
    if row.url is not None or row.tag is not None:
        return 0
    try:
        return size_of(row) + row.ctx * row.slots * _CACHE_PER_TOKEN
    except (JobError, OSError):
        return 0
