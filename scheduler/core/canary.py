"""The NPU's canary: a few tokens asked of the NPU by the core itself while the GPU is held.

A rule that would have moved a conversation, had the canary passed, wants it for the rule's row. It is sent
at the next event at which a ticket holds the GPU and the NPU has nothing to do. Its ticket is of no lane: in
no queue, in no bound, charged to nobody, and no record of a request. Whoever waits for its seat, or for the
memory of its row, ends it at once, and then it has said nothing.

    tokens came, and the GPU was held when they had           passed
    an error, no token, no end in time, its worker died       failed, which is a crash of the NPU
    it made way, its worker left, the GPU was let go          nothing: sent again at the next occasion

The first two are kept for the versions it ran under.
"""

from math import inf

import msgspec
from msgspec import structs

from policies.canary import TOKENS
from scheduler.core.box import Box
from scheduler.core.climate import HELD_KIND
from scheduler.core.device import Device
from scheduler.core.dispatch import NPU, Dispatcher
from scheduler.core.effects import Fact, Halt, Record
from scheduler.core.events import Asked
from scheduler.core.proving import versions_of
from scheduler.core.ticket import State, Ticket

LANE = "(canary)"  # as people are told who holds the seat; no lane of the queue
_PROMPT = "Count from one to eight."


class Canaries:
    """Sends the canary, and takes in what becomes of it."""

    def __init__(self, box: Box, dispatcher: Dispatcher) -> None:
        self._box = box
        self._dispatcher = dispatcher
        dispatcher.proved = self.ended
        dispatcher.make_way = self.make_way

    def look(self, at: float) -> None:
        """Send the canary that a rule wants, if now is the time."""
        proving, device = self._box.proving, self._box.devices.get(NPU)
        if not proving.wanted or proving.ticket or device is None:
            return
        gap = waits_for(self._box, at)
        due = proving.known.is_due(
            self._box.npu.canary,
            versions_of(self._box.senses, device.worker),
            gpu_held=gap != "gpu",
            npu_free=gap in {"", "gpu"},
        )
        if due:
            self._send(device, proving.wanted, at)

    def _send(self, device: Device, model: str, at: float) -> None:
        box, proving = self._box, self._box.proving
        box.numbers = number = box.numbers + 1
        asked = Asked(
            at, b"", f"canary-{number}", "chat", model, LANE, "canary", True, False, True,
            at + box.npu.canary_s, len(_PROMPT), TOKENS, False, False, False, _body(model),
        )  # fmt: skip
        ticket = Ticket(number, asked, LANE, [(at, "canary", model)], is_canary=True)
        ticket.model, ticket.device, ticket.queued_at = model, NPU, at
        box.tickets[number] = ticket
        ticket.move(State.QUEUED, at, model)
        box.waits(ticket, 1)
        box.quarantine.enter(at, number)
        proving.ticket, proving.is_judged = number, False
        proving.versions = versions_of(box.senses, device.worker)
        proving.due_at = at + box.npu.canary_s
        box.count("canaries")
        self._dispatcher.grant(ticket, device, at)

    def make_way(self, at: float) -> None:
        """Somebody may wait for the canary's seat or memory: end it."""
        box = self._box
        ticket = box.tickets[box.proving.ticket]
        waits = box.devices[NPU].depth or any(d.is_short for d in box.devices.values())
        if waits and ticket.state is State.RUNNING:
            box.proving.due_at = at + box.limits.kill_s
            self._halt(ticket, at, "made way")

    def look_over(self, at: float) -> None:
        """Once its time is over it has failed; and a worker that does not stop it either is ended."""
        box, proving = self._box, self._box.proving
        if not proving.ticket or proving.due_at > at:
            return
        ticket = box.tickets[proving.ticket]
        self._judge(ticket, at, passed=False, cause="no end in time")
        if ticket.state is State.RUNNING:
            proving.due_at = at + box.limits.kill_s
            self._halt(ticket, at, "too late")
            return
        proving.due_at = inf
        worker = box.roster.by_route.get(ticket.worker)
        if worker is not None:
            box.kill_worker(worker)

    def _halt(self, ticket: Ticket, at: float, why: str) -> None:
        ticket.move(State.DRAINING, at, why)
        self._box.out.append(Halt(ticket.worker, ticket.number, ticket.lease))

    def ended(self, ticket: Ticket, at: float, passed: bool | None, cause: str) -> None:
        """The canary's seat is free again.

        Args:
            ticket: The canary.
            at: Now.
            passed: What came of it; None: nothing that says anything.
            cause: Why it failed, or says nothing.
        """
        box, gpu = self._box, self._box.devices.get(HELD_KIND)
        if passed and (gpu is None or not gpu.active):
            passed, cause = None, "the GPU was let go"
        self._judge(ticket, at, passed=passed, cause=cause)
        ticket.move(State.ENDED, at, cause or "passed")
        del box.tickets[ticket.number]
        box.stories.keep(ticket.asked.rid, ticket.lane, ticket.story)
        box.proving.ticket, box.proving.due_at = 0, inf

    def _judge(self, ticket: Ticket, at: float, *, passed: bool | None, cause: str) -> None:
        box, proving = self._box, self._box.proving
        if proving.is_judged:
            return
        if passed is None:
            box.quarantine.left(ticket.number)
            box.count("canaries_broken_off")
        else:
            proving.is_judged, proving.wanted = True, ""
            proving.known.record(proving.versions, passed=passed)
            if passed:
                box.quarantine.served(at, ticket.number)
            else:
                box.quarantine.crashed(at, ticket.number)
            box.count("canaries_passed" if passed else "canaries_failed")
        facts: dict[str, Fact] = {"model": ticket.model, "passed": passed, "cause": cause}
        box.out.append(Record("npu_canary", {**facts, **structs.asdict(proving.versions)}))


def waits_for(box: Box, at: float) -> str:
    """Return what the canary that a rule wants is not sent for want of, the first that is true.

    `row`: the NPU has no such row any more; `drain`: to end; `npu`: a worker of it that has nothing to do;
    `quarantine`: its end; `memory`: room for the row beside what the other devices have loaded, which a
    proof is not worth; `gpu`: somebody who holds the GPU; empty: nothing.
    """
    model, device = box.proving.wanted, box.devices.get(NPU)
    row, gpu = box.catalogue.rows.get(model), box.devices.get(HELD_KIND)
    if device is None or row is None or row.device != NPU:
        return "row"
    if box.is_draining:
        return "drain"
    worker = device.worker
    if worker is None or worker.leaving_at or device.active or device.depth or device.is_thinking:
        return "npu"
    if box.quarantine.bars(at):
        return "quarantine"
    evicted = box.residency.evicts(device.name, model, at)
    if evicted is None or any(on != device.name for on, _ in evicted):
        return "memory"
    return "" if gpu is not None and gpu.active else "gpu"


def _body(model: str) -> bytes:
    """Return the request as a client would write it."""
    said = [{"role": "user", "content": _PROMPT}]
    return msgspec.json.encode({"model": model, "messages": said, "max_tokens": TOKENS})
