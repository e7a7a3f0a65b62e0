"""What the fair queue is shown beside: first in first out, and round robin over lanes.

Both have the box's bounds and the seats of its devices; neither knows costs or weights. A job of another
row than the loaded one waits until the device is empty, and nobody passes the head of the queue.
"""

from collections import OrderedDict, deque
from typing import Protocol

from ops.sim.box import BoxSpec, Clients
from ops.sim.clock import Loop
from ops.sim.device import ModelDevice
from ops.sim.job import Job, Result


class Queue(Protocol):
    """Who is next on one device."""

    def push(self, job: Job) -> None:
        """Let a job wait."""

    def head(self) -> Job | None:
        """Return who is next, or None."""

    def remove(self, job: Job) -> None:
        """Take a waiting job out."""


class Fifo:
    """First in, first out."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Job] = OrderedDict()

    def push(self, job: Job) -> None:
        """Let a job wait."""
        self._waiting[job.number] = job

    def head(self) -> Job | None:
        """Return who is next, or None."""
        return next(iter(self._waiting.values()), None)

    def remove(self, job: Job) -> None:
        """Take a waiting job out."""
        del self._waiting[job.number]


class RoundRobin:
    """One job of each lane in turn."""

    def __init__(self) -> None:
        self._lanes: dict[str, OrderedDict[int, Job]] = {}
        self._turns: deque[str] = deque()  # lanes that wait, the next one first

    def push(self, job: Job) -> None:
        """Let a job wait."""
        waiting = self._lanes.setdefault(job.lane, OrderedDict())
        if not waiting:
            self._turns.append(job.lane)
        waiting[job.number] = job

    def head(self) -> Job | None:
        """Return who is next, or None."""
        if not self._turns:
            return None
        return next(iter(self._lanes[self._turns[0]].values()))

    def remove(self, job: Job) -> None:
        """Take a waiting job out; a lane whose job it was goes to the end."""
        waiting = self._lanes[job.lane]
        was_head = self._turns[0] == job.lane and next(iter(waiting)) == job.number
        del waiting[job.number]
        if not waiting:
            self._turns.remove(job.lane)
        elif was_head:
            self._turns.rotate(-1)


class PlainBox:
    """A box whose scheduler is one plain queue a device."""

    def __init__(self, spec: BoxSpec, loop: Loop, clients: Clients, queue: type[Queue]) -> None:
        self._spec = spec
        self._loop = loop
        self._clients = clients
        self.devices = {d.kind: ModelDevice(d, loop, self) for d in spec.devices}
        self._queues = {kind: queue() for kind in self.devices}
        self._waiting: dict[int, Job] = {}
        self._waiting_of: dict[str, int] = {}

    def begin(self) -> None:
        """There is nothing to register."""

    def ask(self, job: Job) -> None:
        """Ask the box."""
        limits = self._spec.limits
        if (
            len(self._waiting) >= limits.queue_total
            or self._waiting_of.get(job.lane, 0) >= limits.queue_per_lane
        ):
            self._clients.refused(job, "queue_full", 1.0)
            return
        self._waiting[job.number] = job
        self._waiting_of[job.lane] = self._waiting_of.get(job.lane, 0) + 1
        kind = self._spec.rows[job.row]
        self._queues[kind].push(job)
        self._pump(kind)

    def cancel(self, job: Job) -> None:
        """Withdraw a job."""
        kind = self._spec.rows[job.row]
        if job.number in self._waiting:
            self._leave(job, kind)
            self._pump(kind)
        elif job.number in self.devices[kind].active:
            self.devices[kind].halt(job)

    def staged(self, job: Job, stage: str) -> None:
        """Nobody is told."""

    def produced(self, job: Job, load_s: float | None) -> None:
        """Nobody is told."""

    def finished(self, job: Job, result: Result) -> None:
        """A job has left its device: the next one may start."""
        if not result.cancelled:
            self._clients.answered(job)
        self._pump(self._spec.rows[job.row])

    def _pump(self, kind: str) -> None:
        device, queue = self.devices[kind], self._queues[kind]
        while len(device.active) < device.spec.seats and (job := queue.head()) is not None:
            if device.active and job.row != device.loaded:
                return
            self._leave(job, kind)
            if job.expires_at <= self._loop.now:
                self._clients.refused(job, "deadline_exceeded", 1.0)
                continue
            device.start(job, job.row)
            self._clients.started(job)

    def _leave(self, job: Job, kind: str) -> None:
        self._queues[kind].remove(job)
        del self._waiting[job.number]
        self._waiting_of[job.lane] -= 1
