"""From the queue to a seat to the end: grants, the pieces of an answer, releases, lost holders.

A late message of a holder whose lease is over changes nothing: it is counted as fenced and dropped.
"""

from collections.abc import Callable

from scheduler.core.box import Box
from scheduler.core.catalogue import RowFacts
from scheduler.core.cost import Run
from scheduler.core.device import Device
from scheduler.core.effects import Answer, Dispatch, Grant, Halt, Relay, Tell, Unload
from scheduler.core.events import Failed, Finished, Produced, Staged
from scheduler.core.refusal import Refusal, expired, too_big, too_much, worker_lost
from scheduler.core.ticket import Hold, State, Ticket
from scheduler.errors import InvariantBroken

NPU = "npu"  # kind of the device that on_busy moves work to
_NO_TIMES = (None, None, None)
_HANDED_BACK = "its worker stops"


class Dispatcher:
    """Moves tickets through their device."""

    def __init__(self, box: Box) -> None:
        self._box = box
        # says which row a ticket goes on with whose device was lost under it; None: the same
        self.rescue: Callable[[Ticket, float], RowFacts | None] = lambda _ticket, _at: None
        # told what came of the canary - it passed, or failed, or nothing - and that it may be in the way
        self.proved: Callable[[Ticket, float, bool | None, str], None] = _unproved
        self.make_way: Callable[[float], None] = lambda _at: None

    def enqueue(self, ticket: Ticket, row: RowFacts, at: float) -> None:
        """Let a bound ticket wait for its device."""
        ticket.model, ticket.device, ticket.queued_at = row.model, row.device, at
        device = self._box.devices[row.device]
        is_ready = device.is_ready(row.model)
        ticket.cost_s = self._estimate_s(ticket, device, is_ready=is_ready)
        ticket.move(State.QUEUED, at, row.model)
        if ticket.asked.expires_at <= at:
            self._box.refuse(ticket, at, expired())
        elif not is_ready and (refusal := self.never(ticket, device)) is not None:
            self._box.refuse(ticket, at, refusal)
        elif device.is_open_for(ticket, at, is_ready=is_ready):
            device.queue.pass_through(ticket)
            self.grant(ticket, device, at)
        elif device.is_awaiting(ticket, at):
            device.pass_by(ticket, at)
            self.grant(ticket, device, at)
        else:
            device.queue.push(ticket)
            self.pump(device, at)

    def pump(self, device: Device, at: float) -> None:
        """Grant what can be granted now; the deadline is looked at again at this instant."""
        if device.peeked is None and not device.queue.size:
            return
        while (ticket := self._next(device, at)) is not None:
            if ticket.asked.expires_at <= at:
                device.queue.settle(ticket, 0.0)
                self._box.refuse(ticket, at, expired())
            else:
                is_ready = device.is_ready(ticket.model)
                device.queue.reprice(ticket, self._estimate_s(ticket, device, is_ready=is_ready))
                self.grant(ticket, device, at)
        if self._box.proving.ticket:
            self.make_way(at)
        self.send_away()

    def never(self, ticket: Ticket, device: Device) -> Refusal | None:
        """Return the refusal of a ticket for which there can never be memory enough, None for any other."""
        residency, hold = self._box.residency, ticket.hold
        if hold is not None:
            exceeds = residency.exceeds(hold.memory_bytes)
            return too_much(hold.memory_bytes, residency.budget) if exceeds else None
        return too_big(ticket.model) if residency.never_fits(device.name, ticket.model) else None

    def _next(self, device: Device, at: float) -> Ticket | None:
        """Take the next ticket that may start now; a head that waits for memory in vain is refused."""
        while (ticket := device.next(at)) is None:
            head = device.peeked if device.is_short else None
            refusal = self.never(head, device) if head is not None else None
            if head is None or refusal is None:
                return None
            device.withdraw(head, at)
            self._box.refuse(head, at, refusal)
        return ticket

    def send_away(self) -> None:
        """Tell workers which rows must leave so that others fit."""
        box = self._box
        leaving, box.residency.leaving = box.residency.leaving, []
        for name, model in leaving:
            device = box.device_named(name)
            if device is not None and device.worker is not None:
                device.slots.drop([model])
                box.count("unloads")
                box.meter.swaps.add(device.name, "told")
                box.out.append(Unload(device.worker.route, model))

    def _estimate_s(self, ticket: Ticket, device: Device, *, is_ready: bool) -> float:
        """Return what a ticket would cost if it were granted now; a hold, all the time it may take."""
        if ticket.hold is not None:
            return ticket.hold.max_hold_s
        costs, asked, model = self._box.costs, ticket.asked, ticket.model
        held = device.slots.tokens(model, asked.conversation) if device.slots.per_row else 0
        ticket.seats = seats = len(device.active) + 1 if model == device.loaded else 1
        limit = self._box.catalogue.rows[model].max_tokens
        guess_s = ticket.guessed_s = costs.guess_s(asked, limit, (model, device.name, seats), held)
        return guess_s if is_ready else guess_s + costs.load_s(model)

    def grant(self, ticket: Ticket, device: Device, at: float) -> None:
        """Give a seat, or to an outside lane the device."""
        worker, box = device.worker, self._box
        if ticket.unsaid is not None:  # now its placement is final
            box.out.append(ticket.unsaid)
            ticket.unsaid = ticket.judge_at = None
            box.undecided.pop(ticket.number, None)
        if ticket.hold is not None:
            self._grant_hold(ticket, ticket.hold, device, at)
            return
        if worker is None:
            raise InvariantBroken(f"{device.name} granted a seat without a worker")
        device.accrue(at)
        device.active[ticket.number] = ticket
        row = box.catalogue.rows[ticket.model]
        terms = box.terms(row.model)
        evict = box.residency.enter(
            device.name, row.model, at, pinned=terms.pinned, ttl_s=terms.ttl_s
        )
        device.loaded, device.row_seats = row.model, row.slots
        if evict:
            box.meter.swaps.add(device.name, "grant", by=len(evict))
        if device.slots.per_row:
            device.slots.drop(evict)
            of_row = row.slots if worker.by_row else None
            device.slots.begin(ticket.model, ticket.asked.conversation, ticket.lane, of_row)
        ticket.lease, ticket.worker, ticket.granted_at = box.epoch(), worker.route, at
        if ticket.asked.stream:
            box.meter.signs[ticket.number] = at
        ticket.share_at = device.share
        ticket.attempts += 1
        ticket.move(State.RUNNING, at, device.name)
        box.waits(ticket, -1)
        worker.held.add(ticket.number)
        asked = ticket.asked
        box.out.append(
            Dispatch(
                worker.route, ticket.number, ticket.lease, asked.op, ticket.model,
                asked.stream, asked.conversation, asked.body, evict,
            )
        )  # fmt: skip

    def _grant_hold(self, ticket: Ticket, hold: Hold, device: Device, at: float) -> None:
        """Give a whole device to an outside lane, under a lease that its holder must acknowledge."""
        box, limits = self._box, self._box.limits
        device.accrue(at)
        device.active[ticket.number] = box.outside[ticket.number] = ticket
        hold.loaded_before, device.loaded = device.loaded, ticket.model
        ticket.lease, ticket.granted_at, ticket.share_at = box.epoch(), at, device.share
        hold.lease_ends_at = at + min(limits.lease_ack_s, limits.lease_s)
        hold.ends_at = at + hold.max_hold_s
        hold.warn_at = hold.ends_at - min(limits.hold_warn_s, hold.max_hold_s / 4)
        ticket.move(State.RUNNING, at, device.name)
        box.waits(ticket, -1)
        box.heard(ticket)
        asked = ticket.asked
        box.out.append(
            Grant(
                asked.client, asked.rid, ticket.lease, limits.lease_s, hold.max_hold_s,
                limits.kill_s,
            )
        )  # fmt: skip

    def end_hold(self, ticket: Ticket, at: float, outcome: str) -> None:
        """An outside holder no longer has its device: settle, and let the next one in."""
        device = self._box.devices[ticket.device]
        held_s = self._release(ticket, device, at)
        self._box.meter.left(ticket, held_s)
        if ticket.hold is not None:
            device.loaded = ticket.hold.loaded_before  # its worker has kept what it had loaded
        self._box.end(ticket, at, outcome, ran_s=held_s)
        self.pump(device, at)

    def withdraw(self, ticket: Ticket, at: float) -> None:
        """Take a ticket back on its client's behalf; a running one drains first.

        The caller pumps its device then: the ticket may have kept others from the free seats.
        """
        box = self._box
        box.meter.cancels.add("running" if ticket.state is State.RUNNING else "queued")
        if ticket.state is State.RUNNING:
            ticket.move(State.DRAINING, at, "client gone")
            box.requests.pop((ticket.asked.client, ticket.asked.rid), None)
            box.heard(ticket)
            box.out.append(Halt(ticket.worker, ticket.number, ticket.lease))
            return
        box.devices[ticket.device].withdraw(ticket, at)
        box.end(ticket, at, "cancelled")

    def transfer(self, ticket: Ticket, row: RowFacts, at: float) -> None:
        """Let a waiting ticket wait for another device instead."""
        device, waits_since = self._box.devices[ticket.device], ticket.queued_at
        device.withdraw(ticket, at)
        self.enqueue(ticket, row, at)
        ticket.queued_at = waits_since  # its client waits since then, in whichever queue
        self.pump(device, at)

    def clear_out(self, device: Device, at: float) -> None:
        """The NPU is lost: what the rule sent there and still waits for it waits for the GPU instead."""
        for ticket in device.waiting():
            row = self.rescue(ticket, at)
            if row is not None:
                self.transfer(ticket, row, at)

    def on_staged(self, event: Staged) -> None:
        """A running ticket enters a stage; its client is told."""
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is not None and ticket.state is State.RUNNING and not ticket.is_canary:
            ticket.tell(event.at, event.stage)
            self._box.heard(ticket)
            asked = ticket.asked
            self._box.out.append(Tell(asked.client, asked.rid, event.stage, 0, None))

    def on_produced(self, event: Produced) -> None:
        """A piece of an answer; the first carries the times."""
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None or ticket.state is not State.RUNNING or ticket.is_canary:
            return
        asked = ticket.asked
        self._box.meter.signs[event.ticket] = event.at
        if ticket.began:
            relay = Relay(asked.client, asked.rid, event.seq, None, None, None, event.body)
        else:
            ticket.began = True
            ticket.load_s = event.load_s
            ticket.ttft_s = event.at - asked.at
            ticket.tell(event.at, "first token")
            self._box.heard(ticket)
            relay = Relay(
                asked.client,
                asked.rid,
                event.seq,
                *_times(ticket),
                event.body,
                True,
                _pull_ms(ticket),
            )
            if self._box.rests.rows:
                self._box.rests.forget(ticket.model)  # it loads
        self._box.out.append(relay)

    def on_finished(self, event: Finished) -> None:
        """The work is over: answer, settle, and let the next one in."""
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None:
            return
        if ticket.is_canary:
            passed = event.output_tokens > 0 if not event.cancelled else None
            self.end_canary(
                ticket, event.at, passed, "cancelled" if event.cancelled else "no token"
            )
            return
        box = self._box
        device = box.devices[ticket.device]
        if event.cancelled and ticket.state is State.RUNNING:  # nobody withdrew it
            self._handed_back(ticket, device, event)
            return
        if not ticket.began:
            ticket.load_s = event.load_s
            if event.ttft_s is not None:
                ticket.ttft_s = ticket.granted_at - ticket.asked.at + event.ttft_s
        outcome = "cancelled"
        actual_s = self._release(ticket, device, event.at)
        if ticket.state is State.RUNNING:
            outcome = "answered"
            self._learn(ticket, device, event, actual_s)
            asked = ticket.asked
            box.out.append(
                Answer(
                    asked.client, asked.rid, *_times(ticket), event.body, pull_ms=_pull_ms(ticket)
                )
            )
            if box.rests.rows:
                box.rests.forget(ticket.model)
        else:
            box.meter.left(ticket, actual_s)
        if ticket.device == NPU:
            if outcome == "answered":
                box.quarantine.served(event.at, ticket.number)
            else:
                box.quarantine.left(ticket.number)
        box.end(ticket, event.at, outcome, event, ran_s=actual_s)
        self.pump(device, event.at)

    def _handed_back(self, ticket: Ticket, device: Device, event: Finished) -> None:
        """A worker stops, and nobody had withdrawn what it hands back: another one runs it."""
        self._box.roster.by_route[event.route].leaving_at = event.at
        ticket.attempts -= 1  # handed back in order: this was no failed try
        self.take_back(ticket, device, event.at, _HANDED_BACK)
        if device.kind == NPU:
            self.clear_out(device, event.at)
        self.pump(device, event.at)

    def _learn(self, ticket: Ticket, device: Device, done: Finished, actual_s: float) -> None:
        """Take in what an answer cost, and how long its conversation's slot is worth keeping."""
        box, asked, model = self._box, ticket.asked, ticket.model
        held_s = done.at - ticket.granted_at
        run = Run(
            (model, device.name, ticket.seats), held_s, actual_s, ticket.cost_s, ticket.guessed_s
        )
        box.costs.learn(asked, box.catalogue.rows[model].max_tokens, done, run)
        if device.slots.per_row:
            tokens = done.prompt_tokens + done.output_tokens
            comes_back = asked.tools or not asked.starts  # an agent, or a talk that has had a turn
            again_s = box.costs.prefill_s(model, device.name, tokens) if comes_back else 0.0
            until = done.at + min(box.limits.think_s, again_s)
            device.slots.end(model, asked.conversation, tokens, until)

    def let_go(self, event: Failed) -> tuple[Ticket, float] | None:
        """The work ended in an error: free its seat; the caller says what becomes of it, then pumps.

        Returns:
            The ticket, in its state still, and the device-seconds it had; None if that is not its holder.
        """
        ticket = self._held(event.route, event.epoch, event.ticket, event.lease)
        if ticket is None:
            return None
        if ticket.is_canary:
            self.end_canary(ticket, event.at, passed=False, cause=event.code)
            return None
        box = self._box
        ran_s = self._release(ticket, box.devices[ticket.device], event.at)
        box.meter.left(ticket, ran_s)
        return ticket, ran_s

    def recall(self, ticket: Ticket, *, tries: int = 0) -> None:
        """A running ticket whose seat is free again waits once more.

        Args:
            ticket: It.
            tries: Of its runs, those that count against its next one.
        """
        ticket.lease, ticket.worker, ticket.granted_at, ticket.attempts = 0, b"", 0.0, tries
        self._box.waits(ticket, 1)

    def retry(self, ticket: Ticket, at: float, why: str) -> None:
        """Run a ticket once more whose seat is free again, before all others of its lane."""
        self.recall(ticket)
        ticket.move(State.QUEUED, at, why)
        self._box.devices[ticket.device].put_back(ticket, at)

    def end_canary(self, ticket: Ticket, at: float, passed: bool | None, cause: str) -> None:
        """The canary's work is over, however it ended: free its seat, for which nobody is charged."""
        device = self._box.devices[ticket.device]
        self._vacate(ticket, device, at)
        self.proved(ticket, at, passed, "" if passed else cause)
        self.pump(device, at)

    def take_back(self, ticket: Ticket, device: Device, at: float, why: str) -> None:
        """Its holder is gone, or hands it back: run a ticket once more, if no byte of its answer was seen."""
        box = self._box
        actual_s = self._vacate(ticket, device, at)
        box.meter.left(ticket, actual_s)
        again = ticket.state is State.RUNNING and not ticket.began
        row = self.rescue(ticket, at) if again else None
        if row is not None:
            device.queue.settle(ticket, actual_s)
            self.recall(ticket, tries=ticket.attempts)
            self.enqueue(ticket, row, at)
            return
        if not again or ticket.attempts > box.limits.retries:
            device.queue.settle(ticket, actual_s)
            box.refuse(ticket, at, worker_lost(device.name), actual_s)
            return
        device.queue.settle(ticket, 0.0)  # the lane did not get what it was charged for
        box.meter.requeues.add("handed_back" if why == _HANDED_BACK else "worker_lost")
        ticket.lease, ticket.worker, ticket.granted_at = 0, b"", 0.0
        ticket.move(State.QUEUED, at, why)
        box.waits(ticket, 1)
        box.count("requeued")
        device.put_back(ticket, at)

    def _release(self, ticket: Ticket, device: Device, at: float) -> float:
        """Free the seat and settle the account; return the device-seconds that were held."""
        actual_s = self._vacate(ticket, device, at)
        device.queue.settle(ticket, actual_s)
        device.drain.take(at, at - ticket.granted_at)
        return actual_s

    def _vacate(self, ticket: Ticket, device: Device, at: float) -> float:
        device.accrue(at)
        del device.active[ticket.number]
        self._box.residency.leave(device.name, ticket.model, at)
        if device.slots.per_row:
            device.slots.end(ticket.model, ticket.asked.conversation, 0, 0.0)
        self._box.holds.keep(
            (
                device.name, ticket.asked.rid, ticket.lane, ticket.model,
                ticket.granted_at, at, ticket.load_s,
            )
        )  # fmt: skip
        worker = self._box.roster.by_route.get(ticket.worker)
        if worker is not None:
            worker.held.discard(ticket.number)
        return device.share - ticket.share_at

    def _held(self, route: bytes, epoch: int, number: int, lease: int) -> Ticket | None:
        """Return the ticket a worker speaks of, if it still holds it under that lease."""
        box = self._box
        if box.worker(route, epoch) is None:
            return None
        ticket = box.tickets.get(number)
        if ticket is None or ticket.lease != lease or ticket.worker != route:
            box.count("fenced")
            return None
        return ticket


def _unproved(_ticket: Ticket, _at: float, _passed: bool | None, _cause: str) -> None:
    """Nobody listens."""


def _times(ticket: Ticket) -> tuple[float | None, float | None, float | None]:
    """Return queue, load and first-token times of a routed ticket, in milliseconds.

    An explicit name's answer carries no decision, so nobody reads its times.
    """
    if not ticket.is_routed():
        return _NO_TIMES
    load_s, ttft_s = ticket.load_s, ticket.ttft_s
    return (
        (ticket.granted_at - ticket.queued_at) * 1e3,
        None if load_s is None else load_s * 1e3,
        None if ttft_s is None else ttft_s * 1e3,
    )


def _pull_ms(ticket: Ticket) -> float | None:
    """Return how long a routed ticket waited for files, in milliseconds; None: it did not."""
    return ticket.pull_s * 1e3 if ticket.pull_s is not None and ticket.is_routed() else None
