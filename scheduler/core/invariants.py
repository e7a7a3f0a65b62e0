"""What must hold after every event. A broken one is a bug of ours, and its message says which."""

from collections.abc import Callable, Iterator

from scheduler.core.box import Box
from scheduler.core.pulls import READY
from scheduler.core.ticket import WAITING, State
from scheduler.errors import InvariantBroken


def check(box: Box) -> None:
    """Check all of them.

    Raises:
        InvariantBroken: The first fault found.
    """
    for rule in RULES:
        for fault in rule(box):
            raise InvariantBroken(f"{(rule.__doc__ or '').strip()} {fault}")


def _one_place(box: Box) -> Iterator[str]:
    """Invariant: a ticket is in exactly one place, the one its state names."""
    for number, ticket in box.tickets.items():
        places = {
            State.DECIDING: sum(ticket in q.tickets for q in box.questions.open()),
            State.PULLING: sum(one is ticket for one in box.pulls.waiting.values()),
            State.QUEUED: sum(ticket in d.waiting() for d in box.devices.values()),
            State.RUNNING: sum(number in d.active for d in box.devices.values()),
        }
        state = State.RUNNING if ticket.state is State.DRAINING else ticket.state
        if places.get(state) != 1 or sum(places.values()) != 1:
            yield f"ticket {number} is {ticket.state} and stands in {places}"


def _known(box: Box) -> Iterator[str]:
    """Invariant: what stands in a queue or on a seat is a live ticket."""
    for device in box.devices.values():
        for ticket in [*device.waiting(), *device.active.values()]:
            if box.tickets.get(ticket.number) is not ticket:
                yield f"{device.name} holds the dead ticket {ticket.number}"


def _seats(box: Box) -> Iterator[str]:
    """Invariant: seats in use are no more than the worker has, and all for the loaded row."""
    for device in box.devices.values():
        seats = device.worker.seats if device.worker else 0
        if any(ticket.hold for ticket in device.active.values()):
            seats = 1  # whoever holds a device from outside holds it alone
        if len(device.active) > seats:
            yield f"{device.name} has {len(device.active)} tickets on {seats} seats"
        if {t.model for t in device.active.values()} - {device.loaded}:
            yield f"{device.name} runs a row that is not loaded"


def _leases(box: Box) -> Iterator[str]:
    """Invariant: every seat is held under a lease of a live worker that knows of it."""
    for device in box.devices.values():
        for number, ticket in device.active.items():
            if ticket.hold is not None:
                if not ticket.lease or box.outside.get(number) is not ticket:
                    yield f"hold {number} on {device.name}"
                continue
            worker = box.roster.by_route.get(ticket.worker)
            if not ticket.lease or worker is None or number not in worker.held:
                yield f"ticket {number} on {device.name}"


def _work_conserving(box: Box) -> Iterator[str]:
    """Invariant: no seat is free while a ticket that could take it waits."""
    for device in box.devices.values():
        if device.is_thinking or device.is_short or device.is_hot:
            continue  # the head waits for a turn, for memory, or for the heat to pass
        waits_for_row = device.peeked is not None and bool(device.active)
        worker = device.worker
        free = device.seats() - len(device.active) if worker and not worker.leaving_at else 0
        if free > 0 and device.depth and not waits_for_row:
            yield f"{device.name}: {device.depth} wait beside a free seat"
        first = next(iter(device.waiting()), None)
        is_idle = not device.active and device.ending is None
        if is_idle and first is not None and first.hold is not None:
            yield f"{device.name}: a hold waits for an idle device"


def _ending(box: Box) -> Iterator[str]:
    """Invariant: while a lost worker is being ended, its device is no other worker's."""
    for device in box.devices.values():
        serves = device.worker is not None or any(not t.hold for t in device.active.values())
        if device.ending is not None and serves:
            yield f"{device.name} is used while pid {device.ending.pid} is being ended"


def _counted(box: Box) -> Iterator[str]:
    """Invariant: the counts of waiting tickets are true."""
    waiting: dict[str, int] = {}
    for ticket in box.tickets.values():
        if ticket.state in WAITING:
            waiting[ticket.lane] = waiting.get(ticket.lane, 0) + 1
    kept = {lane: n for lane, n in box.waiting.items() if n}
    if waiting != kept or sum(waiting.values()) != box.waiting_total:
        yield f"{kept}, {box.waiting_total} in all, and really {waiting}"


def _pulls(box: Box) -> Iterator[str]:
    """Invariant: who waits for a pull waits for one that is under way, of a row that is not here yet."""
    for number, ticket in box.pulls.waiting.items():
        if ticket.model not in box.pulls.running or box.pulls.state(ticket.model) == READY:
            yield f"ticket {number} waits for {ticket.model}"
    for pull in box.pulls.running.values():
        if pull.store and pull.store not in box.roster.by_route:
            yield f"{pull.model} was asked of a store that is gone"
        if not pull.store and box.roster.of_kind("store"):
            yield f"{pull.model} was asked of nobody beside a store"


def _requests(box: Box) -> Iterator[str]:
    """Invariant: every ticket whose client still waits is found under its request, and no other."""
    waited = [t for t in box.tickets.values() if not t.is_canary]
    live = {t.number for t in waited if t.state is not State.DRAINING}
    found = {t.number for t in box.requests.values()}
    if live != found:
        yield f"{sorted(live ^ found)}"
    if not set(box.unheard) <= live:
        yield f"an ACK is due to {sorted(set(box.unheard) - live)}"


def _canary(box: Box) -> Iterator[str]:
    """Invariant: there is at most one canary, on the NPU, and nobody waits for its seat."""
    found = [t for t in box.tickets.values() if t.is_canary]
    if [t.number for t in found] != [n for n in [box.proving.ticket] if n]:
        yield f"{[t.number for t in found]}, and known is {box.proving.ticket}"
    for ticket in found:
        on = [d for d in box.devices.values() if ticket.number in d.active]
        if [d.kind for d in on] != ["npu"]:
            yield f"{ticket.number} is on {[d.name for d in on]}"
        elif on[0].depth and ticket.state is not State.DRAINING:
            yield f"{on[0].depth} wait for the seat of {ticket.number}"


RULES: tuple[Callable[[Box], Iterator[str]], ...] = (
    _one_place,
    _known,
    _seats,
    _leases,
    _work_conserving,
    _ending,
    _counted,
    _pulls,
    _requests,
    _canary,
)
