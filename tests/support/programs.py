"""The processes of a modelled box: workers around the real `Session`, holders around the real `Holding`.

They compute on virtual time. Everything that a process may do late, not at all, or to somebody who does
not listen is here; who may use a device when is not.
"""

from collections.abc import Callable
from math import inf
from random import Random
from typing import Protocol

from msgspec import Struct

from scheduler.bus.holding import Holding, Turn
from scheduler.wire import messages as wire
from workers.job import End, Job
from workers.session import Dismissed, Halt, Session, Start


class Room(Protocol):
    """What a process sees of the box."""

    now: float
    dice: Random

    def post(self, route: bytes, message: wire.Message, body: bytes = b"") -> None:
        """Send a message to the broker."""
        ...

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen after a time."""
        ...

    def work_of(self, rid: str) -> float:
        """Return how much work a request is, in seconds at full speed."""
        ...


class Computing(Struct):
    """One job on a device."""

    job: Job
    left_s: float  # of its work, at full speed and alone


class WorkerProcess:
    """One worker process and its engine."""

    def __init__(
        self, room: Room, kind: str, pid: int, *, seats: int, slots: int, load_s: float
    ) -> None:
        self.room, self.kind, self.pid = room, kind, pid
        self.name = name = f"{kind}-{pid}"
        self.route = name.encode()
        self.seats, self.load_s = seats, load_s
        self.alive = True
        self.deaf = False  # it lives, computes on, says nothing and hears nothing
        self.jobs: dict[int, Computing] = {}  # lease -> what the engine computes, wanted or not
        self.rate = 1.0
        self.loaded = ""
        self.session = Session(
            wire.Ready(name, kind, f"{kind}0", pid, 1.0, name, seats, "model", slots)  # type: ignore[arg-type]  # a kind
        )

    def step(self, seconds: float) -> None:
        """Compute."""
        for computing in self.jobs.values() if self.alive else ():
            computing.left_s -= seconds * self.rate / len(self.jobs)

    def due_at(self) -> float:
        """Return when it has something to do."""
        if not self.alive:
            return inf
        due = inf if self.deaf else self.session.next_deadline()
        if self.jobs:
            least_s = max(0.0, min(computing.left_s for computing in self.jobs.values()))
            due = min(due, self.room.now + least_s * len(self.jobs) / self.rate)
        return due

    def act(self) -> None:
        """Do what is due."""
        for lease, computing in list(self.jobs.items()):
            if computing.left_s <= 1e-9:
                self.end(lease)
        if self.alive and not self.deaf and self.room.now >= self.session.next_deadline():
            message = self.session.tick(self.room.now, [self.loaded] if self.loaded else [])
            if message is not None:
                self.room.post(self.route, message)

    def hear(self, message: wire.Message, body: bytes) -> None:
        """Take in a message of the broker."""
        if not self.alive or self.deaf:
            return
        order = self.session.take(message, body, self.room.now)
        match order:
            case Start(job=job):
                load_s = 0.0 if job.model == self.loaded else self.load_s
                self.loaded = job.model
                self.jobs[job.lease] = Computing(job, load_s + self.room.work_of(job.body.decode()))
            case Halt(lease=lease):
                self._stop(lease)
            case Dismissed():
                for lease in self.jobs:
                    self._stop(lease)
            case _:
                pass

    def _stop(self, lease: int) -> None:
        """An engine stops when it can, not when it is told."""
        self.room.later(
            self.room.dice.choice([0.0, 0.2, 1.5]), lambda: self.end(lease, cancelled=True)
        )

    def end(self, lease: int, *, cancelled: bool = False) -> None:
        """A job is over."""
        if not self.alive or self.jobs.pop(lease, None) is None or self.deaf:
            return
        stamped = self.session.stamp(End(lease, b"reply", cancelled=cancelled))
        if stamped is not None:
            self.room.post(self.route, *stamped)

    def leave(self) -> None:
        """Stop in order: hand back what was begun and say goodbye."""
        for lease in list(self.jobs):
            self.end(lease, cancelled=True)
        bye = self.session.bye()
        self.alive = False
        if bye is not None:
            self.room.post(self.route, bye)


class HolderProcess:
    """A program of an outside lane and the command that holds a device for it."""

    def __init__(self, room: Room, request: wire.Hold, run_s: float) -> None:
        self.room, self.request, self.run_s = room, request, run_s
        self.rid, self.route = request.id, f"holder of {request.id}".encode()
        self.alive = True  # the command; its group may outlive it
        self.group = False  # whether the program runs
        self.holding = Holding(request, room.now)

    def due_at(self) -> float:
        """Return when it has something to do."""
        return self.holding.next_deadline() if self.alive else inf

    def act(self) -> None:
        """Do what is due."""
        if not self.alive:
            return
        now = self.room.now
        for message in self.holding.due(now):
            self.room.post(self.route, message)
        self._turn(self.holding.watch(now))

    def hear(self, message: wire.Message) -> None:
        """Take in a message of the broker."""
        if self.alive:
            self._turn(self.holding.take(message, self.room.now))

    def _turn(self, turn: Turn | None) -> None:
        match turn:
            case Turn.BEGIN:
                self.group = True
                self.room.later(self.run_s, self.group_ends)
            case Turn.LOST:  # TERM: most programs hear it, the others are killed after the grace
                self.room.later(
                    self.room.dice.choice([0.0, 1.0, self.holding.grace_s]), self.group_ends
                )
            case Turn.REFUSED | Turn.UNREACHABLE | Turn.OVER:
                self.alive = False
            case _:
                pass

    def group_ends(self) -> None:
        """All of the group has ended; the command says so and leaves."""
        self.group = False
        if self.alive:
            self.holding.release()
            self.act_last()

    def act_last(self) -> None:
        """Send what is left to be said."""
        for message in self.holding.due(self.room.now):
            self.room.post(self.route, message)
        self.alive = False
