"""A whole box on virtual time: the real core, session, holding and translation between modelled devices.

A message arrives at the instant it is sent, in order. Beside the core stands a second one that is told
everything but the noise - late, repeated and foreign messages - and must answer the rest to the byte.
What does not hold is kept in `faults` under the property it breaks; see `fairbooks.py`.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random

import msgspec

from scheduler.bus.translate import TO_CLIENT, TO_EVENT, TO_WORKER
from scheduler.core import Appliance, Catalogue, Limits, RowFacts
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.core.checkpoint import Checkpoint
from scheduler.core.ticket import State
from scheduler.wire import messages as wire
from support.fairbooks import Device, Fault, Use
from support.programs import HolderProcess, WorkerProcess
from support.stand import catalogue

CLIENTS = (b"client 1", b"client 2", b"client 3")
_CONVEYED = {"Expel", "Revoke", "Probe", "Acknowledge", "Admit", "Grant"}  # answers to noise


class Source(msgspec.Struct, frozen=True):
    """A lane that always has something waiting."""

    lane: str
    rows: tuple[str, ...]
    depth: int
    sizes: tuple[float, ...]
    talks: int  # conversations it has; 0: a new one for every request
    batch: float = 0.0  # part of its requests that is batch


class World:
    """One box, its clients and its processes."""

    def __init__(
        self, seed: int, *, weights: dict[str, float], rows: tuple[RowFacts, ...], limits: Limits,
        seats: int = 1, slots: int = 0, load_s: float = 0.5,
    ) -> None:  # fmt: skip
        self.dice = Random(seed)
        self.now, self.boot = 100.0, 1
        self.weights, self.rows, self.limits = weights, rows, limits
        self.seats, self.slots, self.load_s = seats, slots, load_s
        self.kinds = sorted({row.device for row in rows})
        self.faults: list[Fault] = []
        self.seen: Counter[str] = Counter()
        self.tape: list[tuple[ev.Event, bytes]] = []  # every event, and what was said to it
        self.asked: dict[str, ev.Asked] = {}  # requests whose client waits
        self.work: dict[str, float] = {}
        self.ends: Counter[str] = Counter()  # request -> how often its client was told the end
        self.withdrawn: set[str] = set()
        self.sources: dict[str, Source] = {}
        self.workers: list[WorkerProcess] = []
        self.holders: dict[str, HolderProcess] = {}
        self.leases: list[int] = []
        self.runs: list[tuple[bytes, int, fx.Dispatch]] = []  # every grant ever made
        self.grants: list[fx.Grant] = []
        self.idle_since: dict[str, float] = {}
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self._pids = count(500)
        self._inbox: deque[ev.Event] = deque()
        self.core, self.shadow = self._fresh_core(), self._fresh_core()
        rows_of = {kind: len([r for r in rows if r.device == kind]) for kind in self.kinds}
        self.books = {
            f"{kind}0": Device(
                f"{kind}0", weights, seats, limits.collate_s if rows_of[kind] > 1 else 0.0, self.now
            )
            for kind in self.kinds
        }
        for kind in self.kinds:
            self.spawn(kind)
        self.advance(0.01)

    def _fresh_core(self) -> Appliance:
        return Appliance(self.catalogue, self.limits, boot=1, at=100.0, weights=self.weights)

    @property
    def catalogue(self) -> Catalogue:
        """What names mean."""
        return catalogue(self.rows, self.rows[0].model)

    # --- the broker ---------------------------------------------------------------------------------

    def send(self, event: ev.Event) -> list[fx.Effect]:
        """Hand an event to both cores and do what they say."""
        if isinstance(event, ev.HoldAsked) and not event.lease:
            self.books[event.device].waits(event.lane, event.rid)
        effects = self.core.handle(event)
        said = msgspec.msgpack.encode(effects)
        if msgspec.msgpack.encode(self.shadow.handle(event)) != said:
            self.faults.append(Fault("P9", f"noise changed what comes of {event}: {effects}"))
        self.tape.append((event, said))
        self._perform(event, effects)
        for name, books in self.books.items():
            if self.slots:
                for lane, charged_s in self.books_of(name).items():
                    books.pauses_for(lane, charged_s - books.served[lane])
            books.look()
            self.faults += books.faults
            books.faults.clear()
            self._check_seats(name)
        self._drain()
        return effects

    def tell(self, event: ev.Event) -> None:
        """Hand an event in, whatever comes of it."""
        self.send(event)

    def noise(self, event: ev.Event) -> list[fx.Effect]:
        """Hand in what must change nothing; nobody hears what is said to it."""
        effects = self.core.handle(event)
        told = {type(effect).__name__ for effect in effects}
        self.seen["P9"] += 1
        if told - _CONVEYED:
            self.faults.append(Fault("P9", f"{event} had an effect: {effects}"))
        return effects

    def post(self, route: bytes, message: wire.Message, body: bytes = b"") -> None:
        """Take a message to the broker."""
        if isinstance(message, wire.Hello):
            holder = self.holder_at(route)
            if holder is not None:
                self._say_boot(holder)
            return
        self._inbox.append(TO_EVENT[type(message)](message, self.now, route, body))

    def _drain(self) -> None:
        while self._inbox:
            self.send(self._inbox.popleft())

    # --- what the core says -------------------------------------------------------------------------

    def _perform(self, event: ev.Event, effects: list[fx.Effect]) -> None:
        self._doubt(event)
        for effect in effects:
            match effect:
                case fx.Dispatch():
                    self._dispatched(effect)
                case fx.Grant() | fx.Warn() | fx.Revoke():
                    self._tell_holder(effect)
                case fx.Halt() | fx.Expel() | fx.Admit():
                    self._tell_worker(effect)
                case fx.Answer() | fx.Refuse() if not self._is_to_releaser(event, effect):
                    self._answered(effect)
                case fx.Ended():
                    self._ended(effect)
                case _:
                    self._note(effect)
        for books in self.books.values():
            for use in [use for use in books.uses.values() if use.is_doubtful]:
                books.goes_back(use.rid)

    @staticmethod
    def _is_to_releaser(event: ev.Event, effect: fx.Answer | fx.Refuse) -> bool:
        """Return whether it only tells who released a hold that this was too late."""
        return isinstance(event, ev.Released) and effect.rid == event.rid

    def _doubt(self, event: ev.Event) -> None:
        """What a worker hands back is charged to nobody."""
        handed_back = event.lease if isinstance(event, ev.Finished) and event.cancelled else -1
        for books in self.books.values():
            for use in books.uses.values():
                use.is_doubtful |= use.lease == handed_back

    def _note(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Record(action="worker_down"):
                for books in self.books.values():
                    for use in books.uses.values():
                        use.is_doubtful |= use.owner == effect.fields["worker"]
            case fx.Kill():
                self.later(self.dice.choice([0.0, 0.1, 1.0]), partial(self._kill, effect))
            case fx.Probe(client=client):
                holder = self.holder_at(client)
                if holder is not None and not holder.alive:
                    self._inbox.append(ev.ClientLost(self.now, client))
                elif holder is not None:
                    self._say_boot(holder)
            case _:
                pass

    def _say_boot(self, holder: HolderProcess) -> None:
        self.later(0.0, lambda: holder.hear(wire.Here(self.boot)))

    def _dispatched(self, run: fx.Dispatch) -> None:
        rid = run.body.decode()
        worker = self.worker_at(run.worker)
        if worker is None:
            self.faults.append(Fault("P8", f"{run} to nobody"))
            return
        self._fresh(run.lease)
        self.runs.append((run.worker, self._epoch_of(run.worker), run))
        self._use(f"{worker.kind}0", Use(self.asked_lane(rid), rid, run.lease, worker.name, 0.0))
        message, body = TO_WORKER[fx.Dispatch](run)[1:]
        worker.hear(message, body)

    def _use(self, device: str, use: Use) -> None:
        books = self.books[device]
        if use.rid in books.uses:
            books.goes_back(use.rid)
        ticket = next(
            t for d in self.core._box.devices.values() for t in d.active.values()
            if t.lease == use.lease
        )  # fmt: skip  # how it was estimated is no secret of the core's: it bounds what may be apart
        use.cost_s = ticket.cost_s
        others = [o for o in books.uses.values() if not o.is_doubtful]
        if len(others) >= self.seats or (others and use.owner != others[0].owner):
            self.faults.append(Fault("P8", f"{use} beside {others}"))
        books.begins(use)

    def _tell_holder(self, effect: fx.Grant | fx.Warn | fx.Revoke) -> None:
        holder = self.holder_at(effect.client)
        if holder is None:
            return
        books = self.books[holder.request.device]
        if isinstance(effect, fx.Grant) and effect.rid not in books.uses:
            self._fresh(effect.lease)
            self.grants.append(effect)
            self._use(
                holder.request.device,
                Use(holder.request.lane, effect.rid, effect.lease, effect.rid, 0.0),
            )
        holder.hear(TO_CLIENT[type(effect)](effect)[1])

    def _tell_worker(self, effect: fx.Halt | fx.Expel | fx.Admit) -> None:
        worker = self.worker_at(effect.worker)
        if worker is None:
            return
        if isinstance(effect, fx.Admit):
            worker.hear(wire.Welcome(effect.epoch, self.limits.beat_s, self.boot), b"")
        else:
            worker.hear(*TO_WORKER[type(effect)](effect)[1:])

    def _fresh(self, lease: int) -> None:
        if lease <= max(self.leases, default=0):
            self.faults.append(Fault("P9", f"lease {lease} is not newer than all before"))
        self.leases.append(lease)

    def _answered(self, effect: fx.Answer | fx.Refuse) -> None:
        rid = effect.rid
        holder = self.holders.get(rid)
        if holder is not None and isinstance(effect, fx.Refuse):
            holder.hear(TO_CLIENT[fx.Refuse](effect)[1])
        elif self.asked.pop(rid, None) is not None:
            self.ends[rid] += 1
        else:
            self.faults.append(Fault("lost", f"{effect} for nobody"))
        for books in self.books.values():
            if rid not in books.uses:
                books.ends(rid, self.asked_lane(rid), charged=False)

    def _ended(self, ended: fx.Ended) -> None:
        rid, lane = ended.request, ended.lane
        for books in self.books.values():
            use = books.uses.get(rid)
            if use is None:
                books.ends(rid, lane, charged=False)
                continue
            charged = ended.outcome != "deadline_exceeded"
            if charged and abs(use.used_s - ended.ran_s) > 1e-6:
                self.faults.append(Fault("P7", f"{use} but the record says {ended}"))
            books.ends(rid, lane, charged=charged)

    def _kill(self, kill: fx.Kill) -> None:
        """The supervisor ends a process, or a whole group, and says so when it is gone."""
        if kill.lease:
            holder = self.holders.get(kill.rid)
            if holder is not None:
                holder.group = False
        else:
            for worker in self.workers:
                if worker.pid == kill.pid and worker.alive:
                    self._dies(worker)
        self.send(ev.ProcessEnded(self.now, kill.pid, kill.lease))

    def _epoch_of(self, route: bytes) -> int:
        return self.core._box.roster.by_route[route].epoch

    # --- who is there -------------------------------------------------------------------------------

    def worker_at(self, route: bytes) -> WorkerProcess | None:
        """Return the process at a route."""
        return next((w for w in self.workers if w.route == route), None)

    def worker_of(self, kind: str) -> WorkerProcess | None:
        """Return the living process of a kind."""
        return next((w for w in self.workers if w.kind == kind and w.alive), None)

    def holder_at(self, route: bytes) -> HolderProcess | None:
        """Return the holder at a route."""
        return next((h for h in self.holders.values() if h.route == route), None)

    def asked_lane(self, rid: str) -> str:
        """Return the lane of a request or hold."""
        return rid.rsplit("/", 1)[0]

    def work_of(self, rid: str) -> float:
        """Return how much work a request is."""
        return self.work[rid]

    # --- clients ------------------------------------------------------------------------------------

    def ask(
        self, lane: str, row: str, work_s: float, *, talk: str = "", batch: bool = False,
        expires_in: float = 1e6, max_tokens: int = 10, stream: bool = False,
    ) -> str:  # fmt: skip
        """Ask; return the request's name, which says its lane."""
        rid = f"{lane}/{next(self._numbers)}"
        client = self.dice.choice(CLIENTS)
        self.asked[rid] = ev.Asked(
            self.now, client, rid, "chat", row, lane, talk or rid, True, stream, batch,
            self.now + expires_in, 0, max_tokens, False, False, False, rid.encode(),
        )  # fmt: skip
        self.work[rid] = work_s
        self._ask(rid)
        return rid

    def _ask(self, rid: str) -> None:
        asked = msgspec.structs.replace(self.asked[rid], at=self.now)
        device = next(row.device for row in self.rows if row.model == asked.name)
        self.books[f"{device}0"].waits(asked.lane, rid)
        self.send(asked)

    def cancel(self, rid: str) -> None:
        """Withdraw a request."""
        asked = self.asked.pop(rid)
        self.withdrawn.add(rid)
        self.send(ev.Cancelled(self.now, asked.client, rid))

    def lose_client(self, client: bytes) -> None:
        """A client is gone."""
        gone = [rid for rid, asked in self.asked.items() if asked.client == client]
        for rid in gone:
            del self.asked[rid]
            self.withdrawn.add(rid)
        self.send(ev.ClientLost(self.now, client))

    def hold(self, lane: str, device: str, run_s: float, *, max_hold_s: float = 30.0) -> str:
        """Let a program of an outside lane want a device."""
        rid, pid = f"{lane}/h{next(self._numbers)}", next(self._pids)
        request = wire.Hold(
            rid, lane, self.now + 1e6, pid, 1.0, pid, device, max_hold_s=max_hold_s, what="bench"
        )
        self.holders[rid] = HolderProcess(self, request, run_s)
        self.holders[rid].act()
        self._drain()
        return rid

    def fill(self) -> None:
        """Let those ask who always have something waiting."""
        for source in self.sources.values():
            for row in source.rows:
                device = next(r.device for r in self.rows if r.model == row)
                waiting = self.books[f"{device}0"].waiting[source.lane]
                mine = [r for r in waiting if r in self.asked and self.asked[r].name == row]
                for _ in range(source.depth - len(mine)):
                    talk = (
                        f"{source.lane} {self.dice.randrange(source.talks)}" if source.talks else ""
                    )
                    self.ask(
                        source.lane, row, self.dice.choice(source.sizes), talk=talk,
                        batch=self.dice.random() < source.batch,
                        max_tokens=self.dice.choice([1, 10, 100]),
                    )  # fmt: skip

    # --- processes ----------------------------------------------------------------------------------

    def spawn(self, kind: str) -> None:
        """The supervisor starts a worker where none lives."""
        if self.worker_of(kind) is None:
            pid = next(self._pids)
            known = self.core._box.roster.by_route
            self.workers = [w for w in self.workers if w.alive or w.route in known]
            self.workers.append(
                WorkerProcess(
                    self, kind, pid, seats=self.seats, slots=self.slots, load_s=self.load_s
                )
            )

    def _dies(self, worker: WorkerProcess) -> None:
        worker.alive = False
        worker.jobs.clear()
        self.later(self.dice.choice([0.1, 1.0]), lambda: self.spawn(worker.kind))

    def kill_worker(self, kind: str, *, told: bool) -> None:
        """kill -9 of a worker; unless the supervisor tells, its silence does."""
        worker = self.worker_of(kind)
        if worker is not None:
            self._dies(worker)
            if told:
                pid = worker.pid
                self.later(0.05, lambda: self.tell(ev.ProcessEnded(self.now, pid, 0)))

    def stop_worker(self, kind: str) -> None:
        """A worker leaves in order."""
        worker = self.worker_of(kind)
        if worker is not None and not worker.deaf:
            worker.leave()
            self._dies(worker)
            self._drain()

    def restart(self, *, thawed: bool) -> None:
        """The broker dies and goes on from its journal; clients, workers and holders speak up again.

        Args:
            thawed: Whether the state comes from a checkpoint; else from the events, which is the same.
        """
        self.boot += 1
        self._inbox.clear()
        if thawed:
            packed = msgspec.msgpack.encode(self.core.freeze())
            self.core = Appliance.restored(msgspec.msgpack.decode(packed, type=Checkpoint))
        living: list[ev.Event] = [*self._kept_workers(), *self._kept_holds()]
        for books in self.books.values():
            books.restart()
        self.idle_since.clear()
        self.tell(
            ev.Restarted(self.now, self.boot, True, 0.0, self.catalogue, self.limits, self.weights)
        )
        for one in living:
            self.tell(one)
            if isinstance(one, ev.HoldKept):
                self.books[one.device].begins(
                    Use(one.lane, one.rid, one.lease, one.rid, one.max_hold_s)
                )
        self.later(0.0, lambda: self.tell(ev.Supervised(self.now, b"supervisor")))
        for rid in self.dice.sample(sorted(self.asked), len(self.asked)):
            self.later(self.dice.choice([0.0, 0.3, 1.0]), partial(self._ask_again, rid))

    def _kept_workers(self) -> list[ev.WorkerKept]:
        frozen = self.core.freeze()
        ending = [d.ending for d in frozen.devices.values() if d.ending is not None]
        return [
            ev.WorkerKept(self.now, w.name, w.device, w.pid, w.pid_started)
            for w in [*frozen.workers, *ending]
            if any(p.alive and p.pid == w.pid for p in self.workers)
        ]

    def _kept_holds(self) -> list[ev.HoldKept]:
        kept: list[ev.HoldKept] = []
        for ticket in self.core.freeze().tickets:
            holder, hold, asked = self.holders.get(ticket.asked.rid), ticket.hold, ticket.asked
            if hold is None or not ticket.lease or holder is None or not holder.group:
                continue
            is_over = ticket.state is State.DRAINING
            held_s = hold.max_hold_s if is_over else self.now - ticket.granted_at
            kept.append(
                ev.HoldKept(
                    self.now, asked.rid, ticket.lane, asked.name, asked.batch, ticket.lease,
                    hold.max_hold_s, 0, hold.pid, hold.pgid, hold.pid_started, hold.what, held_s,
                )
            )  # fmt: skip
        return kept

    def _ask_again(self, rid: str) -> None:
        if rid in self.asked:
            self._ask(rid)

    # --- time ---------------------------------------------------------------------------------------

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen after a time."""
        heapq.heappush(self._later, (self.now + seconds, next(self._numbers), what))

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        until = self.now + seconds
        while (due := self._due_at()) <= until:
            self._step_to(max(self.now, due))
            self._act()
        self._step_to(until)

    def settle(self) -> None:
        """Let what was said arrive."""
        self._drain()
        self.advance(0.0)

    def _due_at(self) -> float:
        due = self.core.next_deadline()
        if self._later:
            due = min(due, self._later[0][0])
        for process in self._processes():
            due = min(due, process.due_at())
        return due

    def _processes(self) -> list[WorkerProcess | HolderProcess]:
        return [*self.workers, *self.holders.values()]

    def _step_to(self, at: float) -> None:
        for worker in self.workers:
            worker.step(at - self.now)
        for books in self.books.values():
            books.step(at)
        self.now = at

    def _act(self) -> None:
        while self._later and self._later[0][0] <= self.now:
            heapq.heappop(self._later)[2]()
            self._drain()
        for process in self._processes():
            if process.due_at() <= self.now:
                process.act()
                self._drain()
        if self.core.next_deadline() <= self.now:
            self.send(ev.Ticked(self.now))
        known = self._known()
        self.holders = {r: h for r, h in self.holders.items() if h.alive or h.group or r in known}
        self.fill()
        self._check_idle()

    def _known(self) -> set[str]:
        books = self.books.values()
        waiting = {rid for one in books for rids in one.waiting.values() for rid in rids}
        return waiting | {rid for one in books for rid in one.uses}

    # --- what must hold -----------------------------------------------------------------------------

    def _check_seats(self, device: str) -> None:
        """P8: who really computes on a device: one program, on one row, on no more than its seats."""
        workers = [w for w in self.workers if w.alive and w.jobs and f"{w.kind}0" == device]
        groups = [h for h in self.holders.values() if h.group and h.request.device == device]
        self.seen["P8"] += bool(workers) + bool(groups)
        if len(workers) + len(groups) > 1:
            self.faults.append(
                Fault("P8", f"{[w.name for w in workers]} {[h.rid for h in groups]}")
            )
        for worker in workers:
            rows = {c.job.model for c in worker.jobs.values()}
            if len(worker.jobs) > worker.seats or len(rows) > 1:
                self.faults.append(Fault("P8", f"{worker.name} computes {worker.jobs}"))

    def _check_idle(self) -> None:
        """P1: no device that could serve idles while something waits; a think time is bounded."""
        patience_s = min(self.limits.think_s, self.limits.collate_s) if self.slots else 0.0
        for kind in self.kinds:
            name, worker = f"{kind}0", self.worker_of(kind)
            books = self.books[name]
            waiting = [rid for rids in books.waiting.values() for rid in rids]
            serves = (
                worker is not None and not worker.deaf and worker.session.joined
                and self.core._box.devices[kind].worker is not None
                and not any(h.group for h in self.holders.values())
            )  # fmt: skip
            self.seen["P1"] += serves and bool(waiting)
            if not (serves and waiting and not books.uses):
                self.idle_since.pop(name, None)
                continue
            since = self.idle_since.setdefault(name, self.now)
            if self.now - since > patience_s + 1e-6:
                self.faults.append(Fault("P1", f"{name} idles since {since}: {waiting}"))

    def books_of(self, device: str) -> dict[str, float]:
        """Return what the core says lanes were served, less what it expects of those not ended yet."""
        core = self.core._box.devices[device[:-1]]
        served = dict(core.queue.served_s())
        picked = [core.peeked] if core.peeked is not None else []
        for ticket in [*core.active.values(), *picked]:
            served[ticket.lane] -= ticket.cost_s
        return served

    def paused_s(self, device: str) -> float:
        """Return the time kept free for conversations, which their lanes have paid."""
        return float(self.core._box.devices[device[:-1]].thinking_s)

    def replay(self) -> None:
        """P11: the same events make the same effects, to the byte, in a core that begins anew."""
        core = self._fresh_core()
        for event, said in self.tape:
            read = msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=type(event))
            if msgspec.msgpack.encode(core.handle(read)) != said:
                self.faults.append(Fault("P11", f"{event} has other effects in a replay"))
                return
        self.seen["P11"] += len(self.tape)
