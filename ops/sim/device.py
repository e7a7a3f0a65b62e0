"""A modelled device: seats, rates, loads, a prefix cache, heat - and a log of its own.

The active jobs share the device evenly. `_progress` is the work, in seconds of a device alone at full
rate, that each job active since the start would have got; a job ends when `_progress` has grown by its
work. So a change of rate or of the number of jobs costs O(log jobs), whatever their number.
"""

import heapq
from functools import partial
from typing import Protocol

from msgspec import Struct

from ops.sim.clock import Loop
from ops.sim.job import DECODE_PER_S, PREFILL_PER_S, Job, Result, Service
from ops.sim.slots import Slots

_FIRST, _END = 0, 1
_ROUNDING = 1e-9  # seconds of work that are a rounding, not a rest


class DeviceSpec(Struct, frozen=True, kw_only=True):
    """What a device is like.

    Attributes:
        kind: Its kind, such as hrx; its instance is 0.
        load_s: Row -> seconds it takes to load.
        loaded: Row that is there at the start; empty: none.
        seats: Jobs it works on at once.
        slots: Conversations whose prompts it keeps; 0: as many as it has seats.
        batching: n jobs at once get n ** batching times the work of one done, 0 (none) to 1.
        prefill_per_s, decode_per_s: Tokens a second, one job alone, full rate.
        rates: (instant, share of the full rate) at which it changes: a device that throttles.
        halt_s: Seconds until a cancelled job lets go of its seat.
    """

    kind: str
    load_s: dict[str, float]
    loaded: str = ""
    seats: int = 1
    slots: int = 0
    batching: float = 0.0
    prefill_per_s: float = PREFILL_PER_S
    decode_per_s: float = DECODE_PER_S
    rates: tuple[tuple[float, float], ...] = ()
    halt_s: float = 0.05

    @property
    def kept(self) -> int:
        """Conversations whose prompts it keeps, at least one a seat."""
        return max(self.seats, self.slots)


class Holder(Protocol):
    """Whose jobs a device works on."""

    def staged(self, job: Job, stage: str) -> None:
        """A job enters a stage."""

    def produced(self, job: Job, load_s: float | None) -> None:
        """The first token of a streamed answer is there."""

    def finished(self, job: Job, result: Result) -> None:
        """A job has left the device."""


class _Active(Struct):
    job: Job
    start: float
    share_at: float
    load_share_at: float
    cached: int
    useful: float  # share of its work that is decoding or first-time prefill
    load_s: float | None
    first_at: float = 0.0


class ModelDevice:
    """One device at work."""

    def __init__(self, spec: DeviceSpec, loop: Loop, holder: Holder) -> None:
        self.spec = spec
        self.name = f"{spec.kind}0"
        self.loaded = spec.loaded
        self.log: list[Service] = []
        self.loads: list[tuple[float, str]] = []  # (instant, row)
        self.active: dict[int, _Active] = {}
        self._loop = loop
        self._holder = holder
        self._slots = Slots(spec.kept)
        self._rate = 1.0
        self._loading = False
        self._progress = 0.0
        self._share = 0.0  # device-seconds each active job has had
        self._load_share = 0.0  # of which the device was loading
        self._at = 0.0
        self._milestones: list[tuple[float, int, int, _Active]] = []
        self._aims = 0
        self._waking = False
        for when, rate in spec.rates:
            loop.at(when, partial(self._throttle, rate))

    def start(self, job: Job, row: str) -> None:
        """Begin a job on a row. Another row than the loaded one needs the device empty.

        Raises:
            ValueError: The scheduler gave a seat that is not there.
        """
        if len(self.active) >= self.spec.seats or (self.active and row != self.loaded):
            raise ValueError(f"{self.name} has no seat for {row} beside {len(self.active)} jobs")
        self._accrue()
        load_s = None
        if row != self.loaded:
            load_s = self._load(row)
            self._holder.staged(job, "load")
        cached, fresh = self._slots.take(job.conversation, job.prompt_tokens)
        spec = self.spec
        prefill = (job.prompt_tokens - cached) / spec.prefill_per_s
        decode = job.output_tokens / spec.decode_per_s
        work = prefill + decode
        useful = (fresh / spec.prefill_per_s + decode) / work if work else 1.0
        active = _Active(
            job, self._loop.now, self._share, self._load_share, cached, useful, load_s
        )  # fmt: skip
        self.active[job.number] = active
        if job.stream:
            first = self._progress + prefill + 1 / spec.decode_per_s
            heapq.heappush(self._milestones, (first, job.number, _FIRST, active))
        heapq.heappush(self._milestones, (self._progress + work, job.number, _END, active))
        self._aim()

    def halt(self, job: Job) -> None:
        """Stop a job that nobody wants any more."""
        self._loop.at(self._loop.now + self.spec.halt_s, partial(self._stop, job.number))

    def close(self) -> None:
        """The run is over: write down what was done of the jobs at work."""
        self._accrue()
        for active in self.active.values():
            self._write(active, whole=False)

    def _load(self, row: str) -> float:
        self.loaded = row
        self.loads.append((self._loop.now, row))
        self._slots.clear()
        self._loading = True
        load_s = self.spec.load_s[row]
        self._loop.at(self._loop.now + load_s, self._ready)
        return load_s

    def _ready(self) -> None:
        self._accrue()
        self._loading = False
        self._aim()

    def _throttle(self, rate: float) -> None:
        self._accrue()
        self._rate = rate
        self._aim()

    def _accrue(self) -> None:
        """Give every active job its part of the time since the last call."""
        now, jobs = self._loop.now, len(self.active)
        if jobs and now > self._at:
            part = (now - self._at) / jobs
            self._share += part
            if self._loading:
                self._load_share += part
            else:
                self._progress += (now - self._at) * self._speed()
        self._at = now

    def _speed(self) -> float:
        """Return the work a second that each active job gets."""
        return self._rate * float(len(self.active) ** (self.spec.batching - 1.0))

    def _aim(self) -> None:
        """Wake up at the next milestone, and not where the last aim was."""
        if self._waking or self._loading:
            return
        self._aims = aim = self._aims + 1
        milestones = self._milestones
        while milestones and milestones[0][1] not in self.active:
            heapq.heappop(milestones)
        if milestones:
            due = milestones[0][0]
            when = self._loop.now + max(0.0, due - self._progress) / self._speed()
            self._loop.at(when, partial(self._wake, aim, due))

    def _wake(self, aim: int, due: float) -> None:
        if aim != self._aims:
            return
        self._accrue()
        self._progress = max(self._progress, due)
        self._waking = True
        milestones = self._milestones
        while milestones and milestones[0][0] <= self._progress + _ROUNDING:
            _, number, kind, active = heapq.heappop(milestones)
            if number not in self.active:
                continue
            if kind == _FIRST:
                active.first_at = self._loop.now
                self._holder.produced(active.job, active.load_s)
            else:
                self._leave(active, cancelled=False)
        self._waking = False
        self._aim()

    def _stop(self, number: int) -> None:
        active = self.active.get(number)
        if active is not None:
            self._accrue()
            self._leave(active, cancelled=True)
            self._aim()

    def _leave(self, active: _Active, *, cancelled: bool) -> None:
        job = active.job
        self._write(active, whole=not cancelled)
        del self.active[job.number]
        self._slots.give_back(job.conversation, job.prompt_tokens + job.output_tokens)
        ttft_s = (active.first_at or self._loop.now) - active.start
        self._holder.finished(job, Result(cancelled, active.load_s, ttft_s, active.cached))

    def _write(self, active: _Active, *, whole: bool) -> None:
        job = active.job
        device_s = self._share - active.share_at
        working_s = device_s - (self._load_share - active.load_share_at)
        self.log.append(
            Service(
                job.number, job.lane, self.loaded, job.row, job.asked_at, active.start,
                self._loop.now, device_s, working_s * active.useful if whole else 0.0, whole,
            )
        )  # fmt: skip
