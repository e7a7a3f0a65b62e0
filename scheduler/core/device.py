"""One device: its fair queue, its seats, the row loaded on it and the prompts its engine keeps.

Seats belong to the loaded row. Tickets for it join while seats are free; a ticket for another row waits
until the device is empty, and while such a ticket is the fair head nobody joins past it.
A program of an outside lane holds its device alone: its ticket counts as one for a row of its own, that
no other ticket is for. It needs no worker, and nothing is passed over for it or because of it: neither is a
head whose worker is away. Most come back within two seconds, and a hold may last for hours; where none comes,
`limits.absent_s` ends the head's wait and so the hold's.
Device-seconds are wall seconds split among the tickets active at the time, so their sum never passes
the wall clock.

The fair head may be passed over for two reasons, together for at most `limits.collate_s` of wall time, so
that its wait stays bounded:
- collation: its row would have to be loaded, and a ticket for the loaded row fits into what is left. A
  lane is preferred like this only while it is at most half of `limits.collate_s` ahead of the head, weighted:
  each head has that patience anew, and lanes that alternate their rows would have no bound together.
  A ticket of the head's own lane takes the lane's turn instead, and the head waits for the next one;
  it is passed over like this for at most `limits.collate_s` since the first time.
  So a lane leads v by at most that half and its largest ticket, and a pair of lanes differs by at most
  the largest ticket of each and `limits.collate_s`;
- think time: it would take the slot of a conversation that is likely to come back (`slots.py`). The device
  may idle meanwhile, and the conversation's lane pays for it.
"""

import math
from collections.abc import Iterator

from msgspec import Struct

from scheduler.core.drain import Drain
from scheduler.core.fairqueue import FairQueue, FrozenQueue
from scheduler.core.limits import Limits
from scheduler.core.residency import Residency
from scheduler.core.slots import FrozenSlots, Slots
from scheduler.core.spells import Spells
from scheduler.core.ticket import Ticket
from scheduler.core.worker import Worker


class FrozenDevice(Struct, kw_only=True):
    """A device at rest; fields as of `Device`, tickets by their numbers, the worker by its route."""

    queue: FrozenQueue
    slots: FrozenSlots
    drain: tuple[list[float], list[float]]
    worker: bytes
    absent_since: float
    ending: Worker | None
    active: list[int]
    loaded: str
    row_seats: int
    peeked: int | None
    passing_since: float
    wake_at: float
    thinking_lane: str
    thinking_since: float
    thinking_s: float
    share: float
    shared_at: float
    busy_s: float
    is_short: bool
    heat: tuple[float | None, list[tuple[float, float]]]


# What a device has that is written down as it is.
_PLAIN = (
    "absent_since", "ending", "loaded", "row_seats", "passing_since", "wake_at", "thinking_lane",
    "thinking_since", "thinking_s", "share", "shared_at", "busy_s", "is_short",
)  # fmt: skip


class Device:
    """One schedulable device instance, such as hrx0."""

    __slots__ = (
        "absent_since",
        "active",
        "busy_s",
        "drain",
        "ending",
        "heat",
        "is_short",
        "kind",
        "limits",
        "loaded",
        "name",
        "passing_since",
        "peeked",
        "queue",
        "residency",
        "row_seats",
        "share",
        "shared_at",
        "slots",
        "thinking_lane",
        "thinking_s",
        "thinking_since",
        "wake_at",
        "worker",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        weights: dict[str, float],
        limits: Limits,
        residency: Residency,
        *,
        at: float,
    ) -> None:
        self.name = name
        self.kind = kind
        self.limits = limits
        self.residency = residency  # of the whole box
        self.queue = FairQueue(weights)
        self.slots = Slots()
        self.worker: Worker | None = None
        self.absent_since = at  # since when it has had no worker
        self.ending: Worker | None = None  # its last, lost alive: nothing is granted before its end
        self.active: dict[int, Ticket] = {}
        self.loaded = ""  # row of the active tickets, or of the last ones
        self.row_seats = 1  # slots of that row
        self.peeked: Ticket | None = None  # picked as the fair head, and not granted yet
        self.passing_since = math.inf  # since when the head is passed over; inf: it is not
        self.wake_at = math.inf  # end of the think time that keeps the head waiting; inf: none does
        self.is_short = False  # the head waits for memory
        self.heat = Spells()  # in which it was too hot for new grants
        self.thinking_lane = ""
        self.thinking_since = 0.0
        self.thinking_s = 0.0  # wall seconds kept free for a conversation to come back
        self.share = 0.0  # device-seconds each active ticket has been given since the start of time
        self.shared_at = at
        self.busy_s = 0.0  # wall seconds with at least one ticket active
        self.drain = Drain()

    @property
    def depth(self) -> int:
        """Tickets that wait, the fair head that is passed over included."""
        return self.queue.size + (self.peeked is not None)

    @property
    def is_hot(self) -> bool:
        """Whether there is no new grant before it has cooled."""
        return self.heat.since is not None

    @property
    def is_thinking(self) -> bool:
        """Whether the head waits for a conversation to come back."""
        return self.wake_at < math.inf

    @property
    def row(self) -> str:
        """The row that its worker has loaded; beside an outside lane, which wants none, the one before."""
        holder = next(iter(self.active.values()), None)
        alone = holder.hold if holder is not None else None
        return self.loaded if alone is None else alone.loaded_before

    def take_worker(self, worker: Worker) -> None:
        """A worker serves the device from now on; nothing is loaded yet."""
        self.worker = worker
        holder = next(iter(self.active.values()), None)
        if holder is not None and holder.hold is not None:
            holder.hold.loaded_before = ""
        else:
            self.loaded = ""
        self.slots.clear()
        self.slots.per_row = worker.slots

    def seats(self) -> int:
        """Return how many tickets may be active on the row that is loaded."""
        worker = self.worker
        if worker is None:
            return 0
        return min(worker.seats, self.row_seats) if worker.by_row else worker.seats

    def is_ready(self, model: str) -> bool:
        """Return whether a row needs no load."""
        return self.residency.has(self.name, model)

    def accrue(self, at: float) -> None:
        """Give every active ticket its part of the time since the last call."""
        if self.active:
            elapsed = at - self.shared_at
            self.busy_s += elapsed
            self.share += elapsed / len(self.active)
        self.shared_at = at

    def is_open_for(self, ticket: Ticket, at: float, *, is_ready: bool) -> bool:
        """Return whether a new ticket may start at once: nobody waits, and a seat of its row is free."""
        worker = self.worker
        return (
            worker is not None
            and not worker.leaving_at
            and not self.is_hot
            and self.peeked is None
            and not self.queue.size
            and (not self.active or (ticket.model == self.loaded and self._has_seat()))
            and (is_ready or self._fits(ticket.model, at))
            and (not self.slots.per_row or self._hold_until(ticket, at)[0] <= at)
        )

    def of_others(self, lane: str) -> tuple[int, int]:
        """Return how many tickets of other lanes hold seats, and how many wait."""
        held = sum(ticket.lane != lane for ticket in self.active.values())
        mine = self.queue.waiting_of(lane)
        head = self.peeked is not None and self.peeked.lane != lane
        return held, self.queue.size - mine + head

    def is_awaiting(self, ticket: Ticket, at: float) -> bool:
        """Return whether a new ticket is of the conversation that the head is kept waiting for."""
        worker = self.worker
        return (
            self.wake_at > at
            and self.is_thinking
            and not self.is_hot
            and worker is not None
            and not worker.leaving_at
            and self.slots.tokens(ticket.model, ticket.asked.conversation) > 0
            and (not self.active or (ticket.model == self.loaded and self._has_seat()))
        )

    def next(self, at: float) -> Ticket | None:
        """Take the next ticket that may start now, or None."""
        if self.is_hot or self.ending is not None or (self.active and not self._has_seat()):
            return None
        serves = self.worker is not None and not self.worker.leaving_at
        if not serves and not any(ticket.hold for ticket in self.waiting()):
            return None
        head = self.peeked = self.peeked or self.queue.pick()
        if head is None:
            return None
        if head.hold is not None or not serves:
            return self._taken_whole(head, at)
        return self._granted(head, at)

    def _granted(self, head: Ticket, at: float) -> Ticket | None:
        """Return the head, or what goes before it, or None."""
        if head.model != self.loaded:
            if self.active and self.passing_since == math.inf and head.passed_at is None:
                return None  # nobody joins past it
            other = self._collated(head, at)
            if other is not None or self.active:
                return other
        if self._thinks(head, at) or not self._fits(head.model, at):
            return None
        self.drop_head(at)
        return head

    def _fits(self, model: str, at: float) -> bool:
        """Return whether a row is loaded or may be; what must leave other devices for it is told to."""
        self.is_short = not self.residency.clear_for(self.name, model, at)
        return not self.is_short

    def _taken_whole(self, head: Ticket, at: float) -> Ticket | None:
        """Return the head if it is an outside lane's and the device is idle."""
        if head.hold is None or self.active:
            return None
        self.is_short = not self.residency.reserve(head.number, head.hold.memory_bytes, at)
        if self.is_short:
            return None
        self.drop_head(at)
        return head

    def _collated(self, head: Ticket, at: float) -> Ticket | None:
        """Return a ticket for the loaded row that saves a load and fits into what the head may wait."""
        if self.is_ready(head.model) or not self.is_ready(self.loaded):
            return None
        other = self.queue.first_of(self.loaded)
        if other is None:
            return None
        if other.lane == head.lane:
            return self._swapped(head, other, at)
        if other.cost_s > self._patience(at):
            return None
        if self.queue.start_of(other.lane) - head.start_tag > self.limits.collate_s / 2:
            return None
        self.passing_since = min(self.passing_since, at)
        self.stop_thinking(at)
        head.tell(at, "passed over", other.lane)
        self.queue.pull(other)
        return other

    def _swapped(self, head: Ticket, other: Ticket, at: float) -> Ticket | None:
        """Return a ticket of the head's own lane that takes the lane's turn in its place.

        Beside the head's it would be a second turn at once, and what the head was charged is only a guess.
        """
        since = at if head.passed_at is None else head.passed_at
        if other.cost_s > self.limits.collate_s - (at - since):
            return None
        head.passed_at = since
        head.tell(at, "passed over", other.lane)
        self.put_back_head(at)
        self.queue.pull(other)
        return other

    def _thinks(self, head: Ticket, at: float) -> bool:
        """Return whether the head waits for a conversation whose slot it would take."""
        if not self.slots.per_row:
            return False
        until, lane = self._hold_until(head, at)
        until = min(until, at + self._patience(at))
        if until <= at:
            return False
        if not self.is_thinking:
            self.thinking_lane, self.thinking_since = lane, at
            head.tell(at, "kept waiting", lane)
        self.passing_since = min(self.passing_since, at)
        self.wake_at = until
        return True

    def _patience(self, at: float) -> float:
        """Return how much longer the head may be passed over, in seconds."""
        passed_s = at - self.passing_since if self.passing_since <= at else 0.0
        return self.limits.collate_s - passed_s

    def _hold_until(self, ticket: Ticket, at: float) -> tuple[float, str]:
        evicted = self.residency.evicts(self.name, ticket.model, at) or ()
        leaving = [model for device, model in evicted if device == self.name]
        return self.slots.hold_until(ticket.model, ticket.asked.conversation, leaving)

    def _has_seat(self) -> bool:
        worker = self.worker
        if worker is not None and not worker.by_row:
            return len(self.active) < worker.seats
        return len(self.active) < self.seats()

    def drop_head(self, at: float) -> None:
        """The fair head is the head no longer."""
        self.peeked = None
        self.is_short = False
        self.passing_since = math.inf
        self.stop_thinking(at)

    def stop_thinking(self, at: float) -> None:
        """The head is kept waiting for nobody any more; the lane it was for pays for the pause."""
        if self.is_thinking:
            idle_s = max(0.0, at - self.thinking_since)
            self.queue.charge(self.thinking_lane, idle_s)
            self.thinking_s += idle_s
            self.wake_at = math.inf

    def pass_by(self, ticket: Ticket, at: float) -> None:
        """The conversation that was waited for came back: charge its ticket."""
        self.stop_thinking(at)
        self.queue.pass_by(ticket)

    def withdraw(self, ticket: Ticket, at: float) -> None:
        """Take a waiting ticket out; a picked one gives its charge back."""
        if self.peeked is ticket:
            self.drop_head(at)
            self.queue.settle(ticket, 0.0)
        else:
            self.queue.cancel(ticket)

    def put_back(self, ticket: Ticket, at: float) -> None:
        """Let a ticket wait that had been granted: before all others of its lane."""
        self.put_back_head(at)  # which now stands behind this one
        self.queue.push(ticket, front=True)

    def put_back_head(self, at: float) -> None:
        """Let the fair head, if one was picked, wait in front of its lane again, its charge given back."""
        head = self.peeked
        if head is not None:
            self.drop_head(at)
            self.queue.settle(head, 0.0)
            self.queue.push(head, front=True)

    def order(self) -> Iterator[Ticket]:
        """Yield the waiting tickets in the order they would start now; nothing may change meanwhile."""
        if self.peeked is not None:
            yield self.peeked
        yield from self.queue.order()

    def waiting(self) -> list[Ticket]:
        """Return the waiting tickets in the order they would start now."""
        return list(self.order())

    def freeze(self) -> FrozenDevice:
        """Return all of it."""
        return FrozenDevice(
            queue=self.queue.freeze(),
            slots=self.slots.freeze(),
            drain=self.drain.freeze(),
            heat=self.heat.freeze(),
            worker=self.worker.route if self.worker else b"",
            active=list(self.active),
            peeked=self.peeked.number if self.peeked else None,
            **{name: getattr(self, name) for name in _PLAIN},
        )

    def thaw(
        self, frozen: FrozenDevice, tickets: dict[int, Ticket], workers: dict[bytes, Worker]
    ) -> None:
        """Become what was frozen; for a new one."""
        self.queue.thaw(frozen.queue, tickets)
        self.slots.thaw(frozen.slots)
        self.drain.thaw(frozen.drain)
        self.heat.thaw(frozen.heat)
        self.worker = workers[frozen.worker] if frozen.worker else None
        self.active = {number: tickets[number] for number in frozen.active}
        self.peeked = None if frozen.peeked is None else tickets[frozen.peeked]
        for name in _PLAIN:
            setattr(self, name, getattr(frozen, name))

    def inherit(self, old: "Device", shift_s: float) -> None:
        """Take over the accounts of an earlier start of the broker: what its lanes had, how long it took.

        Tickets in hand then are asked for again, so what they were charged is given back first.
        """
        for ticket in [*old.active.values(), *([old.peeked] if old.peeked else [])]:
            if not ticket.is_canary:
                old.queue.settle(ticket, 0.0)
        self.queue.inherit(old.queue)
        self.drain.inherit(old.drain, shift_s)
        self.heat.inherit(old.heat, self.shared_at, shift_s)
        self.busy_s, self.thinking_s = old.busy_s, old.thinking_s
