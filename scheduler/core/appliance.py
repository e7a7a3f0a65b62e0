"""The state machine of one box: events in, effects out, time as an argument.

Rules of this file: `handle` is total - a peer's nonsense becomes a refusal or a dropped message,
never an exception; an exception that leaves it is a bug of ours. No clock, no socket, no log.
`event.at` never falls. The parts it owns (queues, bindings, roster, open questions) know nothing of
each other; what must happen between them happens here.

A request's way:
 1. name: a row of the table (explicit), a router collection, or 404
 2. decide: once a conversation, by a scorer, within `decide_s`, else the default model
 3. bind: row and device; kept for the conversation
 4. queue: the device's fair queue; the only place that answers 429
 5. run: a seat under a lease; pieces are relayed, the end settles the lane's account
"""

from collections import OrderedDict

from policies.why import Why
from scheduler.core.binding import Binding, Bindings
from scheduler.core.catalogue import Catalogue, RowFacts
from scheduler.core.cost import Costs
from scheduler.core.deciding import Deciding, Question
from scheduler.core.device import Device
from scheduler.core.effects import (
    Acknowledge,
    Admit,
    Answer,
    AskScorer,
    Dispatch,
    Effect,
    Ended,
    Expel,
    Halt,
    Place,
    Record,
    Relay,
    Tell,
)
from scheduler.core.events import (
    Asked,
    Cancelled,
    ClientLost,
    Decided,
    Event,
    Failed,
    Finished,
    ProcessEnded,
    Produced,
    Staged,
    Ticked,
    WorkerBeat,
    WorkerLost,
    WorkerReady,
)
from scheduler.core.limits import Limits
from scheduler.core.refusal import Refusal, model_not_found, queue_full, unable
from scheduler.core.story import Stories
from scheduler.core.ticket import State, Ticket
from scheduler.core.worker import Roster, Worker
from scheduler.errors import InvariantBroken

_EPOCHS_PER_BOOT = 2**32
DEFAULT_RULE = "default"


class Appliance:
    """One box: its devices, workers, conversations and requests."""

    def __init__(
        self,
        catalogue: Catalogue,
        limits: Limits,
        *,
        boot: int,
        at: float,
        weights: dict[str, float] | None = None,
    ) -> None:
        """Start with nothing waiting.

        Args:
            catalogue: What names mean.
            limits: Bounds and periods.
            boot: Grows by one at every start of the broker, so that epochs grow across starts.
            at: Now, monotonic seconds.
            weights: Lane name -> share, > 0; a lane that is not named weighs 1.
        """
        self.catalogue = catalogue
        self.limits = limits
        self.boot = boot
        self.weights = weights or {}
        self.tickets: dict[int, Ticket] = {}
        self.requests: dict[tuple[bytes, str], Ticket] = {}
        self.roster = Roster()
        self.bindings = Bindings(limits)
        self.deciding = Deciding()
        self.costs = Costs()
        self.stories = Stories(limits.stories)
        kinds = sorted({row.device for row in catalogue.rows.values()})
        self.devices = {kind: Device(f"{kind}0", kind, self.weights, at) for kind in kinds}
        self.counts: dict[str, int] = {}  # what happened how often, for snapshot()
        self._unheard: OrderedDict[int, float] = OrderedDict()  # ticket -> when it is due an ACK
        self._waiting: dict[str, int] = {}  # lane -> tickets deciding or queued
        self._waiting_total = 0
        self._lanes: set[str] = set(self.weights)
        self._numbers = 0
        self._epochs = boot * _EPOCHS_PER_BOOT
        self._tick_at = at + limits.beat_s
        self._out: list[Effect] = []
        self._handlers = {
            Asked: self._on_asked,
            Cancelled: self._on_cancelled,
            ClientLost: self._on_client_lost,
            WorkerReady: self._on_worker_ready,
            WorkerBeat: self._on_worker_beat,
            WorkerLost: self._on_worker_lost,
            ProcessEnded: self._on_process_ended,
            Decided: self._on_decided,
            Staged: self._on_staged,
            Produced: self._on_produced,
            Finished: self._on_finished,
            Failed: self._on_failed,
            Ticked: self._on_ticked,
        }

    # --- the door -----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Effect]:
        """Take in one event and return what must now be done, in this order."""
        out: list[Effect] = []
        self._out = out
        # The table pairs each event class with the handler of that class; the checker cannot see it.
        self._handlers[type(event)](event)  # type: ignore[operator]
        return out

    def next_deadline(self) -> float:
        """Return the instant at which `Ticked` must come, if nothing else comes before."""
        due = self._tick_at
        if self._unheard:
            due = min(due, next(iter(self._unheard.values())))
        question = self.deciding.oldest()
        if question is not None:
            due = min(due, question.asked_at + self.limits.decide_s)
        return due

    # --- requests -----------------------------------------------------------------------------------

    def _on_asked(self, event: Asked) -> None:
        key = (event.client, event.rid)
        if key in self.requests:  # sent again because the broker seemed gone; it is in hand
            self._out.append(Acknowledge(event.client, event.rid))
            return
        row = self.catalogue.row(event.name)
        default = None if row else self.catalogue.default_of(event.name)
        refusal = self._refusal_of(event, row, default)
        if refusal is not None:
            self._count(f"refused_{refusal.code}")
            self._out.append(refusal.effect(event.client, event.rid))
            return
        ticket = self._accept(event)
        if row is not None and event.op != "decide":
            if self.bindings.find(ticket.lane, event.conversation, event.at) is None:
                self._bind(ticket, Binding(row.model, "", "", None, b"", event.at))
            self._enqueue(ticket, row, event.at)
        else:
            self._route(ticket, default or event.name)

    def _refusal_of(
        self, event: Asked, row: RowFacts | None, default: str | None
    ) -> Refusal | None:
        if event.expires_at <= event.at:
            return Refusal(504, "deadline_exceeded", "The request's deadline had passed.")
        if row is None and default is None:
            return model_not_found(event.name, self.catalogue)
        if row is not None:
            missing = missing_of(event, row)
            if missing:
                return unable(row.model, missing)
        lane = self._flow(event.lane)
        waiting, limits = self._waiting.get(lane, 0), self.limits
        if waiting >= limits.queue_per_lane or self._waiting_total >= limits.queue_total:
            device = self.devices[row.device] if row else next(iter(self.devices.values()))
            return queue_full(lane, waiting, self._waiting_total, self._drain_s(device), limits)
        return None

    def _accept(self, event: Asked) -> Ticket:
        self._numbers += 1
        ticket = Ticket(self._numbers, event, self._flow(event.lane))
        ticket.story.append((event.at, "asked", event.name))
        self.tickets[ticket.number] = ticket
        self.requests[event.client, event.rid] = ticket
        self._unheard[ticket.number] = event.at + self.limits.ack_s
        self._waits(ticket, 1)
        return ticket

    def _on_cancelled(self, event: Cancelled) -> None:
        ticket = self.requests.get((event.client, event.rid))
        if ticket is not None:
            self._withdraw(ticket, event.at)

    def _on_client_lost(self, event: ClientLost) -> None:
        for ticket in [t for (c, _), t in self.requests.items() if c == event.client]:
            self._withdraw(ticket, event.at)

    def _withdraw(self, ticket: Ticket, at: float) -> None:
        self._count("cancelled")
        if ticket.state is State.RUNNING:
            ticket.move(State.DRAINING, at, "client gone")
            self._forget_request(ticket)
            self._out.append(Halt(ticket.worker, ticket.number, ticket.lease))
            return
        if ticket.state is State.DECIDING:
            self.deciding.leave(ticket)
        else:
            self.devices[ticket.device].withdraw(ticket)
        self._end(ticket, at, "cancelled")

    # --- decisions ----------------------------------------------------------------------------------

    def _route(self, ticket: Ticket, default: str) -> None:
        asked = ticket.asked
        if asked.op == "decide":
            key = f"decide {ticket.number}"
        else:
            key = asked.conversation
            binding = self.bindings.find(ticket.lane, key, asked.at)
            if binding is not None:
                self._place(ticket, binding, asked.at, why="", decided=False)
                return
        question = self.deciding.join(key, ticket, asked.at)
        if question is None:
            return
        scorers = self.roster.scorers()
        if scorers and all(scorer.suspect for scorer in scorers):
            self._fall_open(question, asked.at)
        else:
            self._ask_scorer(question)

    def _ask_scorer(self, question: Question) -> None:
        scorer = self.roster.scorer_with_credit(self.limits.scorer_credit)
        question.scorer = scorer.route if scorer else None
        if scorer is None:
            return
        scorer.held.add(question.number)
        due = question.asked_at + self.limits.decide_s
        body = question.tickets[0].asked.body
        self._out.append(AskScorer(scorer.route, question.number, due, body))

    def _on_decided(self, event: Decided) -> None:
        scorer = self._worker(event.route, event.epoch)
        if scorer is None:
            return
        scorer.suspect = False
        scorer.held.discard(event.ticket)
        question = self.deciding.close(event.ticket)
        if question is not None:
            self._count("decisions")
            why = Why.SCORER_DOWN if event.scorer_down else ""
            decided = Binding(
                event.model, event.rule, event.class_, event.confidence, event.decision, event.at
            )
            self._settle(question, decided, event.at, why)
        for waiting in self.deciding.unasked():
            self._ask_scorer(waiting)

    def _fall_open(self, question: Question, at: float) -> None:
        """Nobody decided in time: the default model answers, and says so."""
        self.deciding.close(question.number)
        self._count("scorer_down")
        asked = question.tickets[0].asked
        default = self.catalogue.default_of(asked.name) or asked.name
        decided = Binding(default, DEFAULT_RULE, "", None, b"", at)
        self._settle(question, decided, at, Why.SCORER_DOWN)

    def _settle(self, question: Question, decided: Binding, at: float, why: str) -> None:
        for ticket in question.tickets:
            ticket.decided_at = at
            # scorer_down binds nothing: the next turn is decided afresh
            if not why and ticket.asked.op != "decide":
                self._bind(ticket, decided)
            self._place(ticket, decided, at, why=why, decided=True)

    def _bind(self, ticket: Ticket, binding: Binding) -> None:
        self.bindings.keep(ticket.lane, ticket.asked.conversation, binding)

    def _place(
        self, ticket: Ticket, binding: Binding, at: float, *, why: str, decided: bool
    ) -> None:
        asked = ticket.asked
        row = self._able_row(asked, binding.model)
        if isinstance(row, Refusal):
            self._refuse(ticket, at, row)
            return
        ticket.rule, ticket.why = binding.rule, why
        decide_ms = (at - asked.at) * 1e3 if decided else None
        self._heard(ticket)
        self._out.append(
            Place(
                asked.client, asked.rid, binding.rule, binding.class_, binding.confidence,
                row.model, row.device, why, binding.model if row.model != binding.model else "",
                decide_ms, binding.decision,
            )
        )  # fmt: skip
        if asked.op == "decide":
            self._out.append(Answer(asked.client, asked.rid, None, None, None, b""))
            self._end(ticket, at, "decided")
        else:
            self._enqueue(ticket, row, at)

    def _able_row(self, asked: Asked, model: str) -> RowFacts | Refusal:
        """Return the row decided for, else the default, whichever can serve this request."""
        missing = "a row of that name"
        for name in (model, self.catalogue.default_of(asked.name) or model):
            row = self.catalogue.rows.get(name)
            missing = missing_of(asked, row) if row else missing
            if row and not missing:
                return row
        return unable(model, missing)

    # --- the queue ----------------------------------------------------------------------------------

    def _enqueue(self, ticket: Ticket, row: RowFacts, at: float) -> None:
        ticket.model, ticket.device, ticket.queued_at = row.model, row.device, at
        ticket.cost_s = self.costs.estimate_s(ticket.asked, row.model, row.max_tokens)
        ticket.move(State.QUEUED, at, row.model)
        device = self.devices[row.device]
        device.queue.push(ticket)
        self._pump(device, at)

    def _pump(self, device: Device, at: float) -> None:
        while (ticket := device.next()) is not None:
            if ticket.asked.expires_at <= at:
                device.queue.settle(ticket, 0.0)
                self._refuse(ticket, at, expired())
            else:
                self._grant(ticket, device, at)

    def _grant(self, ticket: Ticket, device: Device, at: float) -> None:
        worker = device.worker
        if worker is None:
            raise InvariantBroken(f"{device.name} granted a seat without a worker")
        device.accrue(at)
        device.active[ticket.number] = ticket
        device.loaded = ticket.model
        self._epochs += 1
        ticket.lease, ticket.worker, ticket.granted_at = self._epochs, worker.route, at
        ticket.share_at = device.share
        ticket.attempts += 1
        ticket.move(State.RUNNING, at, device.name)
        self._waits(ticket, -1)
        worker.held.add(ticket.number)
        asked = ticket.asked
        self._out.append(
            Dispatch(
                worker.route, ticket.number, ticket.lease, asked.op, ticket.model,
                asked.stream, asked.conversation, asked.body,
            )
        )  # fmt: skip

    # --- the work -----------------------------------------------------------------------------------

    def _on_staged(self, event: Staged) -> None:
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is not None and ticket.state is State.RUNNING:
            ticket.story.append((event.at, event.stage, ""))
            self._heard(ticket)
            self._out.append(Tell(ticket.asked.client, ticket.asked.rid, event.stage, 0, None))

    def _on_produced(self, event: Produced) -> None:
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None or ticket.state is not State.RUNNING:
            return
        asked = ticket.asked
        if ticket.began:
            relay = Relay(asked.client, asked.rid, event.seq, None, None, None, event.body)
        else:
            ticket.began = True
            ticket.load_s = event.load_s
            ticket.ttft_s = event.at - asked.at
            self._heard(ticket)
            ticket.story.append((event.at, "first token", ""))
            relay = Relay(asked.client, asked.rid, event.seq, *_times(ticket), event.body)
        self._out.append(relay)

    def _on_finished(self, event: Finished) -> None:
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None:
            return
        if not ticket.began:
            ticket.load_s = event.load_s
            if event.ttft_s is not None:
                ticket.ttft_s = ticket.granted_at - ticket.asked.at + event.ttft_s
        device, outcome = self.devices[ticket.device], "cancelled"
        if (
            event.cancelled and ticket.state is State.RUNNING
        ):  # its worker stops, nobody withdrew it
            self._take_back(ticket, device, event.at)
            self._pump(device, event.at)
            return
        actual_s = self._release(ticket, device, event.at)
        if ticket.state is State.RUNNING:
            outcome = "answered"
            row = self.catalogue.rows.get(ticket.model)
            limit = row.max_tokens if row else None
            self.costs.learn(ticket.asked, ticket.model, limit, actual_s)
            asked = ticket.asked
            self._out.append(Answer(asked.client, asked.rid, *_times(ticket), event.body))
        self._end(ticket, event.at, outcome, event, actual_s)
        self._pump(device, event.at)

    def _on_failed(self, event: Failed) -> None:
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None:
            return
        device = self.devices[ticket.device]
        self._release(ticket, device, event.at)
        self._refuse(
            ticket, event.at, Refusal(event.status, event.code, event.message, event.facts)
        )
        self._pump(device, event.at)

    def _release(self, ticket: Ticket, device: Device, at: float) -> float:
        """Free the seat and settle the account; return the device-seconds that were held."""
        device.accrue(at)
        actual_s = device.share - ticket.share_at
        del device.active[ticket.number]
        device.queue.settle(ticket, actual_s)
        worker = self.roster.by_route.get(ticket.worker)
        if worker is not None:
            worker.held.discard(ticket.number)
        held_s = at - ticket.granted_at
        device.drain_s += ((held_s or 1e-6) - device.drain_s) / 8 if device.drain_s else held_s
        return actual_s

    def _refuse(self, ticket: Ticket, at: float, refusal: Refusal) -> None:
        if ticket.state is not State.DRAINING:
            self._count(f"refused_{refusal.code}")
            asked = ticket.asked
            self._out.append(refusal.effect(asked.client, asked.rid, began=ticket.began))
        self._end(ticket, at, refusal.code)

    def _end(
        self,
        ticket: Ticket,
        at: float,
        outcome: str,
        finished: Finished | None = None,
        ran_s: float = 0.0,
    ) -> None:
        waited_s = (ticket.granted_at or at) - ticket.asked.at
        if ticket.state in {State.DECIDING, State.QUEUED}:
            self._waits(ticket, -1)
        ticket.move(State.ENDED, at, outcome)
        del self.tickets[ticket.number]
        self._forget_request(ticket)
        self._unheard.pop(ticket.number, None)
        self.stories.close(ticket)
        self._count(outcome)
        prompt, cached, output = (
            (finished.prompt_tokens, finished.cached_tokens, finished.output_tokens)
            if finished
            else (0, 0, 0)
        )
        self._out.append(
            Ended(
                ticket.asked.rid, ticket.lane, ticket.asked.op, ticket.model, ticket.device,
                ticket.rule, ticket.why, outcome, waited_s, ran_s, prompt, cached, output,
            )
        )  # fmt: skip

    # --- workers ------------------------------------------------------------------------------------

    def _on_worker_ready(self, event: WorkerReady) -> None:
        known = self.roster.by_route.get(event.route)
        if known is not None and known.nonce == event.nonce:
            self._out.append(Admit(event.route, known.epoch))  # its welcome was lost
            return
        if known is not None:
            self._lose(known, event.at, "another process took its place")
        device = self._device_instance(event.device)
        if event.kind != "scorer" and (device is None or device.kind != event.kind):
            names = ", ".join(d.name for d in self.devices.values())
            self._expel(
                event.route, f"no device {event.device!r} for a {event.kind} worker: {names}"
            )
            return
        if device is not None and device.worker is not None:
            holder = device.worker
            self._expel(event.route, f"{device.name} is served by {holder.name}, pid {holder.pid}")
            return
        self._epochs += 1
        worker = self.roster.admit(event, self._epochs)
        self._out.append(Admit(event.route, worker.epoch))
        self._out.append(
            Record(
                "worker_up", {"worker": worker.name, "pid": worker.pid, "backend": worker.backend}
            )
        )
        if device is not None:
            device.worker = worker
            self._pump(device, event.at)
        else:
            for question in self.deciding.unasked():
                self._ask_scorer(question)

    def _on_worker_beat(self, event: WorkerBeat) -> None:
        worker = self._worker(event.route, event.epoch)
        if worker is not None:
            worker.beat_at = event.at
            worker.resident = event.resident
            worker.suspect = False

    def _on_worker_lost(self, event: WorkerLost) -> None:
        worker = self.roster.by_route.get(event.route)
        if worker is not None:
            self._lose(worker, event.at, event.reason)

    def _on_process_ended(self, event: ProcessEnded) -> None:
        for worker in self.roster.with_pid(event.pid):
            self._lose(worker, event.at, "its process ended")

    def _lose(self, worker: Worker, at: float, reason: str) -> None:
        del self.roster.by_route[worker.route]
        self._count("workers_lost")
        self._out.append(
            Record("worker_down", {"worker": worker.name, "pid": worker.pid, "reason": reason})
        )
        if worker.kind == "scorer":
            for question in self.deciding.asked_of(worker.route):
                self._ask_scorer(question)
            return
        device = self._device_instance(worker.device)
        if device is None:
            return
        device.worker = None
        device.absent_since = at
        for number in sorted(worker.held, reverse=True):
            self._take_back(self.tickets[number], device, at)

    def _take_back(self, ticket: Ticket, device: Device, at: float) -> None:
        """A holder is gone: run its ticket once more if no byte of the answer was seen."""
        device.accrue(at)
        del device.active[ticket.number]
        holder = self.roster.by_route.get(ticket.worker)
        if holder is not None:
            holder.held.discard(ticket.number)
        again = ticket.state is State.RUNNING and not ticket.began
        if again and ticket.attempts <= self.limits.retries:
            device.queue.settle(ticket, 0.0)  # the lane did not get what it was charged for
            ticket.lease, ticket.worker = 0, b""
            ticket.move(State.QUEUED, at, f"{device.name} lost its worker")
            self._waits(ticket, 1)
            device.queue.push(ticket, front=True)
            self._count("requeued")
            return
        device.queue.settle(ticket, device.share - ticket.share_at)
        message = f"The worker of {device.name} was lost while it worked on this request."
        self._refuse(ticket, at, Refusal(502, "worker_lost", message, {"retryable": True}))

    # --- time ---------------------------------------------------------------------------------------

    def _on_ticked(self, event: Ticked) -> None:
        at, limits = event.at, self.limits
        while self._unheard and next(iter(self._unheard.values())) <= at:
            number = next(iter(self._unheard))
            ticket = self.tickets[number]
            self._heard(ticket)
            self._out.append(Acknowledge(ticket.asked.client, ticket.asked.rid))
        while (question := self.deciding.oldest()) and question.asked_at + limits.decide_s <= at:
            scorer = self.roster.by_route.get(question.scorer or b"")
            if scorer is not None:
                scorer.suspect = True
                scorer.held.discard(question.number)
            self._fall_open(question, at)
        if self._tick_at <= at:
            self._tick_at = at + limits.beat_s
            self._look_around(at)

    def _look_around(self, at: float) -> None:
        limits = self.limits
        for worker in self.roster.silent(at, limits.missed_beats * limits.beat_s):
            self._lose(worker, at, f"silent for {at - worker.beat_at:.1f} s")
            self._expel(worker.route, "too long silent")
        for device in self.devices.values():
            absent = device.worker is None and at - device.absent_since >= limits.absent_s
            for position, ticket in enumerate(device.waiting()):
                if absent or ticket.asked.expires_at <= at:
                    device.withdraw(ticket)
                    self._refuse(ticket, at, nobody_serves(device) if absent else expired())
                elif ticket.asked.stream:
                    eta_s = self._drain_s(device, position)
                    asked = ticket.asked
                    self._out.append(Tell(asked.client, asked.rid, "queue", position + 1, eta_s))
            self._pump(device, at)

    # --- small things -------------------------------------------------------------------------------

    def _flow(self, lane: str) -> str:
        """Return the flow of a lane: its own for the first names, then one for all the rest."""
        if lane in self._lanes:
            return lane
        if len(self._lanes) < self.limits.lanes:
            self._lanes.add(lane)
            return lane
        return "default"

    def _waits(self, ticket: Ticket, by: int) -> None:
        self._waiting_total += by
        self._waiting[ticket.lane] = self._waiting.get(ticket.lane, 0) + by

    def _heard(self, ticket: Ticket) -> None:
        self._unheard.pop(ticket.number, None)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _forget_request(self, ticket: Ticket) -> None:
        self.requests.pop((ticket.asked.client, ticket.asked.rid), None)

    def _expel(self, route: bytes, reason: str) -> None:
        self._count("expelled")
        self._out.append(Expel(route, reason))

    def _worker(self, route: bytes, epoch: int) -> Worker | None:
        """Return the worker of a message, or None (and tell it so) if that life of it is over."""
        worker = self.roster.by_route.get(route)
        if worker is None or worker.epoch != epoch:
            self._expel(route, "unknown to this broker")
            return None
        return worker

    def _held(self, route: bytes, epoch: int, number: int, lease: int) -> Ticket | None:
        """Return the ticket a worker speaks of, if it still holds it under that lease."""
        if self._worker(route, epoch) is None:
            return None
        ticket = self.tickets.get(number)
        if ticket is None or ticket.lease != lease or ticket.worker != route:
            self._count("fenced")
            return None
        return ticket

    def _device_instance(self, name: str) -> Device | None:
        return next((d for d in self.devices.values() if d.name == name), None)

    def _drain_s(self, device: Device, position: int | None = None) -> float:
        """Return the seconds until a place in the queue is served; None: until a place is free."""
        seats = device.worker.seats if device.worker else 1
        ahead = 1 if position is None else position + 1
        return device.drain_s * ahead / seats

    # --- views --------------------------------------------------------------------------------------

    def story(self, rid: str) -> list[tuple[float, str, str]] | None:
        """Return what happened to a request, oldest first, also for a while after it ended."""
        for ticket in self.tickets.values():
            if ticket.asked.rid == rid:
                return list(ticket.story)
        return self.stories.of(rid)


def missing_of(asked: Asked, row: RowFacts) -> str:
    """Return what a row lacks to serve a request, or an empty text."""
    needs = {
        "tools": asked.tools and not row.tools,
        "images": asked.images and not row.images,
        "response_format json_schema": asked.json_schema and not row.json_schema,
    }
    return ", ".join(name for name, lacking in needs.items() if lacking)


def expired() -> Refusal:
    """Return the refusal of a ticket whose deadline passed while it waited."""
    return Refusal(504, "deadline_exceeded", "The request's deadline passed while it waited.")


def nobody_serves(device: Device) -> Refusal:
    """Return the refusal of a ticket whose device has had no worker for too long."""
    message = f"No worker serves {device.name}; see `fairlane status`."
    return Refusal(503, "device_unavailable", message, {"device": device.kind, "retryable": True})


def _times(ticket: Ticket) -> tuple[float | None, float | None, float | None]:
    """Return queue, load and first-token times of a granted ticket, in milliseconds."""
    queue_ms = (ticket.granted_at - ticket.queued_at) * 1e3
    load_ms = ticket.load_s * 1e3 if ticket.load_s is not None else None
    ttft_ms = ticket.ttft_s * 1e3 if ticket.ttft_s is not None else None
    return queue_ms, load_ms, ttft_ms
