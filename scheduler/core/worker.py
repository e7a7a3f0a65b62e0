"""The registered workers: who serves which device, and who still lives.

Epochs are chosen here, not by workers: a message that carries an older one comes from a life of the
worker that ended, and is answered with Expel.
"""

from msgspec import Struct

from scheduler.core.events import WorkerKept, WorkerReady


class Worker(Struct):
    """One live worker process."""

    route: bytes
    epoch: int
    name: str
    kind: str  # scorer, store, sensors, hrx, npu, cpu
    device: str  # device instance, empty for a helper
    pid: int
    pid_started: float
    nonce: str
    seats: int
    backend: str
    beat_at: float
    since: float
    resident: list[str]
    held: set[int]  # numbers of the tickets it works on
    slots: int = 0  # prompts its engine keeps a row
    by_row: bool = False  # a row has no more seats, and keeps no more prompts, than it has slots
    leaving_at: float = (
        0.0  # when it handed work back on its own: it stops, and gets nothing more; 0: it stays
    )
    suspect: bool = False  # a decision of it came too late and nothing was heard of it since
    version: str = ""  # of its engine; empty: not known
    on_trial: bool = False  # it was suspect and lives: it gets one question, until it answers one
    # (row, op) that the row's engine said it does not serve: no list of its doors is known beforehand
    lacks: set[tuple[str, str]] = set()

    @property
    def is_open(self) -> bool:
        """Whether a helper may be asked one more thing, as far as its past answers tell."""
        return not self.suspect and not (self.on_trial and self.held)


def kept(event: WorkerKept, kind: str) -> Worker:
    """Return a worker that an earlier start of the broker knew: it has no route and no epoch."""
    return Worker(
        route=b"",
        epoch=0,
        name=event.name,
        kind=kind,
        device=event.device,
        pid=event.pid,
        pid_started=event.pid_started,
        nonce="",
        seats=1,
        backend="",
        beat_at=event.at,
        since=event.at,
        resident=[],
        held=set(),
    )


class Roster:
    """Workers by route. A device has one worker at a time, a box any number of scorers."""

    def __init__(self) -> None:
        self.by_route: dict[bytes, Worker] = {}

    def freeze(self) -> list[Worker]:
        """Return all workers in the order of their admission."""
        return list(self.by_route.values())

    def thaw(self, frozen: list[Worker]) -> None:
        """Become what was frozen."""
        self.by_route = {worker.route: worker for worker in frozen}

    def admit(self, ready: WorkerReady, epoch: int) -> Worker:
        """Register a worker whose device is free."""
        worker = Worker(
            route=ready.route,
            epoch=epoch,
            name=ready.name,
            kind=ready.kind,
            device=ready.device,
            pid=ready.pid,
            pid_started=ready.pid_started,
            nonce=ready.nonce,
            seats=ready.seats,
            backend=ready.backend,
            beat_at=ready.at,
            since=ready.at,
            resident=[],
            held=set(),
            slots=ready.slots,
            by_row=ready.by_row,
            version=ready.version,
        )
        self.by_route[ready.route] = worker
        return worker

    def on_device(self, device: str) -> Worker | None:
        """Return the worker that serves a device instance, or None."""
        return next((w for w in self.by_route.values() if w.device == device and device), None)

    def helper_with_credit(self, kind: str, credit: int, full: frozenset[bytes]) -> Worker | None:
        """Return the least busy helper of a kind that may take one more question, or None."""
        of_kind = [w for w in self.by_route.values() if w.kind == kind and w.route not in full]
        able = [w for w in of_kind if len(w.held) < credit and w.is_open]
        return min(able, key=lambda w: (len(w.held), w.epoch), default=None)

    def of_kind(self, kind: str) -> list[Worker]:
        """Return the registered workers of a kind."""
        return [w for w in self.by_route.values() if w.kind == kind]

    def scorers(self) -> list[Worker]:
        """Return the registered scorers."""
        return self.of_kind("scorer")

    def with_pid(self, pid: int) -> list[Worker]:
        """Return the workers of one process."""
        return [w for w in self.by_route.values() if w.pid == pid]

    def silent(self, at: float, longest_s: float) -> list[Worker]:
        """Return the workers not heard of for longer than `longest_s`, oldest epoch first."""
        return [w for w in self.by_route.values() if at - w.beat_at > longest_s]
