"""The state machine of one box: events in, effects out, time as an argument.

Rules of this file: `handle` is total - a peer's nonsense becomes a refusal or a dropped message, never an
exception; an exception that leaves it is a bug of ours. No clock, no socket, no log; `event.at` never falls.

A request's way through the rooms beside this one:
 1. admission: a row of the table (explicit), a router collection, or a refusal; the only 429
 2. decisions: the conversation's binding, else a scorer's word within `decide_s`, else the default model;
    calls: a policy that is only looked at or kept ends with what a helper says of it
 3. landing: the row if it may be used, after a pull where it is not on disk, else another one
    puller: what the store says of the rows
 4. dispatch: the device's fair queue, a seat under a lease, pieces relayed, the account settled
   outside: a device for a program of a lane, by the same queue
Beside it, liveness keeps the workers, and `Box` the books of all of them.
"""

from scheduler.core.admission import Admission
from scheduler.core.box import Box
from scheduler.core.calls import Calls
from scheduler.core.canary import Canaries
from scheduler.core.catalogue import Catalogue
from scheduler.core.checkpoint import Checkpoint, freeze, thaw
from scheduler.core.decisions import Decisions
from scheduler.core.device import Device
from scheduler.core.dispatch import Dispatcher
from scheduler.core.effects import Acknowledge, Effect, Probe, Tell
from scheduler.core.events import (
    Asked,
    Cancelled,
    ClientLost,
    Decided,
    DrainAsked,
    Event,
    Failed,
    Finished,
    HoldAsked,
    HoldKept,
    ProcessEnded,
    Produced,
    Pulled,
    PullMoved,
    Released,
    Renewed,
    Restarted,
    Sensed,
    Served,
    Shelved,
    Staged,
    Stocked,
    Supervised,
    Ticked,
    WorkerBeat,
    WorkerKept,
    WorkerLost,
    WorkerReady,
)
from scheduler.core.explanation import explanation
from scheduler.core.forecast import starts
from scheduler.core.helpers import Helpers
from scheduler.core.invariants import check
from scheduler.core.landing import Landing
from scheduler.core.limits import Limits, Npu
from scheduler.core.live import live_view, pulse_view
from scheduler.core.liveness import Liveness
from scheduler.core.outside import Outside, outside_view
from scheduler.core.puller import Puller
from scheduler.core.queueview import queue_view
from scheduler.core.refusal import expired, nobody_serves
from scheduler.core.restart import successor
from scheduler.core.samples import Sample, samples
from scheduler.core.sensing import Sensing
from scheduler.core.snapshot import models_view, status_view
from scheduler.core.story import Story
from scheduler.core.watch import Watch


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
        memory: int | None = None,
        npu: Npu | None = None,
    ) -> None:
        """Start with nothing waiting.

        Args:
            catalogue: What names mean.
            limits: Bounds and periods.
            boot: Grows by one at every start of the broker, so that epochs grow across starts.
            at: Now, monotonic seconds.
            weights: Lane name -> share, > 0; a lane that is not named weighs 1.
            memory: Bytes that loaded rows and outside lanes may take together; None: no bound.
            npu: How far the NPU is trusted; None: as the settings' defaults say.
        """
        box = Box(catalogue, limits, weights or {}, boot, at, memory=memory, npu=npu or Npu())
        self._assemble(box, at + limits.beat_s)

    @classmethod
    def restored(cls, frozen: Checkpoint) -> "Appliance":
        """Return the appliance that was frozen; from here on it does what that one would have done.

        Raises:
            KeyError: The checkpoint speaks of something that it does not hold.
        """
        core = cls.__new__(cls)
        core._assemble(thaw(frozen), frozen.tick_at)  # noqa: SLF001  # its own class
        return core

    def freeze(self) -> Checkpoint:
        """Return all state, for `restored`; to be encoded before the next event."""
        return freeze(self._box, self._tick_at)

    def _assemble(self, box: Box, tick_at: float) -> None:
        """Put the rooms together around a box."""
        self._box, self._tick_at = box, tick_at
        self._devices = tuple(self._box.devices.values())
        self._watch = Watch(self._box, tick_at - self._box.limits.beat_s)
        self._dispatcher = Dispatcher(self._box)
        self._canaries = Canaries(self._box, self._dispatcher)
        helpers = Helpers(self._box)
        calls = self._calls = Calls(self._box, helpers)
        landing = Landing(self._box, self._dispatcher)
        puller = self._puller = Puller(self._box, landing)
        decisions = self._decisions = Decisions(self._box, helpers, self._dispatcher, landing)
        sensing = self._sensing = Sensing(self._box, self._dispatcher)
        outside = self._outside = Outside(self._box, self._dispatcher)
        admission = Admission(
            self._box, helpers, calls, decisions, self._dispatcher,
            outside=outside, landing=landing,
        )  # fmt: skip
        liveness = self._liveness = Liveness(self._box, helpers, self._dispatcher, outside, puller)
        self._handlers = {
            Asked: admission.on_asked,
            HoldAsked: admission.on_hold_asked,
            HoldKept: outside.on_hold_kept,
            WorkerKept: liveness.on_worker_kept,
            Renewed: outside.on_renewed,
            Released: outside.on_released,
            Supervised: outside.on_supervised,
            DrainAsked: admission.on_drain_asked,
            Cancelled: admission.on_cancelled,
            ClientLost: admission.on_client_lost,
            WorkerReady: liveness.on_worker_ready,
            WorkerBeat: liveness.on_worker_beat,
            WorkerLost: liveness.on_worker_lost,
            ProcessEnded: liveness.on_process_ended,
            Decided: decisions.on_decided,
            Served: calls.on_served,
            Shelved: calls.on_shelved,
            Sensed: sensing.on_sensed,
            Stocked: puller.on_stocked,
            PullMoved: puller.on_moved,
            Pulled: puller.on_pulled,
            Staged: self._dispatcher.on_staged,
            Produced: self._dispatcher.on_produced,
            Finished: self._dispatcher.on_finished,
            Failed: decisions.on_failed,
            Restarted: self._on_restarted,
            Ticked: self._on_ticked,
        }

    @property
    def limits(self) -> Limits:
        """The bounds in force."""
        return self._box.limits

    @property
    def boot(self) -> int:
        """Which start of the broker this is."""
        return self._box.boot

    def handle(self, event: Event) -> list[Effect]:
        """Take in one event and return what must now be done, in this order."""
        out: list[Effect] = []
        self._box.out = out
        # The table pairs each event class with the handler of that class; the checker cannot see it.
        self._handlers[type(event)](event)  # type: ignore[operator]
        if self._box.proving.wanted:
            self._canaries.look(event.at)
        return out

    def next_deadline(self) -> float:
        """Return the instant at which `Ticked` must come, if nothing else comes before."""
        box, due = self._box, self._tick_at
        if box.unheard:
            due = min(due, next(iter(box.unheard.values())))
        question = box.questions.first_due()
        if question is not None:
            due = min(due, question.due_at)
        if box.undecided:
            due = min(due, *box.undecided.values())
        if box.pulls.waiting:
            due = min(due, box.pulls.due_at())
        for device in self._devices:
            due = min(due, device.wake_at)
        if box.proving.ticket:
            due = min(due, box.proving.due_at)
        return min(due, self._outside.due_at()) if box.outside else due

    def _on_restarted(self, event: Restarted) -> None:
        self._assemble(successor(self._box, event), event.at + event.limits.beat_s)
        self._sensing.look_at_heat(event.at)  # workers and requests come before the next tick

    def _on_ticked(self, event: Ticked) -> None:
        box, at = self._box, event.at
        while box.unheard and next(iter(box.unheard.values())) <= at:
            ticket = box.tickets[next(iter(box.unheard))]
            box.heard(ticket)
            box.out.append(Acknowledge(ticket.asked.client, ticket.asked.rid))
        while (question := box.questions.first_due()) is not None and question.due_at <= at:
            keeper = self._decisions if question.op == "decide" else self._calls
            keeper.give_up(question, at)
        for number in [n for n, due in box.undecided.items() if due <= at]:
            self._decisions.judge_again(box.tickets[number], at)
        if box.pulls.waiting:
            self._puller.time_out(at)
        for device in box.devices.values():
            if device.wake_at <= at:
                device.stop_thinking(at)
                self._dispatcher.pump(device, at)
        if box.outside:
            self._outside.look_over(at)
        self._canaries.look_over(at)
        if self._tick_at <= at:
            self._look_around(at)

    def _look_around(self, at: float) -> None:
        """Do what is done once a heartbeat."""
        box = self._box
        # a broker that was itself stopped has heartbeats waiting that it has not read yet
        if at - self._tick_at < box.limits.beat_s:
            self._liveness.lose_silent(at)
        self._tick_at = at + box.limits.beat_s
        box.out += [Probe(client) for client in sorted({c for c, _ in box.requests} - {b""})]
        box.residency.expire(at)
        self._sensing.look_at_heat(at)
        self._puller.look_over(at)
        self._watch.look(at)
        for device in box.devices.values():
            self._look_over(device, at)
        self._dispatcher.send_away()

    def _look_over(self, device: Device, at: float) -> None:
        """Refuse what waited too long, and tell the others where they stand."""
        box = self._box
        absent = device.worker is None and at - device.absent_since >= box.limits.absent_s
        for position, (ticket, eta_s) in enumerate(list(starts(box, device, at)), 1):
            asked = ticket.asked
            unserved = absent and ticket.hold is None  # who brings its own process needs no worker
            if unserved or asked.expires_at <= at:
                device.withdraw(ticket, at)
                box.refuse(ticket, at, nobody_serves(device.name) if unserved else expired())
            elif asked.stream:
                stage = "hot" if device.is_hot else "queue"
                box.out.append(Tell(asked.client, asked.rid, stage, position, eta_s))
        self._dispatcher.pump(device, at)

    def story(self, rid: str) -> Story | None:
        """Return what happened to a request, oldest first, also for a while after it ended."""
        for ticket in self._box.tickets.values():
            if ticket.asked.rid == rid:
                return list(ticket.story)
        past = self._box.stories.of(rid) or self._box.refusals.of(rid)
        return past[1] if past else None

    def explain(self, rid: str, at: float) -> dict[str, object]:
        """Return what `fairlane explain --json` shows."""
        return explanation(self._box, rid, at)

    def snapshot(self, at: float) -> dict[str, object]:
        """Return what `fairlane status --json` shows."""
        return status_view(self._box, at)

    def queue(self, at: float) -> dict[str, object]:
        """Return what `fairlane queue --json` shows."""
        return queue_view(self._box, at)

    def metrics(self, at: float) -> dict[str, list[Sample]]:
        """Return what `/metrics` shows of the core, by the names of its table without their prefix."""
        return samples(self._box, self._watch, at)

    def models(self) -> dict[str, object]:
        """Return rows, collections and aliases as `/v1/models` needs them."""
        return models_view(self._box)

    def live(self, at: float) -> dict[str, object]:
        """Return what the live page shows of one instant."""
        return live_view(self._box, at)

    def pulse(self, at: float) -> dict[str, object]:
        """Return what the live page's curves need of one instant."""
        return pulse_view(self._box, at)

    def outside(self, at: float) -> dict[str, object]:
        """Return what `fairlane gpu ls --json` shows."""
        return outside_view(self._box, at)

    def check_invariants(self) -> None:
        """Check that the books agree with each other; for tests and simulations.

        Raises:
            InvariantBroken: They do not.
        """
        check(self._box)
