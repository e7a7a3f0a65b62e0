"""Outside lanes: programs beside the workers hold a device by the same tickets, for as long as their lease.

A hold takes its turn in the device's fair queue and then has the device alone. Its lease is good while
the holder renews it, and no longer than `max_hold_s`. A lease that ends without a release frees nothing
yet: the ticket drains until all of the holder's process group has ended, so at no instant do two
programs, or a program and a worker, hold one device.

Fencing works in both directions. Who speaks under a lease that is over changes nothing, is counted and
told so; and a lease of an earlier start of the broker is answered with that start's number, so that its
holder says again what it holds before it gives up.
"""

from math import inf
from typing import Any

import msgspec

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.dispatch import Dispatcher
from scheduler.core.effects import Answer, Fact, Grant, Probe, Record, Revoke, Warn
from scheduler.core.events import (
    Asked,
    HoldAsked,
    HoldKept,
    ProcessEnded,
    Released,
    Renewed,
    Supervised,
)
from scheduler.core.ticket import Hold, State, Ticket

_DEFAULT_KIND = "hrx"
_BOOT_BITS = 32


class Outside:
    """Grants whole devices to programs of outside lanes, and takes them back."""

    def __init__(self, box: Box, dispatcher: Dispatcher) -> None:
        self._box = box
        self._dispatcher = dispatcher

    # --- asking -------------------------------------------------------------------------------------

    def device_of(self, name: str) -> Device | None:
        """Return the device an instance or a kind means; an empty name means the iGPU, else the first."""
        devices = self._box.devices
        if name == "":
            return devices.get(_DEFAULT_KIND) or next(iter(devices.values()), None)
        return self._box.device_named(name) or devices.get(name)

    def queue(self, event: HoldAsked, ticket: Ticket, device: Device) -> None:
        """Let a hold wait for its device. Its charge at the grant is all the time it may take."""
        self._prepare(ticket, _hold_of(event, self._box), device, event.at)
        refusal = self._dispatcher.never(ticket, device)
        if refusal is not None:
            self._box.refuse(ticket, event.at, refusal)
            return
        device.queue.push(ticket)
        self._dispatcher.pump(device, event.at)

    def _prepare(self, ticket: Ticket, hold: Hold, device: Device, at: float) -> None:
        ticket.hold, ticket.device, ticket.queued_at = hold, device.kind, at
        ticket.model = f"hold:{ticket.number}"  # a row of its own, so that nobody joins it
        ticket.cost_s = hold.max_hold_s
        ticket.move(State.QUEUED, at, device.name)

    # --- after a restart of the broker --------------------------------------------------------------

    def on_hold_kept(self, event: HoldKept) -> None:
        """A hold of the time before the restart goes on until its holder comes, or its lease ends.

        Also on a device whose worker is waited for: that one was idle beside the holder.
        """
        box = self._box
        device = self.device_of(event.device)
        if device is None or device.active:
            return
        ticket = box.accept(_request(event, b"", inf), box.flow(event.lane))
        hold = Hold(
            event.max_hold_s, event.memory_bytes, event.pid, event.pgid, event.pid_started,
            event.what,
        )  # fmt: skip
        self._take(ticket, hold, device, event.at)
        ticket.lease = event.lease
        ticket.granted_at = event.at - event.held_s
        hold.ends_at -= event.held_s
        hold.warn_at = max(event.at, hold.warn_at - event.held_s)
        hold.lease_ends_at = event.at + box.limits.lease_s
        box.out.clear()  # nobody is there yet who could be told

    def _take(self, ticket: Ticket, hold: Hold, device: Device, at: float) -> None:
        """Give a free device to a hold without its turn in the queue; it is charged like any other."""
        self._prepare(ticket, hold, device, at)
        self._box.residency.reserved[ticket.number] = hold.memory_bytes
        device.queue.pass_through(ticket)
        self._dispatcher.grant(ticket, device, at)

    def resumes(self, event: HoldAsked) -> bool:
        """Give a holder that comes back a new lease; False if it holds nothing that is known here."""
        box = self._box
        for ticket in box.outside.values():
            hold, asked = ticket.hold, ticket.asked
            same = hold is not None and (hold.pid, hold.pid_started) == (
                event.pid,
                event.pid_started,
            )
            if hold is None or asked.rid != event.rid or not same:
                continue
            if box.requests.get((event.client, event.rid), ticket) is not ticket:
                continue  # its client uses the name for another request
            if not event.lease and ticket.state is not State.RUNNING:
                continue  # it asks anew, under the name of a hold that is being ended
            if ticket.state is State.RUNNING:
                if asked.client != event.client:
                    box.requests.pop((asked.client, asked.rid), None)
                    ticket.asked = msgspec.structs.replace(asked, client=event.client)
                    box.requests[event.client, event.rid] = ticket
                    ticket.lease = box.epoch()
                    ticket.tell(event.at, "announced again")
                    hold.warn_at = max(event.at, hold.ends_at - box.limits.hold_warn_s)
                self._renew(ticket, hold, event.at)
            else:
                box.out.append(Revoke(event.client, event.rid, ticket.lease, hold.outcome))
            return True
        return False

    def readmit(self, event: HoldAsked, asked: Asked, device: Device) -> None:
        """Let a holder from before the restart go on if nobody else has its device, else end its lease."""
        box = self._box
        if device.active or device.ending is not None:
            box.count("fenced")
            reason = f"{device.name} was granted to another before this holder came back"
            box.out.append(Revoke(event.client, event.rid, event.lease, reason))
            return
        ticket = box.accept(asked, box.flow(event.lane))
        self._take(ticket, _hold_of(event, box), device, event.at)

    # --- the lease ----------------------------------------------------------------------------------

    def on_renewed(self, event: Renewed) -> None:
        """A holder lives. The first renewal is its acknowledgement of the grant."""
        ticket = self._holder(event.rid, event.lease)
        hold = ticket.hold if ticket is not None else None
        if (
            ticket is None
            or hold is None
            or ticket.state is not State.RUNNING
            or ticket.asked.client != event.client
        ):
            self._fence(event)
            return
        self._renew(ticket, hold, event.at)

    def _renew(self, ticket: Ticket, hold: Hold, at: float) -> None:
        box, limits, asked = self._box, self._box.limits, ticket.asked
        if not hold.acked:
            hold.acked = True
            ticket.tell(at, "acknowledged", hold.what)
            self._record("hold_began", ticket, hold)
        hold.lease_ends_at = at + limits.lease_s
        box.out.append(
            Grant(
                asked.client, asked.rid, ticket.lease, limits.lease_s, hold.max_hold_s,
                limits.kill_s,
            )
        )  # fmt: skip

    def on_released(self, event: Released) -> None:
        """A holder gives its device back, or somebody else takes it from the holder.

        1. The holder itself: its group has ended, the device is free.
        2. Another client, such as `fairlane gpu release`: the holder is told, and its group ended.
        3. A lease that is over: nothing.
        """
        box = self._box
        ticket = self._holder(event.rid, event.lease)
        hold = ticket.hold if ticket is not None else None
        if ticket is None or hold is None:
            self._fence(event)
            return
        box.out.append(Answer(event.client, event.rid, None, None, None, b""))
        if ticket.asked.client == event.client:
            self._end(ticket, event.at, hold.outcome or "released")
        elif ticket.state is State.RUNNING and hold.pgid:
            self.lose(ticket, event.at, "released_by_another")
        elif (
            ticket.state is State.RUNNING
        ):  # nothing has to end for it: this is a release like any other
            box.out.append(
                Revoke(ticket.asked.client, ticket.asked.rid, ticket.lease, "released_by_another")
            )
            self._end(ticket, event.at, "released")

    def _fence(self, event: Renewed | Released) -> None:
        box = self._box
        box.count("fenced")
        if isinstance(event, Renewed) and event.lease >> _BOOT_BITS < box.boot:
            box.out.append(Probe(event.client))  # it has not noticed the restart yet
            return
        box.out.append(Revoke(event.client, event.rid, event.lease, "this lease is over"))

    def _holder(self, rid: str, lease: int) -> Ticket | None:
        holds = self._box.outside.values()
        return next((t for t in holds if t.lease == lease and t.asked.rid == rid), None)

    # --- the end ------------------------------------------------------------------------------------

    def due_at(self) -> float:
        """Return when something must be done about a holder."""
        return min(
            t.hold.due_at(draining=t.state is State.DRAINING)
            for t in self._box.outside.values()
            if t.hold is not None
        )

    def look_over(self, at: float) -> None:
        """Warn and end the holders whose time has come."""
        box = self._box
        for ticket in list(box.outside.values()):
            hold, asked = ticket.hold, ticket.asked
            if hold is None or hold.due_at(draining=ticket.state is State.DRAINING) > at:
                continue
            if ticket.state is State.DRAINING:
                hold.kill_at = None
                box.kill_holder(ticket)
            elif hold.ends_at <= at:
                self.lose(ticket, at, "max_hold")
            elif hold.lease_ends_at <= at:
                self.lose(ticket, at, "lease_lost" if hold.acked else "unacknowledged")
            elif asked.client == b"":
                hold.warn_at = hold.lease_ends_at  # nobody has come who could be told
            else:
                hold.warn_at = 0.0
                ticket.tell(at, "warned")
                box.out.append(Warn(asked.client, asked.rid, ticket.lease, hold.ends_at - at))

    def lose(self, ticket: Ticket, at: float, reason: str) -> None:
        """End a lease without a release: the device is free when the holder's group has ended.

        A holder that still answers ends its group itself, with the same signals and the same grace; the
        supervisor stands in when that took too long, and at once for a holder that does not answer.
        """
        box, hold, asked = self._box, ticket.hold, ticket.asked
        if hold is None:
            return
        ticket.move(State.DRAINING, at, reason)
        box.requests.pop((asked.client, asked.rid), None)
        box.heard(ticket)
        box.count("holds_lost")
        hold.outcome = reason
        answers = reason in {"max_hold", "released_by_another"} and asked.client != b""
        if reason != "client_gone" and asked.client != b"":
            box.out.append(Revoke(asked.client, asked.rid, ticket.lease, reason))
        self._record("hold_lost", ticket, hold)
        if not hold.pgid:
            self._end(ticket, at, reason)
        elif answers:
            hold.kill_at = at + box.limits.kill_s + 1.0
        else:
            box.kill_holder(ticket)

    def group_ended(self, event: ProcessEnded) -> None:
        """All of a holder's process group has ended; only a lease that is over is ended by it.

        A holder that still has its lease says so itself, once it has taken the exit status.
        """
        for ticket in list(self._box.outside.values()):
            hold = ticket.hold
            same = hold is not None and (ticket.lease, hold.pid) == (event.lease, event.pid)
            if hold is not None and same and ticket.state is State.DRAINING:
                self._end(ticket, event.at, hold.outcome)

    def _end(self, ticket: Ticket, at: float, outcome: str) -> None:
        self._dispatcher.end_hold(ticket, at, outcome)

    # --- the supervisor -----------------------------------------------------------------------------

    def on_supervised(self, event: Supervised) -> None:
        """The supervisor is there: it is told again what must end."""
        self._box.supervisor = event.client
        self._kill_again()

    def client_lost(self, client: bytes) -> None:
        """If it was the supervisor, the broker's own process stands in."""
        if client == self._box.supervisor != b"":
            self._box.supervisor = b""
            self._kill_again()

    def _kill_again(self) -> None:
        box = self._box
        for device in box.devices.values():
            old = device.ending
            if old is not None and (old.route or old.beat_at == inf):  # not one that may come back
                box.kill_worker(old)
        for ticket in box.outside.values():
            if ticket.state is State.DRAINING and ticket.hold and ticket.hold.kill_at is None:
                box.kill_holder(ticket)

    def _record(self, action: str, ticket: Ticket, hold: Hold) -> None:
        facts: dict[str, Fact] = {
            "lane": ticket.lane,
            "device": self._box.devices[ticket.device].name,
            "what": hold.what,
            "pid": hold.pid,
        }
        if hold.outcome:
            facts["reason"] = hold.outcome
        self._box.out.append(Record(action, facts))


def request_of(event: HoldAsked) -> Asked:
    """Return a hold as the request its ticket is made of."""
    return _request(event, event.client, event.expires_at)


def _request(event: HoldAsked | HoldKept, client: bytes, expires_at: float) -> Asked:
    return Asked(
        at=event.at, client=client, rid=event.rid, op="hold", name=event.device, lane=event.lane,
        conversation=event.rid, starts=True, stream=True, batch=event.batch,
        expires_at=expires_at, prompt_bytes=0, max_tokens=None, tools=False, images=False,
        json_schema=False, body=b"",
    )  # fmt: skip


def _hold_of(event: HoldAsked, box: Box) -> Hold:
    limits = box.limits
    return Hold(
        max_hold_s=min(event.max_hold_s or limits.hold_s, limits.hold_longest_s),
        memory_bytes=event.memory_bytes,
        pid=event.pid,
        pgid=event.pgid,
        pid_started=event.pid_started,
        what=event.what,
    )


def outside_view(box: Box, at: float) -> dict[str, Any]:
    """Return holders and waiters of each device, workers' tickets among them."""
    return {
        device.name: {
            "holders": [_shown(t, at) for t in device.active.values()],
            "waiters": [_shown(t, at) for t in device.waiting()],
            "ending_pid": device.ending.pid if device.ending else None,
        }
        for device in box.devices.values()
    }


def _shown(ticket: Ticket, at: float) -> dict[str, Any]:
    hold, asked = ticket.hold, ticket.asked
    is_held = ticket.lease != 0
    left_s = hold.ends_at - at if hold is not None and is_held else None
    return {
        "id": asked.rid,
        "lane": ticket.lane,
        "state": ticket.state,
        "priority": "batch" if asked.batch else "interactive",
        "what": hold.what if hold is not None else ticket.model,
        "outside": hold is not None,
        "lease": ticket.lease or None,
        "pid": hold.pid if hold is not None else None,
        "memory_bytes": hold.memory_bytes if hold is not None else None,
        "held_s": round(at - ticket.granted_at, 3) if is_held else None,
        "waited_s": round((ticket.granted_at if is_held else at) - asked.at, 3),
        "max_hold_left_s": round(left_s, 3) if left_s is not None else None,
    }
