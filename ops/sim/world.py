"""One run: a plan's lanes and box on one clock under one scheduler, and what the devices wrote down."""

import gc
import time
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from ops.sim.baselines import Fifo, PlainBox, RoundRobin
from ops.sim.box import BoxSpec, FairBox
from ops.sim.clock import Loop
from ops.sim.job import Job, Left, Service
from ops.sim.lanes import Lane
from ops.sim.sources import Pen, Source, source

SCHEDULERS = ("fair", "fifo", "round_robin")
_SLICES = 100  # of the horizon, after each of which the progress is told
_SLICE_S = 10.0  # the same where the run ends by tickets: virtual seconds


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be run.

    Attributes:
        box: The box; its weights are filled in from the lanes.
        lanes: Name -> lane.
        horizon_s: Virtual seconds.
        tickets: The run is over when so many requests have ended; None: at the horizon.
        beside: The same for the schedulers that are only shown beside the fair queue.
    """

    box: BoxSpec
    lanes: dict[str, Lane]
    horizon_s: float
    tickets: int | None = None
    beside: int | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """What a run left behind: the devices' logs, and who never got to one."""

    log: list[Service]  # in the order of the ends
    left: list[Left]
    waiting: list[Left]  # at the end of the run
    loads: list[tuple[float, str]]
    busy_s: float  # seconds the devices had at least one job, summed up over them
    virtual_s: float
    wall_s: float
    cpu_s: float  # of this process; the wall clock of a busy machine tells of its neighbours
    interrupted: bool


class World:
    """The lanes' clients and the box they ask."""

    def __init__(self, plan: Plan, scheduler: str, seed: str) -> None:
        self.loop = loop = Loop()
        self._plan = plan
        if scheduler == "fair":
            self.box: FairBox | PlainBox = FairBox(plan.box, loop, self, seed)
        else:
            queue = Fifo if scheduler == "fifo" else RoundRobin
            self.box = PlainBox(plan.box, loop, self, queue)
        self._sources: dict[str, Source] = {
            name: source(Pen(name, lane, loop, seed, self), lane.arrivals)
            for name, lane in plan.lanes.items()
        }
        self._numbers = 0
        self._inside: dict[int, tuple[Job, bool]] = {}  # asked and not ended; whether on a device
        self.left: list[Left] = []
        self.ended = 0

    def begin(self) -> None:
        """Time begins."""
        self.box.begin()
        for one in self._sources.values():
            one.begin()

    def waiting(self) -> list[Left]:
        """Return who waits now."""
        now = self.loop.now
        inside = self._inside.values()
        return [Left(job.lane, job.asked_at, now, "waiting") for job, runs in inside if not runs]

    def number(self) -> int:
        """Return the next request's number."""
        self._numbers += 1
        return self._numbers

    def ask(self, job: Job) -> None:
        """A client asks."""
        if self._plan.tickets is not None and job.number > self._plan.tickets:
            return
        self._inside[job.number] = job, False
        patience_s = self._plan.lanes[job.lane].patience_s
        if patience_s is not None:
            self.loop.at(self.loop.now + patience_s, partial(self._lose_patience, job))
        self.box.ask(job)

    def started(self, job: Job) -> None:
        """A device begins with a job."""
        self._inside[job.number] = job, True
        self._sources[job.lane].started(job)

    def answered(self, job: Job) -> None:
        """A job has its answer, which nobody reads whose patience has ended."""
        if job.number in self._inside:
            self._end(job, None)

    def refused(self, job: Job, code: str, retry_s: float) -> None:
        """A job ends without its answer."""
        if not self._inside[job.number][1]:
            self.left.append(Left(job.lane, job.asked_at, self.loop.now, code))
        self._end(job, retry_s)

    def _lose_patience(self, job: Job) -> None:
        inside = self._inside.get(job.number)
        if inside is not None:
            if not inside[1]:
                self.left.append(Left(job.lane, job.asked_at, self.loop.now, "cancelled"))
            self.box.cancel(job)
            self._end(job, None)

    def _end(self, job: Job, retry_s: float | None) -> None:
        del self._inside[job.number]
        self.ended += 1
        if self.ended == self._plan.tickets:
            self.loop.stopped = True
        self._sources[job.lane].ended(job, retry_s)


def run(plan: Plan, scheduler: str, seed: str, tell: Callable[[float], None]) -> Outcome:
    """Run a plan.

    Args:
        plan: What to run.
        scheduler: One of `SCHEDULERS`.
        seed: The same seed brings the same requests.
        tell: Told how far the run is, 0 to 1.

    Returns:
        What the devices wrote down; Ctrl-C ends the run early.
    """
    world = World(plan, scheduler, seed)
    loop, interrupted = world.loop, False
    began_at, cpu_at = time.perf_counter(), time.process_time()
    # A run makes no cycles, and its log only grows: to look for cycles in it costs a tenth of the time.
    gc.collect()
    gc.disable()
    try:
        tell(0.0)
        world.begin()
        slice_s = plan.horizon_s / _SLICES if plan.tickets is None else _SLICE_S
        while loop.now < plan.horizon_s and not loop.stopped:
            loop.run(min(loop.now + slice_s, plan.horizon_s))
            tell(loop.now / plan.horizon_s if plan.tickets is None else world.ended / plan.tickets)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        gc.enable()
    wall_s, cpu_s = time.perf_counter() - began_at, time.process_time() - cpu_at
    devices = world.box.devices.values()
    for device in devices:
        device.close()
    log = [entry for device in devices for entry in device.log]
    log.sort(key=lambda entry: entry.end)
    return Outcome(
        log=log,
        left=world.left,
        waiting=world.waiting(),
        loads=sorted(load for device in devices for load in device.loads),
        busy_s=sum(entry.device_s for entry in log),
        virtual_s=loop.now,
        wall_s=wall_s,
        cpu_s=cpu_s,
        interrupted=interrupted,
    )
