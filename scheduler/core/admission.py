"""At the door: which requests are accepted, and who takes them from there.

A request is refused here, at once and with the reason, or it is accepted and ends exactly once. The
bound of the queue is kept here and nowhere else, loaded model or not.
"""

from scheduler.core.box import Box
from scheduler.core.calls import OPS, Calls
from scheduler.core.catalogue import RowFacts
from scheduler.core.decisions import Decisions
from scheduler.core.device import Device
from scheduler.core.dispatch import Dispatcher
from scheduler.core.effects import Acknowledge, Answer, Probe
from scheduler.core.events import Asked, Cancelled, ClientLost, DrainAsked, HoldAsked
from scheduler.core.forecast import place_in_s
from scheduler.core.helpers import Helpers
from scheduler.core.landing import PULL, Landing
from scheduler.core.meter import outcome_of
from scheduler.core.outside import Outside, request_of
from scheduler.core.refusal import (
    Refusal,
    draining,
    expired,
    missing_of,
    no_device,
    queue_full,
    unable,
    unknown,
    wrong_type,
)
from scheduler.core.ticket import State, Ticket

_NAMED = frozenset({"embed", "rerank", "tokenize", PULL})  # ask a row by its name, never a policy
_ANY_TYPE = frozenset({"decide", "rerank", "tokenize"})  # whether a row has it, its engine says


class Admission:
    """Accepts, refuses and withdraws requests."""

    def __init__(
        self,
        box: Box,
        helpers: Helpers,
        calls: Calls,
        decisions: Decisions,
        dispatcher: Dispatcher,
        *,
        outside: Outside,
        landing: Landing,
    ) -> None:
        self._box = box
        self._helpers = helpers
        self._calls = calls
        self._decisions = decisions
        self._dispatcher = dispatcher
        self._outside = outside
        self._landing = landing

    def on_asked(self, event: Asked) -> None:
        """A client asks."""
        box = self._box
        if (event.client, event.rid) in box.requests:  # sent again: the broker seemed gone
            box.out.append(Acknowledge(event.client, event.rid))
            return
        row = self._row_of(event)
        lane = box.flow(event.lane)
        refusal = self._refusal_of(event, row, lane)
        if refusal is not None:
            self._decline(event, lane, refusal)
            return
        ticket = box.accept(event, lane)
        if event.op in OPS:
            self._calls.start(ticket)
        elif row is None:
            self._decisions.route(ticket)
        elif event.op == "decide":  # an explicit name takes no routing: there is nothing to decide
            box.out.append(Answer(event.client, event.rid, None, None, None, b""))
            box.end(ticket, event.at, "decided")
        elif event.op == PULL:
            self._landing.pull(ticket, row, event.at)
        else:
            self._landing.land(ticket, row, event.at)

    def _row_of(self, event: Asked) -> RowFacts | None:
        catalogue = self._box.catalogue
        if event.op in OPS:
            return None
        if event.op == PULL:  # a class stands for its row, and has a name that no row has
            return catalogue.row(catalogue.classes.get(event.name, event.name))
        return catalogue.row(event.name)

    def on_hold_asked(self, event: HoldAsked) -> None:
        """An outside lane asks for a device, or comes back after the broker's restart.

        1. It holds the device as this broker sees it: it gets a new lease.
        2. It waits already: it is told so.
        3. It has held the device under an earlier broker, of which this one knows nothing: it goes on if
           the device is free, else its lease is over.
        4. It is new: refused, or queued as any other ticket.
        """
        box = self._box
        if self._outside.resumes(event):
            return
        if (event.client, event.rid) in box.requests:
            box.out.append(Acknowledge(event.client, event.rid))
            return
        asked = request_of(event)
        device = self._outside.device_of(event.device)
        if event.lease and device is not None:
            self._outside.readmit(event, asked, device)
            return
        lane = box.flow(event.lane)
        if device is None:
            refusal: Refusal | None = no_device(
                event.device, [d.name for d in box.devices.values()]
            )
        elif event.expires_at <= event.at:
            refusal = expired()
        elif box.is_draining:
            refusal = draining()
        else:
            refusal = self._full(lane, device, event.at)
        if refusal is not None or device is None:
            self._decline(asked, lane, refusal or expired())
        else:
            self._outside.queue(event, box.accept(asked, lane), device)

    def _decline(self, asked: Asked, lane: str, refusal: Refusal) -> None:
        box = self._box
        box.count(f"refused_{refusal.code}")
        box.meter.ends.add(box.known_lane(lane), outcome_of(refusal.code, refusal.status))
        story = [(asked.at, "asked", asked.name), (asked.at, "refused", refusal.message)]
        box.refusals.keep(asked.rid, lane, story)
        box.out.append(refusal.effect(asked.client, asked.rid))

    def _refusal_of(self, event: Asked, row: RowFacts | None, lane: str) -> Refusal | None:
        box = self._box
        if event.expires_at <= event.at:
            return expired()
        if box.is_draining and event.for_ticket not in box.tickets:
            return draining()  # but what was accepted is decided as ever
        if event.op in OPS:
            pass
        elif row is None:
            if event.op in _NAMED or box.catalogue.default_of(event.name) is None:
                return unknown(event.name, box.catalogue)
        elif event.op == PULL:
            pass
        elif not _answers(row, event.op):
            return wrong_type(row.model, row.type)
        elif missing := missing_of(event, row):
            return unable(row.model, missing)
        device = box.devices[row.device] if row else next(iter(box.devices.values()))
        return self._full(lane, device, event.at)

    def _full(self, lane: str, device: Device, at: float) -> Refusal | None:
        """Return the 429 of a lane or box that has its fill of waiting tickets."""
        box, limits = self._box, self._box.limits
        total, waiting = box.waiting_total, box.waiting.get(lane, 0)
        if waiting < limits.queue_per_lane and total < limits.queue_total:
            return None
        own = lane if waiting >= limits.queue_per_lane else None
        wait_s = place_in_s(box, device, own, at)
        return queue_full(lane, waiting, total, wait_s, limits)

    def on_drain_asked(self, event: DrainAsked) -> None:
        """The box is to take no new work, or to take it again; what it has accepted goes on."""
        self._box.is_draining = event.on
        self._box.out.append(Probe(event.client))

    def on_cancelled(self, event: Cancelled) -> None:
        """A client no longer wants an answer."""
        ticket = self._box.requests.get((event.client, event.rid))
        if ticket is not None:
            self._withdraw(ticket, event.at)
            device = self._box.devices.get(ticket.device)
            if device is not None:
                self._dispatcher.pump(device, event.at)

    def on_client_lost(self, event: ClientLost) -> None:
        """A client is gone, and with it all it asked for, before anything else is granted."""
        mine = [t for (client, _), t in self._box.requests.items() if client == event.client]
        for ticket in sorted(mine, key=lambda t: t.state is State.RUNNING):
            self._withdraw(
                ticket, event.at
            )  # what ends frees its device: nothing of it may wait then
        for device in self._box.devices.values():
            self._dispatcher.pump(device, event.at)
        self._outside.client_lost(event.client)

    def _withdraw(self, ticket: Ticket, at: float) -> None:
        if ticket.state is State.DECIDING:
            self._helpers.leave(ticket, at)
        elif ticket.state is State.PULLING:
            self._landing.withdraw(ticket, at)
        elif ticket.hold is not None and ticket.state is State.RUNNING:
            self._outside.lose(ticket, at, "client_gone")
        else:
            self._dispatcher.withdraw(ticket, at)


def _answers(row: RowFacts, op: str) -> bool:
    """Return whether a row's type of model serves an endpoint."""
    return (row.type == "embedding") == (op == "embed") or op in _ANY_TYPE
