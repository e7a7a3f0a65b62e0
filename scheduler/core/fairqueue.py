"""Start-time fair queueing over measured device-seconds, one queue a device: lanes, then conversations.

Rules of this file: pure. A flow is a lane (`sfq.py` cites the paper and the tags); inside a lane,
interactive tickets go before batch ones, and at one priority the lane's conversations are flows again
(`line.py`).

Two deviations from the paper, both because the cost of a generation is known only when it ends:
- The cost charged at the grant is an estimate; `settle` moves F_f by the difference to the truth, so an
  overrun is paid by the lane that caused it.
- The head's tag is taken again at each change of F_f, not frozen at arrival: only the head of a flow has a
  tag, and its flow stands in the heap under it. A flow that idled is lifted to v on its return, also
  when nothing waits and the device is busy, so no credit is banked. A flow that never idled is not
  lifted: with several seats v runs ahead of refunds that are still to come, and a lift would eat them.

Bound: between two backlogged lanes the served device-seconds over weight differ by at most one largest
ticket of each (theorem 1 of the paper, with seats > 1 the largest ticket of each held seat). What is
served out of turn to save a reload (`pull`) adds at most its cap, since it is charged and leaves v
alone: `Device` keeps the cap.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain

from msgspec import Struct

from scheduler.core.line import FrozenLine, Line
from scheduler.core.sfq import Flow, FrozenTags, StartTags
from scheduler.core.ticket import Ticket

INTERACTIVE, BATCH = 0, 1
_Row = tuple[str, int]  # model, priority


class FrozenLane(Struct, array_like=True):
    """A lane at rest; fields as of `Lane`, tickets by their numbers."""

    name: str
    served_s: float
    lines: list[FrozenLine]
    rows: list[tuple[str, int, list[int]]]


class FrozenQueue(Struct, array_like=True):
    """A queue at rest."""

    tags: FrozenTags  # of the lanes
    lanes: list[FrozenLane]


class Lane(Flow):
    """The waiting tickets of one lane."""

    __slots__ = ("lines", "name", "rows", "served_s")

    def __init__(self, name: str, weight: float) -> None:
        super().__init__(weight)
        self.name = name
        self.served_s = 0.0  # device-seconds charged so far
        self.lines = (Line(), Line())
        self.rows: dict[_Row, OrderedDict[int, Ticket]] = {}  # the same tickets, by arrival

    def __len__(self) -> int:
        return len(self.lines[INTERACTIVE]) + len(self.lines[BATCH])

    def freeze(self) -> FrozenLane:
        """Return all of it but its tags."""
        rows = [(model, priority, list(row)) for (model, priority), row in self.rows.items()]
        return FrozenLane(self.name, self.served_s, [line.freeze() for line in self.lines], rows)

    def thaw(self, frozen: FrozenLane, tickets: dict[int, Ticket]) -> None:
        """Become what was frozen; for an empty one."""
        self.served_s = frozen.served_s
        for line, one in zip(self.lines, frozen.lines, strict=True):
            line.thaw(one, tickets)
        for model, priority, numbers in frozen.rows:
            row = OrderedDict((number, tickets[number]) for number in numbers)
            self.rows[model, priority] = row

    def line_of(self, ticket: Ticket) -> Line:
        """Return the line of a ticket's priority."""
        return self.lines[BATCH if ticket.asked.batch else INTERACTIVE]

    def list(self, ticket: Ticket) -> None:
        """Write a ticket into the index of rows."""
        key = (ticket.model, BATCH if ticket.asked.batch else INTERACTIVE)
        line = self.rows.get(key)
        if line is None:
            line = self.rows[key] = OrderedDict()
        line[ticket.number] = ticket

    def unlist(self, ticket: Ticket) -> None:
        """Take a ticket out of the index of rows."""
        key = (ticket.model, BATCH if ticket.asked.batch else INTERACTIVE)
        line = self.rows[key]
        del line[ticket.number]
        if not line:
            del self.rows[key]

    def first_of(self, model: str) -> Ticket | None:
        """Return the first waiting ticket for a row, or None."""
        for priority in (INTERACTIVE, BATCH):
            line = self.rows.get((model, priority))
            if line:
                return next(iter(line.values()))
        return None


class FairQueue:
    """Who is next on one device. Pick, push and cancel are O(log waiting)."""

    def __init__(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self._lanes: dict[str, Lane] = {}
        self._tags: StartTags[Lane] = StartTags()
        self.size = 0  # tickets that wait; to be read only

    def __len__(self) -> int:
        return self.size

    @property
    def virtual(self) -> float:
        """Virtual time v, weighted device-seconds; never falls."""
        return self._tags.virtual

    def waiting_of(self, lane: str) -> int:
        """Return how many tickets of a lane wait."""
        known = self._lanes.get(lane)
        return len(known) if known else 0

    def waiting_lanes(self) -> list[str]:
        """Return the lanes with tickets that wait."""
        return [name for name, lane in self._lanes.items() if lane.rows]

    def lanes(self) -> list[str]:
        """Return all lanes that ever had a ticket here."""
        return list(self._lanes)

    def served_s(self) -> dict[str, float]:
        """Return device-seconds charged by lane."""
        return {name: lane.served_s for name, lane in sorted(self._lanes.items())}

    def push(self, ticket: Ticket, *, front: bool = False) -> None:
        """Let a ticket wait; `front` puts one that was granted before at the head of its lane."""
        lane = self._lane(ticket.lane)
        was_idle = not lane.rows
        lane.line_of(ticket).push(ticket, front=front)
        lane.list(ticket)
        self.size += 1
        if was_idle:
            self._tags.come(lane)

    def pick(self) -> Ticket | None:
        """Take the next ticket and charge its estimate, or return None when nothing waits."""
        lane = self._tags.take()
        if lane is None:
            return None
        ticket = (lane.lines[INTERACTIVE] or lane.lines[BATCH]).pop()
        lane.unlist(ticket)
        self.size -= 1
        ticket.start_tag = self._tags.charge(lane, ticket.cost_s)
        lane.served_s += ticket.cost_s
        if lane.rows:
            self._tags.enter(lane)
        return ticket

    def first_of(self, model: str) -> Ticket | None:
        """Return the waiting ticket for one row whose lane's turn comes first, or None: O(lanes)."""
        heads = [(lane.start, lane.name) for lane in self._lanes.values() if lane.first_of(model)]
        return self._lanes[min(heads)[1]].first_of(model) if heads else None

    def start_of(self, lane: str) -> float:
        """Return the tag at which a lane's next ticket would start."""
        return self._lanes[lane].start

    def pull(self, ticket: Ticket) -> None:
        """Take a waiting ticket out of turn and charge it.

        v stays where it is, so that nobody who comes back meanwhile is lifted past those passed over.
        """
        lane = self._lanes[ticket.lane]
        lane.line_of(ticket).pull(ticket)
        lane.unlist(ticket)
        self.size -= 1
        self._out_of_turn(lane, ticket)

    def pass_through(self, ticket: Ticket) -> None:
        """Charge a ticket that is granted at once: what `push` and `pick` do when nobody waits."""
        lane = self._lanes.get(ticket.lane) or self._lane(ticket.lane)
        lane.floor = self._tags.virtual
        lane.lines[BATCH if ticket.asked.batch else INTERACTIVE].pass_through(ticket)
        ticket.start_tag = self._tags.charge(lane, ticket.cost_s)
        lane.served_s += ticket.cost_s

    def pass_by(self, ticket: Ticket) -> None:
        """Charge a ticket that is granted at once, out of turn, past those that wait."""
        lane = self._lane(ticket.lane)
        if not lane.rows:
            lane.floor = self._tags.virtual
        lane.line_of(ticket).pull(ticket)
        self._out_of_turn(lane, ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Take a waiting ticket out; nothing was charged for it."""
        lane = self._lanes[ticket.lane]
        if lane.line_of(ticket).remove(ticket):
            lane.unlist(ticket)
            self.size -= 1
            if not lane.rows:
                self._tags.leave(lane)

    def settle(self, ticket: Ticket, actual_s: float) -> None:
        """Replace a granted ticket's estimate by the device-seconds it really held."""
        by_s = actual_s - ticket.cost_s
        lane = self._lanes[ticket.lane]
        lane.lines[BATCH if ticket.asked.batch else INTERACTIVE].correct(ticket, by_s)
        lane.finish += by_s / lane.weight
        lane.served_s += by_s
        if lane.entered:
            self._tags.enter(lane)

    def reprice(self, ticket: Ticket, cost_s: float) -> None:
        """Replace a picked ticket's estimate by a better one."""
        if cost_s != ticket.cost_s:
            self.settle(ticket, cost_s)
            ticket.cost_s = cost_s

    def charge(self, lane: str, seconds: float) -> None:
        """Charge a lane for device-seconds, or give them back."""
        known = self._lanes[lane]
        known.finish += seconds / known.weight
        known.served_s += seconds
        if known.entered:
            self._tags.enter(known)

    def order(self) -> Iterator[Ticket]:
        """Yield the waiting tickets in the order they would be granted now, estimates taken as true."""
        heap = self._tags.entries()
        lines = {lane.name: chain(*(line.order() for line in lane.lines)) for _, _, lane in heap}
        entries = max((entry for _, entry, _ in heap), default=0)
        while heap:
            tag, _, lane = heapq.heappop(heap)
            ticket = next(lines[lane.name], None)
            if ticket is not None:
                yield ticket
                entries += 1
                heapq.heappush(heap, (tag + ticket.cost_s / lane.weight, entries, lane))

    def waiting(self) -> list[Ticket]:
        """Return all waiting tickets, lane by lane."""
        return [
            ticket
            for lane in self._lanes.values()
            for row in lane.rows.values()
            for ticket in row.values()
        ]

    def freeze(self) -> FrozenQueue:
        """Return all of it."""
        lanes = self._lanes.values()
        return FrozenQueue(self._tags.freeze(lanes), [lane.freeze() for lane in lanes])

    def thaw(self, frozen: FrozenQueue, tickets: dict[int, Ticket]) -> None:
        """Become what was frozen; for an empty one."""
        for one in frozen.lanes:
            lane = self._lane(one.name)
            lane.thaw(one, tickets)
            self.size += len(lane)
        self._tags.thaw(frozen.tags, self._lanes.values())

    def inherit(self, old: "FairQueue") -> None:
        """Take over the accounts of an earlier start of the broker; whoever waited there asks again.

        Raises:
            ValueError: An account is no number; nobody would ever be next.
        """
        self._tags.virtual = old.virtual
        if not all(map(math.isfinite, [old.virtual, *(f.finish for f in old._lanes.values())])):  # noqa: SLF001
            raise ValueError("an account is no number")
        for name, before in old._lanes.items():  # noqa: SLF001  # of this class
            lane = self._lane(name)
            lane.finish, lane.floor, lane.served_s = before.finish, before.floor, before.served_s
            for line, earlier in zip(lane.lines, before.lines, strict=True):
                line.inherit(earlier)

    def _lane(self, name: str) -> Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._weights.get(name, 1.0))
        return lane

    def _out_of_turn(self, lane: Lane, ticket: Ticket) -> None:
        ticket.start_tag = lane.start
        lane.finish = ticket.start_tag + ticket.cost_s / lane.weight
        lane.served_s += ticket.cost_s
        if lane.rows:
            self._tags.enter(lane)
        else:
            self._tags.leave(lane)
