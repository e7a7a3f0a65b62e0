"""When waiting tickets are expected to start, and when a full queue is expected to have a place again.

Rules of this file: pure; it changes nothing. Nothing known is None or the documented first guess of the
cost model, never zero.

The forecast serves the queue in its fair order with the estimates taken as true, the way the device does:
device-seconds are split among the active tickets, so a ticket that still needs r of them beside k - 1
others needs r x k seconds of the clock; a free seat is taken by the head at once if it wants the loaded
row, a head that wants another row waits until the device is empty, and one that is kept waiting for a
conversation waits for all of its think time. Who passes the head to save a reload is not foreseen:
`limits.collate_s` bounds what that can add.
"""

import heapq
from collections.abc import Iterator

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.ticket import State, Ticket

_OVERRUN = (
    1 / 8
)  # a ticket past its estimate is expected to need this part of what it had, once more


def had_s(device: Device, ticket: Ticket, at: float) -> float:
    """Return the device-seconds a running ticket has had so far."""
    accrued = (at - device.shared_at) / len(device.active)
    return device.share + accrued - ticket.share_at


def left_s(device: Device, ticket: Ticket, at: float) -> float:
    """Return the device-seconds a running ticket is expected to need still; of one that drains, 0."""
    if ticket.state is State.DRAINING:
        return 0.0
    had = had_s(device, ticket, at)
    return max(ticket.cost_s - had, had * _OVERRUN)


def ends_in_s(device: Device, ticket: Ticket, at: float) -> float:
    """Return the seconds of the clock after which a running ticket is expected to leave its seat.

    Those that are nearer their end leave first, and speed up who stays.
    """
    left = sorted(left_s(device, other, at) for other in device.active.values())
    mine = left_s(device, ticket, at)
    return sum(min(mine, one) for one in left)


def starts(box: Box, device: Device, at: float) -> Iterator[tuple[Ticket, float | None]]:
    """Yield the waiting tickets in grant order with the seconds until each starts.

    None: no worker serves it - a hold of an outside lane brings its own process and needs none - or it is
    too hot or the head waits for memory, and nobody knows how long that takes.
    """
    service = _Service(box, device, at)
    for ticket in device.order():
        unserved = device.worker is None and ticket.hold is None
        unserved = unserved or device.is_hot or device.is_short
        yield ticket, None if unserved else service.start(ticket)


def place_in_s(box: Box, device: Device, lane: str | None, at: float) -> float:
    """Return the seconds until a ticket leaves a queue and so makes a place, >= 0.

    The p-th ticket of the fair order leaves the queue at the p-th ending of a seat. Where endings were
    measured, that takes p / seats times what a ticket held its seat of late, but never less than the
    running ticket nearest its end still needs. Where none were, the forecast answers.

    Args:
        box: The box.
        device: Where the refused request would have waited.
        lane: The lane whose own bound was hit; None: the bound of all.
        at: Now.
    """
    crowded = [d for d in box.devices.values() if _has_waiting(d, lane)]
    return min(_leaves_in_s(box, d, lane, at) for d in crowded or [device])


def starts_in_s(box: Box, device: Device, ticket: Ticket | None, at: float) -> float:
    """Return the seconds until a ticket starts that waits, or one that would come now, by the forecast."""
    service = _Service(box, device, at)
    for other in device.order():
        wait_s = service.start(other)
        if other is ticket:
            return wait_s
    return service.wait_for()


class _Service:
    """A device as it will serve, told of one ticket after the other in grant order."""

    __slots__ = ("_box", "_device", "_ends", "_loaded", "_seats", "_share", "_wait_s")

    def __init__(self, box: Box, device: Device, at: float) -> None:
        self._box = box
        self._device = device
        self._seats = max(1, device.seats())
        self._loaded = device.loaded
        self._share = 0.0  # device-seconds each active ticket has been given since now
        self._wait_s = 0.0  # seconds of the clock since now
        # the shares at which the active tickets end; sorted, so a heap
        self._ends = sorted(left_s(device, ticket, at) for ticket in device.active.values())
        if device.is_thinking and not self._ends:
            self._wait_s = max(0.0, device.wake_at - at)

    def start(self, ticket: Ticket) -> float:
        """Return the seconds until the next ticket starts."""
        wait_s = self.wait_for(ticket.model)
        cost_s = self._cost_s(ticket)
        if ticket.model != self._loaded:
            self._loaded, self._seats = ticket.model, self._seats_of(ticket.model)
        heapq.heappush(self._ends, self._share + cost_s)
        return wait_s

    def wait_for(self, model: str | None = None) -> float:
        """Return the seconds until a seat of a row is free, by default of the loaded one."""
        ends = self._ends
        other = model is not None and model != self._loaded
        while ends and (other or len(ends) >= self._seats):
            end = heapq.heappop(ends)
            self._wait_s += (end - self._share) * (len(ends) + 1)
            self._share = end
        return self._wait_s

    def _cost_s(self, ticket: Ticket) -> float:
        """Return what a ticket will be expected to cost when it starts: with whom, and with a load or not."""
        device, costs, model = self._device, self._box.costs, ticket.model
        row = self._box.catalogue.rows.get(model)
        if ticket.hold is not None or row is None:
            return ticket.cost_s
        held = device.slots.tokens(model, ticket.asked.conversation) if device.slots.per_row else 0
        where = (model, device.name, len(self._ends) + 1)
        guess_s = costs.guess_s(ticket.asked, row.max_tokens, where, held)
        resident = device.worker.resident if device.worker else ()
        loads = model != self._loaded and model not in resident
        return guess_s + costs.load_s(model) if loads else guess_s

    def _seats_of(self, model: str) -> int:
        worker, row = self._device.worker, self._box.catalogue.rows.get(model)
        if worker is None or row is None:
            return 1
        return min(worker.seats, row.slots) if worker.by_row else worker.seats


def _has_waiting(device: Device, lane: str | None) -> bool:
    if lane is None:
        return device.depth > 0
    peeked = device.peeked is not None and device.peeked.lane == lane
    return peeked or device.queue.waiting_of(lane) > 0


def _leaves_in_s(box: Box, device: Device, lane: str | None, at: float) -> float:
    """Return when the first waiting ticket of a lane, or of all, leaves a device's queue.

    A lane of which nothing stands there waits for decisions, whose tickets will stand at the end.
    """
    service, position = _Service(box, device, at), 0
    cost_s = start_s = 0.0
    for ticket in device.order():
        position += 1
        start_s = service.start(ticket)
        if lane is None or ticket.lane == lane:
            cost_s = ticket.cost_s
            break
    else:
        position += 1
        start_s = service.wait_for()
    if device.worker is None:
        return start_s + cost_s  # who will serve it has yet to come: its time at least
    per_seat_s = device.drain.per_seat_s(at)
    if per_seat_s is None:
        return start_s
    first_s = min((ends_in_s(device, ticket, at) for ticket in device.active.values()), default=0.0)
    return max(position * per_seat_s / device.seats(), first_s)
