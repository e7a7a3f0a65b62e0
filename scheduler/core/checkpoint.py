"""The whole state of a box at rest: exact, so that whoever thaws it goes on as if nothing had been.

Rules of this file: no body of a request is in it. Each part of the core freezes itself beside its state
(`freeze` and `thaw` there); here they are only put together. A checkpoint shares lists and tickets with
the living box: it is to be encoded at once, not kept.
"""

from msgspec import Struct, structs

from policies.quarantine import Quarantine
from scheduler.core.binding import FrozenBindings
from scheduler.core.box import Box
from scheduler.core.catalogue import Catalogue
from scheduler.core.climate import FrozenClimate
from scheduler.core.cost import FrozenCosts
from scheduler.core.device import FrozenDevice
from scheduler.core.holds import Record
from scheduler.core.limits import Limits, Npu
from scheduler.core.proving import Proving
from scheduler.core.pulls import FrozenPulls
from scheduler.core.questions import FrozenQuestion
from scheduler.core.recent import FrozenRecent
from scheduler.core.residency import FrozenResidency
from scheduler.core.rests import Rest
from scheduler.core.senses import FrozenSenses
from scheduler.core.story import Past
from scheduler.core.ticket import WAITING, Ticket
from scheduler.core.worker import Worker


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A box at rest. Instants are those of the monotonic clock it ran on."""

    catalogue: Catalogue
    limits: Limits
    npu: Npu
    weights: dict[str, float]
    boot: int
    started_at: float
    supervisor: bytes
    is_draining: bool
    tick_at: float  # when the core looks at the clock next
    tickets: list[Ticket]  # oldest first, the bodies of their requests empty
    outside: list[int]  # those of outside lanes that hold a device
    found: list[int]  # those whose client still waits for them
    unheard: list[tuple[int, float]]  # (ticket, when it is due an ACK)
    lanes: list[str]
    numbers: int
    epochs: int
    counts: dict[str, int]
    workers: list[Worker]
    residency: FrozenResidency
    pulls: FrozenPulls
    rests: dict[str, Rest]
    devices: dict[str, FrozenDevice]  # kind -> device
    bindings: FrozenBindings
    questions: list[FrozenQuestion]
    is_overdue: bool
    costs: FrozenCosts
    stories: dict[str, Past]
    refusals: dict[str, Past]
    holds: list[Record]
    recent: FrozenRecent
    senses: FrozenSenses
    climate: FrozenClimate
    quarantine: Quarantine
    proving: Proving
    undecided: list[tuple[int, float]]  # (ticket, when on_busy is asked again)


def freeze(box: Box, tick_at: float) -> Checkpoint:
    """Return a box at rest."""
    return Checkpoint(
        catalogue=box.catalogue,
        limits=box.limits,
        npu=box.npu,
        weights=box.weights,
        boot=box.boot,
        started_at=box.started_at,
        supervisor=box.supervisor,
        is_draining=box.is_draining,
        tick_at=tick_at,
        tickets=[_bare(ticket) for ticket in box.tickets.values()],
        outside=list(box.outside),
        found=[ticket.number for ticket in box.requests.values()],
        unheard=list(box.unheard.items()),
        lanes=sorted(box.lanes),
        numbers=box.numbers,
        epochs=box.epochs,
        counts=box.counts,
        workers=box.roster.freeze(),
        residency=box.residency.freeze(),
        pulls=box.pulls.freeze(),
        rests=box.rests.rows,
        devices={kind: device.freeze() for kind, device in box.devices.items()},
        bindings=box.bindings.freeze(),
        questions=box.questions.freeze(),
        is_overdue=box.is_overdue,
        costs=box.costs.freeze(),
        stories=box.stories.freeze(),
        refusals=box.refusals.freeze(),
        holds=box.holds.freeze(),
        recent=box.recent.freeze(),
        senses=box.senses.freeze(),
        climate=box.climate.freeze(),
        quarantine=box.quarantine,
        proving=box.proving,
        undecided=list(box.undecided.items()),
    )


def thaw(frozen: Checkpoint) -> Box:
    """Return the box that was frozen.

    Raises:
        KeyError: It speaks of a ticket, worker or device that it does not hold.
    """
    box = Box(
        frozen.catalogue, frozen.limits, frozen.weights, frozen.boot, frozen.started_at,
        memory=frozen.residency.budget, npu=frozen.npu,
    )  # fmt: skip
    box.supervisor = frozen.supervisor
    box.is_draining = frozen.is_draining
    box.tickets = tickets = {ticket.number: ticket for ticket in frozen.tickets}
    box.outside = {number: tickets[number] for number in frozen.outside}
    for number in frozen.found:
        asked = tickets[number].asked
        box.requests[asked.client, asked.rid] = tickets[number]
    box.unheard.update(frozen.unheard)
    for ticket in tickets.values():
        if ticket.state in WAITING:
            box.waits(ticket, 1)
    box.lanes = set(frozen.lanes)
    box.numbers, box.epochs = frozen.numbers, frozen.epochs
    box.counts = dict(frozen.counts)
    box.roster.thaw(frozen.workers)
    box.residency.thaw(frozen.residency)
    box.pulls.thaw(frozen.pulls, tickets)
    box.rests.rows = dict(frozen.rests)
    for kind, device in frozen.devices.items():
        box.devices[kind].thaw(device, tickets, box.roster.by_route)
    box.bindings.thaw(frozen.bindings)
    box.questions.thaw(frozen.questions, tickets)
    box.is_overdue = frozen.is_overdue
    box.costs.thaw(frozen.costs)
    box.stories.thaw(frozen.stories)
    box.refusals.thaw(frozen.refusals)
    box.holds.thaw(frozen.holds)
    box.recent.thaw(frozen.recent)
    box.senses.thaw(frozen.senses)
    box.climate.thaw(frozen.climate)
    box.quarantine = frozen.quarantine
    box.proving = frozen.proving
    box.undecided = dict(frozen.undecided)
    return box


def _bare(ticket: Ticket) -> Ticket:
    return structs.replace(ticket, asked=structs.replace(ticket.asked, body=b""))
