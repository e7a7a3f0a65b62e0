"""Start-time fair queueing over measured device-seconds, one queue a device.

Rules of this file: pure; a flow is a lane; ties go to the ticket that came first.

Source: Goyal, Vin, Cheng, "Start-time Fair Queueing", 1997. A ticket of flow f gets the start tag
S = max(v, F_f) and, when it is granted, the finish tag F_f = S + cost / weight_f (its equations 4 and
5); v, the virtual time, is the start tag of the ticket last granted, so it needs no knowledge of the
device's rate and holds on an iGPU that throttles.

Two deviations, both because the cost of a generation is known only when it ends:
- The cost charged at the grant is an estimate; `settle` moves F_f by the difference to the truth, so an
  overrun is paid by the lane that caused it.
- The head's tag is taken again at each change of F_f, not frozen at arrival: only the head of a flow has a
  tag, and its flow stands in the heap under it. A flow that idled is lifted to v on its return, also
  when nothing waits and the device is busy, so no credit is banked. A flow that never idled is not
  lifted: with several seats v runs ahead of refunds that are still to come, and a lift would eat them.

Bound: between two backlogged lanes the served device-seconds over weight differ by at most one largest
ticket of each (theorem 1 of the paper, with seats > 1 the largest ticket of each held seat).
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from scheduler.core.ticket import Ticket

INTERACTIVE, BATCH = 0, 1


class Flow:
    """The waiting tickets of one lane, interactive before batch, each in order of arrival."""

    __slots__ = ("finish", "floor", "lane", "served_s", "version", "waiting", "weight")

    def __init__(self, lane: str, weight: float) -> None:
        self.lane = lane
        self.weight = weight  # > 0, unitless share
        self.finish = 0.0  # F_f, weighted device-seconds
        self.floor = 0.0  # v when it last came back from idling
        self.served_s = 0.0  # device-seconds charged so far
        self.version = 0  # a heap entry of an older version is stale
        self.waiting: tuple[OrderedDict[int, Ticket], OrderedDict[int, Ticket]] = (
            OrderedDict(),
            OrderedDict(),
        )

    def head(self) -> OrderedDict[int, Ticket] | None:
        """Return the line whose first ticket is next, or None."""
        return self.waiting[INTERACTIVE] or self.waiting[BATCH] or None

    def __len__(self) -> int:
        return len(self.waiting[INTERACTIVE]) + len(self.waiting[BATCH])


class FairQueue:
    """Who is next on one device. Pick, push and cancel are O(log lanes)."""

    def __init__(self, weights: dict[str, float]) -> None:
        self._weights = weights
        self._flows: dict[str, Flow] = {}
        self._heap: list[tuple[float, int, int, str]] = []  # (start tag, arrival, version, lane)
        self._arrivals = 0
        self._size = 0
        self.virtual = 0.0  # v; never falls

    def __len__(self) -> int:
        return self._size

    def waiting_of(self, lane: str) -> int:
        """Return how many tickets of a lane wait."""
        flow = self._flows.get(lane)
        return len(flow) if flow else 0

    def served_s(self) -> dict[str, float]:
        """Return device-seconds charged by lane."""
        return {lane: flow.served_s for lane, flow in sorted(self._flows.items())}

    def push(self, ticket: Ticket, *, front: bool = False) -> None:
        """Let a ticket wait; `front` puts one that was granted before at the head of its lane."""
        flow = self._flow(ticket.lane)
        was_idle = flow.head() is None
        line = flow.waiting[BATCH if ticket.asked.batch else INTERACTIVE]
        line[ticket.number] = ticket
        if front:
            line.move_to_end(ticket.number, last=False)
        self._size += 1
        if was_idle:
            flow.floor = self.virtual
            self._enter(flow)

    def pick(self) -> Ticket | None:
        """Take the next ticket and charge its estimate, or return None when nothing waits."""
        while self._heap:
            tag, _, version, lane = heapq.heappop(self._heap)
            flow = self._flows[lane]
            line = flow.head()
            if version != flow.version or line is None:
                continue
            ticket = line.popitem(last=False)[1]
            self._size -= 1
            self._charge(flow, ticket, tag)
            if flow.head() is not None:
                self._enter(flow)
            return ticket
        return None

    def pass_through(self, ticket: Ticket) -> None:
        """Charge a ticket that is granted at once: what `push` and `pick` do when nobody waits."""
        flow = self._flow(ticket.lane)
        flow.floor = self.virtual
        self._charge(flow, ticket, max(flow.floor, flow.finish))

    def cancel(self, ticket: Ticket) -> None:
        """Take a waiting ticket out; nothing was charged for it."""
        flow = self._flows[ticket.lane]
        for line in flow.waiting:
            if line.pop(ticket.number, None) is not None:
                self._size -= 1

    def settle(self, ticket: Ticket, actual_s: float) -> None:
        """Replace a granted ticket's estimate by the device-seconds it really held."""
        flow = self._flows[ticket.lane]
        owed = actual_s - ticket.cost_s
        flow.finish += owed / flow.weight
        flow.served_s += owed
        if flow.head() is not None:
            self._enter(flow)

    def order(self) -> Iterator[Ticket]:
        """Yield the waiting tickets in the order they would be granted now, estimates taken as true."""
        lines = {
            lane: [*flow.waiting[INTERACTIVE].values(), *flow.waiting[BATCH].values()]
            for lane, flow in self._flows.items()
        }
        heap = [entry for entry in self._heap if entry[2] == self._flows[entry[3]].version]
        heapq.heapify(heap)
        arrivals = self._arrivals
        at = dict.fromkeys(lines, 0)
        while heap:
            tag, _, version, lane = heapq.heappop(heap)
            if at[lane] >= len(lines[lane]):
                continue
            ticket = lines[lane][at[lane]]
            at[lane] += 1
            yield ticket
            after = tag + ticket.cost_s / self._flows[lane].weight
            arrivals += 1
            heapq.heappush(heap, (after, arrivals, version, lane))

    def waiting(self) -> list[Ticket]:
        """Return all waiting tickets, lane by lane."""
        return [
            ticket
            for flow in self._flows.values()
            for line in flow.waiting
            for ticket in line.values()
        ]

    def _flow(self, lane: str) -> Flow:
        flow = self._flows.get(lane)
        if flow is None:
            flow = self._flows[lane] = Flow(lane, self._weights.get(lane, 1.0))
        return flow

    def _charge(self, flow: Flow, ticket: Ticket, tag: float) -> None:
        ticket.start_tag = tag
        self.virtual = max(self.virtual, tag)
        flow.finish = tag + ticket.cost_s / flow.weight
        flow.served_s += ticket.cost_s

    def _enter(self, flow: Flow) -> None:
        flow.version += 1
        self._arrivals += 1
        start = max(flow.floor, flow.finish)
        heapq.heappush(self._heap, (start, self._arrivals, flow.version, flow.lane))
        if (
            len(self._heap) > 2 * len(self._flows) + 64
        ):  # stale entries: asked and cancelled, unpicked
            self._heap = [e for e in self._heap if e[2] == self._flows[e[3]].version]
            heapq.heapify(self._heap)
