"""One device: its fair queue, its seats and the row loaded on it.

Seats belong to the loaded row. Tickets for it join while seats are free; a ticket for another row waits
until the device is empty, and while such a ticket is the fair head nobody joins past it.
Device-seconds are wall seconds split among the tickets active at the time, so their sum never passes
the wall clock.
"""

from scheduler.core.fairqueue import FairQueue
from scheduler.core.ticket import Ticket
from scheduler.core.worker import Worker


class Device:
    """One schedulable device instance, such as hrx0."""

    __slots__ = (
        "absent_since",
        "active",
        "busy_s",
        "drain_s",
        "kind",
        "loaded",
        "name",
        "peeked",
        "queue",
        "share",
        "shared_at",
        "worker",
    )

    def __init__(self, name: str, kind: str, weights: dict[str, float], at: float) -> None:
        self.name = name
        self.kind = kind
        self.queue = FairQueue(weights)
        self.worker: Worker | None = None
        self.absent_since = at  # since when it has had no worker
        self.active: dict[int, Ticket] = {}
        self.loaded = ""  # row of the active tickets, or of the last ones
        self.peeked: Ticket | None = None  # picked, but its row is not the loaded one
        self.share = 0.0  # device-seconds each active ticket has been given since the start of time
        self.shared_at = at
        self.busy_s = 0.0  # wall seconds with at least one ticket active
        self.drain_s = 0.0  # learned seconds a ticket holds its seat; 0 = unknown

    @property
    def depth(self) -> int:
        """Tickets that wait, the one that waits for another row to leave included."""
        return len(self.queue) + (self.peeked is not None)

    def accrue(self, at: float) -> None:
        """Give every active ticket its part of the time since the last call."""
        if self.active:
            elapsed = at - self.shared_at
            self.busy_s += elapsed
            self.share += elapsed / len(self.active)
        self.shared_at = at

    def learn_drain(self, held_s: float) -> None:
        """Take in how long a ticket held its seat; gain 1/8 as in cost.py."""
        if self.drain_s:
            self.drain_s += (held_s - self.drain_s) / 8
        else:
            self.drain_s = held_s

    def drain_after_s(self, places: int) -> float:
        """Return the seconds until so many places of the queue are served; 0 while nothing is known."""
        seats = self.worker.seats if self.worker else 1
        return self.drain_s * places / seats

    def is_open_for(self, ticket: Ticket) -> bool:
        """Return whether a new ticket may start at once: nobody waits, and a seat of its row is free."""
        worker = self.worker
        return (
            worker is not None
            and not worker.leaving_at
            and self.peeked is None
            and len(self.queue) == 0
            and len(self.active) < worker.seats
            and (not self.active or ticket.model == self.loaded)
        )

    def next(self) -> Ticket | None:
        """Take the next ticket that may start now, or None."""
        worker = self.worker
        if worker is None or worker.leaving_at or len(self.active) >= worker.seats:
            return None
        ticket = self.peeked or self.queue.pick()
        if ticket is None:
            return None
        if self.active and ticket.model != self.loaded:
            self.peeked = ticket
            return None
        self.peeked = None
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take a waiting ticket out; a picked one gives its charge back."""
        if self.peeked is ticket:
            self.peeked = None
            self.queue.settle(ticket, 0.0)
        else:
            self.queue.cancel(ticket)

    def put_back(self, ticket: Ticket) -> None:
        """Let a ticket wait that had been granted: before all others of its lane."""
        if (
            self.peeked is not None
        ):  # it stood at the head of the queue; now it stands behind this one
            self.queue.settle(self.peeked, 0.0)
            self.queue.push(self.peeked, front=True)
            self.peeked = None
        self.queue.push(ticket, front=True)

    def waiting(self) -> list[Ticket]:
        """Return the waiting tickets in the order they would start now."""
        return ([self.peeked] if self.peeked else []) + list(self.queue.order())
