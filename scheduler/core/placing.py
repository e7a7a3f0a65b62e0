"""On which device a conversation starts: on_busy, and what becomes of it when the NPU is lost.

A class may name a row on the NPU for the time the GPU is busy or hot. The rule itself is
`policies/on_busy.py`; here it is asked, where a conversation is bound and nowhere else, and its answer is
kept with the binding. A turn that continues a conversation keeps the placement. It changes once at most: to
the GPU's queue when the NPU is lost - its worker died, left or stops, or its engine failed - whether the
request runs there or waits, `why: npu_quarantined` from then on. Only a crash quarantines the NPU.

With `wait_s` the ticket waits in the GPU's queue first, and its placement is final at the grant or at the
one move.
"""

from policies.on_busy import Asking, GpuView, NpuView, Placement, judge
from policies.row import OnBusy
from policies.why import Suppressed, Why
from scheduler.core.binding import Binding
from scheduler.core.box import Box
from scheduler.core.catalogue import RowFacts
from scheduler.core.device import Device
from scheduler.core.dispatch import NPU
from scheduler.core.forecast import starts_in_s
from scheduler.core.proving import versions_of
from scheduler.core.pulls import READY
from scheduler.core.refusal import missing_of
from scheduler.core.ticket import State, Ticket
from scheduler.core.usable import fault_of
from scheduler.core.worker import Worker


class Placer:
    """Asks the rule and keeps its answers."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def place(self, ticket: Ticket, binding: Binding, row: RowFacts, at: float) -> RowFacts:
        """Return the row a request is placed on, and write down why on its ticket and its binding."""
        box = self._box
        rule = box.catalogue.on_busy.get(binding.class_)
        if rule is None or row.model != binding.model:
            return row
        if not ticket.asked.starts:
            return self._kept(ticket, binding, rule, row, at)
        verdict = self._judge(ticket, rule, row, at, waited_s=0.0)
        return self._settle(ticket, binding, row, verdict, at)

    def again(self, ticket: Ticket, at: float) -> RowFacts | None:
        """Judge a ticket that has waited its time in the GPU's queue; return the row it moves to."""
        box, binding = self._box, ticket.bound
        ticket.judge_at = None
        row = box.catalogue.rows.get(ticket.model)
        rule = box.catalogue.on_busy.get(binding.class_) if binding is not None else None
        if binding is None or rule is None or row is None or ticket.state is not State.QUEUED:
            return None
        verdict = self._judge(ticket, rule, row, at, waited_s=at - ticket.queued_at)
        placed = self._settle(ticket, binding, row, verdict, at)
        return placed if placed is not row else None

    def lost(self, ticket: Ticket) -> RowFacts | None:
        """The NPU was lost under a ticket: return the row on the GPU that answers instead, once."""
        bound = ticket.bound
        if bound is None or not bound.moved or ticket.device != NPU:
            return None
        row = self._box.catalogue.rows.get(bound.model)
        if row is not None:
            bound.moved, bound.why = False, Why.NPU_QUARANTINED
            ticket.why = Why.NPU_QUARANTINED
            ticket.gpu_s = None  # the NPU gave no answer that could be compared
            self._box.count("npu_lost")
            self._box.meter.fallbacks.add(NPU, row.device, bound.why)
        return row

    def declined(self, ticket: Ticket, at: float) -> RowFacts | None:
        """The engine on the NPU has no such door: return the row on the GPU, as if the rule had known.

        A conversation that goes on keeps its placement, for the doors that the NPU has.
        """
        box, bound = self._box, ticket.bound
        if ticket.device != NPU:
            return None
        worker = box.devices[NPU].worker
        if worker is not None:
            worker.lacks.add((ticket.model, ticket.asked.op))
        box.quarantine.left(ticket.number)
        if bound is None or not bound.moved:
            return None
        row = box.catalogue.rows.get(bound.model)
        if row is None or missing_of(ticket.asked, row):
            return None
        if ticket.asked.starts:
            bound.moved, bound.why = False, ""
        self._stays(ticket, Suppressed.CAPABILITY, at)
        return row

    def _stays(self, ticket: Ticket, suppressed: Suppressed, at: float) -> None:
        """A request is not on the NPU after all."""
        ticket.why, ticket.gpu_s, ticket.moved_at = "", None, 0.0
        self._box.count(f"suppressed_{suppressed}")
        ticket.tell(at, "stays", suppressed)

    def _settle(
        self, ticket: Ticket, binding: Binding, row: RowFacts, verdict: Placement, at: float
    ) -> RowFacts:
        box = self._box
        if verdict.suppressed is not None:
            box.count(f"suppressed_{verdict.suppressed}")
            if verdict.suppressed is Suppressed.NPU_CANARY:
                box.proving.wanted = box.catalogue.on_busy[binding.class_].model
            ticket.tell(at, "stays", verdict.suppressed)
        if verdict.again_in_s is not None:
            ticket.judge_at = at + verdict.again_in_s
            box.undecided[ticket.number] = ticket.judge_at
        binding.moved, binding.why = verdict.move, verdict.why or ""
        if not verdict.move:
            ticket.gpu_s = None
            return row
        ticket.why, ticket.moved_at = binding.why, at
        box.count(f"moved_{binding.why}")
        box.meter.fallbacks.add(row.device, NPU, binding.why)
        box.quarantine.enter(at, ticket.number)
        return box.catalogue.rows[box.catalogue.on_busy[binding.class_].model]

    def _kept(
        self, ticket: Ticket, binding: Binding, rule: OnBusy, row: RowFacts, at: float
    ) -> RowFacts:
        """Return where a conversation goes on: where it started, or on the GPU where the NPU is lost."""
        box = self._box
        if binding.moved:
            other = box.catalogue.rows.get(rule.model)
            device = box.devices.get(NPU)
            worker = device.worker if device is not None else None
            gone = worker is None or worker.leaving_at > 0 or box.quarantine.bars(at)
            # on_busy never starts a pull, and a row that rests is as lost as its device
            gone = gone or (other is not None and fault_of(box, other.model, at) is not None)
            if other is not None and not gone and not self._missing(ticket, other):
                ticket.why = binding.why
                box.quarantine.enter(at, ticket.number)
                return other
            if not gone:  # this one turn asks for what the NPU's row has not
                self._stays(ticket, Suppressed.CAPABILITY, at)
                return row
            binding.moved, binding.why = False, Why.NPU_QUARANTINED
            box.count("npu_lost")
            box.meter.fallbacks.add(NPU, row.device, binding.why)
        ticket.why = binding.why
        return row

    def _judge(
        self, ticket: Ticket, rule: OnBusy, row: RowFacts, at: float, *, waited_s: float
    ) -> Placement:
        box, asked = self._box, ticket.asked
        gpu = box.devices[row.device]
        tokens = box.costs.prompt_tokens(asked, row.model)
        class_ = ticket.bound.class_ if ticket.bound is not None else ""
        asking = Asking(class_=class_, keeps=False, prompt_tokens=tokens, waited_s=waited_s)
        view = self._gpu(ticket, gpu, row, class_, at)
        ticket.gpu_s = None if view.run_s is None else view.wait_s + view.run_s
        return judge(rule, asking, view, self._npu(ticket, rule, at))

    def _gpu(
        self, ticket: Ticket, device: Device, row: RowFacts, class_: str, at: float
    ) -> GpuView:
        box, climate = self._box, self._box.climate
        held, waiting = device.of_others(ticket.lane)
        return GpuView(
            held_by_others=held,
            waiting_by_others=waiting,
            hot=climate.is_hot(class_, at),
            outside_busy=climate.is_busy(class_, at),
            uptime_s=box.senses.number("uptime", at),
            since_resume_s=climate.resumes.since_s(at),
            since_reset_s=climate.resets.since_s(at),
            wait_s=starts_in_s(box, device, ticket, at),
            run_s=self._run_s(ticket, device, row),
        )

    def _npu(self, ticket: Ticket, rule: OnBusy, at: float) -> NpuView:
        box, row = self._box, self._box.catalogue.rows.get(rule.model)
        device = box.devices.get(NPU)
        worker = device.worker if device is not None else None
        if row is None or device is None or worker is None:
            return NpuView()
        return NpuView(
            healthy=not worker.leaving_at,
            on_disk=self._is_here(device, row, at),
            quarantined=box.quarantine.bars(at),
            missing=self._missing(ticket, row),
            canary_required=box.npu.canary != "off",
            canary_passed=self._has_passed(worker),
            wait_s=starts_in_s(box, device, None, at),
            run_s=self._run_s(ticket, device, row),
        )

    def _has_passed(self, worker: Worker) -> bool:
        box = self._box
        if box.npu.canary == "off":
            return False
        return box.proving.known.passed(versions_of(box.senses, worker)) is True

    def _is_here(self, device: Device, row: RowFacts, at: float) -> bool:
        """Return whether a row is on disk and may be used; where the store has not spoken its worker has."""
        box = self._box
        if fault_of(box, row.model, at) is not None:
            return False
        return (
            box.pulls.state(row.model) == READY or (device.name, row.model) in box.residency.sizes
        )

    def _missing(self, ticket: Ticket, row: RowFacts) -> str:
        """Return what a row lacks to serve a request, room for its prompt included; empty: nothing."""
        tokens = self._box.costs.prompt_tokens(ticket.asked, row.model)
        device = self._box.devices.get(row.device)
        worker = device.worker if device is not None else None
        if worker is not None and (row.model, ticket.asked.op) in worker.lacks:
            return ticket.asked.op
        return missing_of(ticket.asked, row) or ("context length" if tokens >= row.ctx else "")

    def _run_s(self, ticket: Ticket, device: Device, row: RowFacts) -> float | None:
        """Return the time a request would take on a row, None where nothing of it was learned."""
        costs = self._box.costs
        where = (row.model, device.name, 1)
        if where not in costs.paces:
            return None
        guess_s = costs.guess_s(ticket.asked, row.max_tokens, where)
        return guess_s if device.is_ready(row.model) else guess_s + costs.load_s(row.model)
