"""The scheduler itself under the virtual clock: `Appliance` with modelled workers and a modelled scorer.

Only its door is used: `handle`, `next_deadline`. The modelled workers speak as the real ones do: they
register, beat, stage, produce and finish, under the epoch and the leases they were given.
"""

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from ops.sim.clock import Loop
from ops.sim.device import DeviceSpec, ModelDevice
from ops.sim.job import Job, Result
from scheduler.core import Appliance, Catalogue, Limits, RowFacts
from scheduler.core.effects import Admit, Answer, AskHelper, Dispatch, Expel, Halt, Refuse
from scheduler.core.events import (
    Asked,
    Cancelled,
    Decided,
    Event,
    Finished,
    Produced,
    Staged,
    Ticked,
    WorkerBeat,
    WorkerReady,
)

COLLECTION = "user.Laya-First"
_CTX = 131_072
_SCORER = b"scorer"


class ScorerSpec(Struct, frozen=True, kw_only=True):
    """A modelled scorer: it names the row the job wants.

    Attributes:
        decide_s: (shortest, longest) it takes.
        outages: (from, to) between which it answers nothing.
    """

    decide_s: tuple[float, float] = (0.004, 0.02)
    outages: tuple[tuple[float, float], ...] = ()


class Clients(Protocol):
    """Who is told what becomes of a job."""

    def started(self, job: Job) -> None:
        """A device begins with it."""

    def answered(self, job: Job) -> None:
        """It has its answer."""

    def refused(self, job: Job, code: str, retry_s: float) -> None:
        """It ends without one; `retry_s`: when to try again."""


class BoxSpec(Struct, frozen=True, kw_only=True):
    """A box: its devices, rows and limits.

    Attributes:
        devices: One of a kind.
        rows: Row -> kind of device.
        default: Row that answers where nobody decided.
        weights: Lane -> share.
    """

    devices: tuple[DeviceSpec, ...]
    rows: dict[str, str]
    default: str
    weights: dict[str, float]
    limits: Limits
    scorer: ScorerSpec | None = None


class _Hold(Struct):
    """What a worker knows of a job it works on."""

    route: bytes
    ticket: int
    lease: int
    pieces: int = 0


class FairBox:
    """The appliance and its modelled peers."""

    def __init__(self, spec: BoxSpec, loop: Loop, clients: Clients, seed: str) -> None:
        self._spec = spec
        self._loop = loop
        self._clients = clients
        self._random = random.Random(f"{seed}/scorer")  # noqa: S311  # a model, no secret
        rows = {row: RowFacts(model=row, device=kind, ctx=_CTX) for row, kind in spec.rows.items()}
        catalogue = Catalogue(rows=rows, collections={COLLECTION: spec.default}, aliases={})
        # A modelled device has room for one row. Devices share a box's memory, so with several of them it
        # is not modelled, and the core sees each switch by the next heartbeat.
        self._sizes = dict.fromkeys(spec.rows, 1) if len(spec.devices) == 1 else {}
        self.appliance = Appliance(
            catalogue, spec.limits, boot=1, at=0.0, weights=spec.weights,
            memory=1 if self._sizes else None,
        )  # fmt: skip
        self.devices = {d.kind: ModelDevice(d, loop, self) for d in spec.devices}
        self._by_route = {d.name.encode(): d for d in self.devices.values()}
        self._epochs: dict[bytes, int] = {}
        self._jobs: dict[int, Job] = {}  # in the system
        self._holds: dict[int, _Hold] = {}  # on a device
        self._inbox: deque[Event] = deque()
        self._handling = False
        self._tick_at = float("inf")
        # The table pairs each effect's class with what performs it; all others tell clients or logs.
        self._perform: dict[type, Callable[[Any], None]] = {
            Dispatch: self._dispatch,
            Halt: self._halt,
            Answer: self._answer,
            Refuse: self._refuse,
            Admit: self._admit,
            Expel: self._expel,
            AskHelper: self._decide,
        }

    def begin(self) -> None:
        """Let the workers register."""
        for route, device in self._by_route.items():
            self._register(
                route, device.spec.kind, device.name, device.spec.seats, device.spec.kept
            )
        if self._spec.scorer is not None:
            self._register(_SCORER, "scorer", "", 1, 0)

    def ask(self, job: Job) -> None:
        """Ask the box."""
        self._jobs[job.number] = job
        self._take(
            Asked(
                job.asked_at, job.lane.encode(), str(job.number), "chat",
                COLLECTION if job.routed else job.row, job.lane,
                job.conversation or f"once/{job.number}", job.starts, job.stream, False,
                job.expires_at, job.prompt_tokens * 4, job.max_tokens, False, False, False,
                b"%d" % job.number,
            )
        )  # fmt: skip

    def cancel(self, job: Job) -> None:
        """Withdraw a job."""
        if job.number not in self._holds:  # one on a device lets go of its seat first
            self._jobs.pop(job.number, None)
        self._take(Cancelled(self._loop.now, job.lane.encode(), str(job.number)))

    # A worker's side

    def staged(self, job: Job, stage: str) -> None:
        """A job enters a stage."""
        hold = self._holds[job.number]
        self._take(Staged(self._loop.now, *self._lease(hold), stage))

    def produced(self, job: Job, load_s: float | None) -> None:
        """The first token of a streamed answer is there."""
        hold = self._holds[job.number]
        hold.pieces += 1
        self._take(Produced(self._loop.now, *self._lease(hold), hold.pieces, load_s, b""))

    def finished(self, job: Job, result: Result) -> None:
        """A job has left its device."""
        hold = self._holds.pop(job.number)
        if result.cancelled:
            self._jobs.pop(job.number, None)
        self._take(
            Finished(
                self._loop.now, *self._lease(hold), result.cancelled, result.load_s, result.ttft_s,
                job.prompt_tokens, result.cached_tokens, job.output_tokens, b"",
            )
        )  # fmt: skip

    def _lease(self, hold: _Hold) -> tuple[bytes, int, int, int]:
        return hold.route, self._epochs[hold.route], hold.ticket, hold.lease

    def _register(self, route: bytes, kind: str, device: str, seats: int, slots: int) -> None:
        name = f"{kind}-model"
        self._take(
            WorkerReady(
                self._loop.now, route, name, kind, device, 1, 0.0, name, seats, "simulated",
                slots,
            )
        )  # fmt: skip

    def _beat(self, route: bytes) -> None:
        device = self._by_route.get(route)
        resident = [device.loaded] if device and device.loaded else []
        sizes = self._sizes if device else {}
        self._take(WorkerBeat(self._loop.now, route, self._epochs[route], resident, "", sizes))
        self._loop.at(self._loop.now + self._spec.limits.beat_s, partial(self._beat, route))

    # Effects

    def _admit(self, effect: Admit) -> None:
        self._epochs[effect.worker] = effect.epoch
        self._loop.at(self._loop.now + self._spec.limits.beat_s, partial(self._beat, effect.worker))

    def _expel(self, effect: Expel) -> None:
        raise ValueError(f"the core expelled {effect.worker!r}, which beats: {effect.reason}")

    def _dispatch(self, effect: Dispatch) -> None:
        job = self._jobs[int(effect.body)]
        self._holds[job.number] = _Hold(effect.worker, effect.ticket, effect.lease)
        self._by_route[effect.worker].start(job, effect.model)
        self._clients.started(job)

    def _halt(self, effect: Halt) -> None:
        for number, hold in self._holds.items():
            if hold.ticket == effect.ticket and hold.lease == effect.lease:
                self._by_route[effect.worker].halt(self._jobs[number])
                return

    def _answer(self, effect: Answer) -> None:
        self._clients.answered(self._jobs.pop(int(effect.rid)))

    def _refuse(self, effect: Refuse) -> None:
        job = self._jobs.pop(int(effect.rid))
        self._clients.refused(job, effect.code, effect.retry_after_s or 1.0)

    def _decide(self, effect: AskHelper) -> None:
        scorer, now = self._spec.scorer, self._loop.now
        if scorer is None or any(start <= now < end for start, end in scorer.outages):
            return
        at = now + self._random.uniform(*scorer.decide_s)
        self._loop.at(at, partial(self._decided, effect.ticket, self._jobs[int(effect.body)].row))

    def _decided(self, ticket: int, row: str) -> None:
        epoch = self._epochs[_SCORER]
        self._take(
            Decided(self._loop.now, _SCORER, epoch, ticket, f"to-{row}", row, "", 1.0, False, b"")
        )

    # The shell's loop

    def _take(self, event: Event) -> None:
        """Hand an event to the core and do as it says; what comes meanwhile waits its turn."""
        inbox = self._inbox
        inbox.append(event)
        if self._handling:
            return
        self._handling = True
        handle, perform = self.appliance.handle, self._perform
        while inbox:
            for effect in handle(inbox.popleft()):
                do = perform.get(type(effect))
                if do is not None:
                    do(effect)
        self._handling = False
        due = self.appliance.next_deadline()
        if due < self._tick_at:
            self._tick_at = due
            self._loop.at(max(due, self._loop.now), partial(self._tick, due))

    def _tick(self, due: float) -> None:
        if due != self._tick_at:
            return
        self._tick_at = float("inf")
        if self.appliance.next_deadline() <= self._loop.now:
            self._take(Ticked(self._loop.now))
            return
        self._tick_at = due = self.appliance.next_deadline()
        self._loop.at(due, partial(self._tick, due))
