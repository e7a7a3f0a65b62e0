"""What all parts of the core share: the tickets, devices, workers and numbers of one box.

Rules of this file: it decides nothing; it keeps the books straight. `out` collects the effects of the
event in hand. Every ticket ends here, and only here.
"""

from collections import OrderedDict

from policies.canary import Canary
from policies.quarantine import Quarantine
from scheduler.core.binding import Bindings
from scheduler.core.catalogue import Catalogue
from scheduler.core.climate import Climate
from scheduler.core.cost import Costs
from scheduler.core.device import Device
from scheduler.core.effects import Effect, Ended, Expel, Kill
from scheduler.core.events import Asked, Finished
from scheduler.core.holds import Holds
from scheduler.core.limits import Limits, Npu
from scheduler.core.meter import ANSWERED, Meter, outcome_of
from scheduler.core.proving import Proving
from scheduler.core.pulls import Pulls
from scheduler.core.questions import Questions
from scheduler.core.recent import Recent
from scheduler.core.refusal import Refusal
from scheduler.core.residency import Residency, Terms
from scheduler.core.rests import Rests
from scheduler.core.senses import Senses
from scheduler.core.story import Stories
from scheduler.core.ticket import WAITING, State, Ticket
from scheduler.core.worker import Roster, Worker

_EPOCHS_PER_BOOT = 2**32


class Box:
    """The state of one appliance."""

    def __init__(
        self,
        catalogue: Catalogue,
        limits: Limits,
        weights: dict[str, float],
        boot: int,
        at: float,
        *,
        memory: int | None,
        npu: Npu,
    ) -> None:
        """Start empty; arguments as of `Appliance`."""
        self.catalogue = catalogue
        self.limits = limits
        self.npu = npu
        self.weights = weights  # lane -> share; a lane that is not named weighs 1
        self.boot = boot
        self.started_at = at
        self.out: list[Effect] = []
        self.tickets: dict[int, Ticket] = {}
        self.requests: dict[tuple[bytes, str], Ticket] = {}  # (client, request id) -> its ticket
        self.unheard: OrderedDict[int, float] = OrderedDict()  # ticket -> when it is due an ACK
        self.outside: dict[int, Ticket] = {}  # those of outside lanes that hold a device, by number
        self.is_draining = False  # no new work is taken
        self.supervisor = b""  # its route; empty while none has named itself
        self.waiting: dict[str, int] = {}  # lane -> tickets deciding, pulling or queued
        self.waiting_total = 0
        kinds = sorted({row.device for row in catalogue.rows.values()})
        self.costs = Costs()
        self.residency = Residency(memory, self.costs.load_s)
        self.devices = {
            kind: Device(f"{kind}0", kind, weights, limits, self.residency, at=at) for kind in kinds
        }
        self.meter = Meter(kinds)
        self.pulls = Pulls(at)
        self.rests = Rests()
        self.roster = Roster()
        self.bindings = Bindings(limits)
        self.questions = Questions()
        self.is_overdue = False  # the last decision that was due did not come
        self.stories = Stories(limits.stories)
        self.refusals = Stories(
            limits.stories
        )  # of their own, so that a flood of 429 hides no story
        self.holds = Holds(2 * limits.stories)  # of the kept requests, and of those they waited for
        self.recent = Recent()
        self.senses = Senses()
        self.climate = Climate(catalogue.on_busy, limits)
        self.quarantine = Quarantine()  # of the NPU
        self.proving = Proving(Canary())
        self.undecided: dict[int, float] = {}  # ticket -> when on_busy is asked again
        self.counts: dict[str, int] = {}  # what happened how often since the start
        self.lanes = set(weights)  # those with a flow of their own
        self.numbers = 0  # of the ticket accepted last
        self.epochs = boot * _EPOCHS_PER_BOOT

    def accept(self, asked: Asked, lane: str) -> Ticket:
        """Open a ticket for a request of a flow."""
        self.lanes.add(lane)  # only who is accepted takes one of the names
        self.numbers = number = self.numbers + 1
        ticket = Ticket(number, asked, lane, [(asked.at, "asked", asked.name)])
        self.tickets[number] = ticket
        self.requests[asked.client, asked.rid] = ticket
        self.unheard[number] = asked.at + self.limits.ack_s
        self.waits(ticket, 1)
        return ticket

    def end(
        self,
        ticket: Ticket,
        at: float,
        outcome: str,
        finished: Finished | None = None,
        *,
        ran_s: float = 0.0,
        status: int = 0,
    ) -> None:
        """Close a ticket: its places in the books, its story, its one record."""
        if outcome == ANSWERED and finished is not None:
            self.meter.answered(ticket, finished, ran_s)
        else:
            self.meter.ended(ticket, at, outcome_of(outcome, status), finished)
        if ticket.state in WAITING:
            self.waits(ticket, -1)
        ticket.move(State.ENDED, at, outcome)
        number, asked = ticket.number, ticket.asked
        del self.tickets[number]
        if (
            self.requests.get((asked.client, asked.rid)) is ticket
        ):  # a withdrawn id may be in use again
            del self.requests[asked.client, asked.rid]
        self.unheard.pop(number, None)
        if self.undecided:
            self.undecided.pop(number, None)
        if ticket.hold is not None:
            self.outside.pop(number, None)
            self.residency.reserved.pop(number, None)
        self.stories.keep(asked.rid, ticket.lane, ticket.story)
        self.count(outcome)
        prompt = cached = output = 0
        if finished is not None:
            prompt, cached = finished.prompt_tokens, finished.cached_tokens
            output = finished.output_tokens
        bound = ticket.bound
        ended = Ended(
            asked.rid, ticket.lane, asked.op, ticket.model, ticket.device, ticket.rule,
            ticket.why, ticket.degraded, outcome, (ticket.granted_at or at) - asked.at, ran_s,
            prompt, cached, output, self.devices[ticket.device].name if ticket.lease else "",
            bound.class_ if bound is not None else "",
            bound.rule if bound is not None and bound.rule != ticket.rule else "",
            ticket.pull_s, ticket.load_s,
        )  # fmt: skip
        self.out.append(ended)
        self.recent.add(at, ended)

    def refuse(self, ticket: Ticket, at: float, refusal: Refusal, ran_s: float = 0.0) -> None:
        """End a ticket without its answer; whoever withdrew it is not told."""
        if ticket.state is not State.DRAINING:
            self.count(f"refused_{refusal.code}")
            asked = ticket.asked
            self.out.append(refusal.effect(asked.client, asked.rid, began=ticket.began))
        self.end(ticket, at, refusal.code, ran_s=ran_s, status=refusal.status)

    def terms(self, model: str) -> Terms:
        """Return on which terms a row stays loaded; one that the table does not know, on none."""
        row = self.catalogue.rows.get(model)
        if row is None:
            return Terms()
        return Terms(row.pinned, self.limits.idle_unload_s if row.ttl_s is None else row.ttl_s)

    def flow(self, lane: str) -> str:
        """Return the flow of a lane: its own for the first names, one for the rest and who has none."""
        if lane and (lane in self.lanes or len(self.lanes) < self.limits.lanes):
            return lane
        return "default"

    def known_lane(self, lane: str) -> str:
        """Return the flow under which a request is counted that was never accepted."""
        return lane if lane in self.lanes else "default"

    def waits(self, ticket: Ticket, by: int) -> None:
        """Count a ticket among the waiting, or no longer."""
        self.waiting_total += by
        self.waiting[ticket.lane] = self.waiting.get(ticket.lane, 0) + by

    def heard(self, ticket: Ticket) -> None:
        """Its client has heard of it: no ACK is due."""
        self.unheard.pop(ticket.number, None)

    def count(self, what: str) -> None:
        """Count something that happened."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def epoch(self) -> int:
        """Return a fencing number larger than any before, across restarts too."""
        self.epochs = epoch = self.epochs + 1
        return epoch

    def expel(self, route: bytes, reason: str) -> None:
        """Tell a worker that this life of it is over."""
        self.count("expelled")
        self.out.append(Expel(route, reason))

    def kill_holder(self, ticket: Ticket) -> None:
        """Have the process group of an outside holder end."""
        hold = ticket.hold
        if hold is not None:
            self.out.append(
                Kill(
                    self.supervisor, ticket.asked.rid, ticket.lease, hold.pid, hold.pgid,
                    hold.pid_started, self.limits.kill_s,
                )
            )  # fmt: skip

    def kill_worker(self, worker: Worker) -> None:
        """Have a worker end that answers nothing: at once, for it is deaf to anything milder."""
        self.out.append(
            Kill(self.supervisor, worker.name, 0, worker.pid, 0, worker.pid_started, 0.0)
        )

    def worker(self, route: bytes, epoch: int) -> Worker | None:
        """Return the worker of a message, or None (and tell it so) if that life of it is over."""
        worker = self.roster.by_route.get(route)
        if worker is None or worker.epoch != epoch:
            self.expel(route, "unknown to this broker")
            return None
        return worker

    def device_named(self, name: str) -> Device | None:
        """Return a device by its instance name, such as hrx0."""
        return next((d for d in self.devices.values() if d.name == name), None)
