"""How a ticket comes to a row that can be used: at once, after a pull, or with another row instead.

A row is out while the store says that its template is another one, and rests for a while after it could not
be pulled or loaded (`rests.py`). A row that is not on disk is pulled: its tickets wait for it in the state
`pulling`, hold no device, are counted in the bounds and seen by nobody's on_busy. Each waits for at most the
table's `pull_budget_s`, less where its own deadline comes before; the pull itself goes on.

Who cannot have its row has the class's fallback, if that is ready and its device served, else the default
model, which is pulled too where it is missing. An explicit name has no other row: it ends with what was wrong
and what to do.
"""

from collections.abc import Callable

from policies.why import Reason, Why
from scheduler.core.box import Box
from scheduler.core.catalogue import RowFacts
from scheduler.core.dispatch import Dispatcher
from scheduler.core.effects import Answer, Fetch, Tell
from scheduler.core.events import Failed
from scheduler.core.pulls import FAILED, MISSING, READY, Pull
from scheduler.core.refusal import Refusal, expired, missing_of, not_usable
from scheduler.core.ticket import State, Ticket
from scheduler.core.usable import Fault, fault_of

NOTE_S = 5.0  # a stream that waits for a pull hears of it this often
_KEPT_S = 30.0  # of a request's deadline, kept for the answer of a stand-in; a quarter at most
_LOAD_TRIES = 2
_NOT_FOUND = "its worker does not find its file"  # a worker's own words are not kept: entry.py
PULL = "pull"  # the op of a request that only wants the row to be on disk


class Landing:
    """Brings tickets to rows."""

    def __init__(self, box: Box, dispatcher: Dispatcher) -> None:
        self._box = box
        self._dispatcher = dispatcher
        # tells the client of the row that stands in
        self.say: Callable[[Ticket, RowFacts], None] = lambda _ticket, _row: None

    def land(self, ticket: Ticket, row: RowFacts, at: float, ran_s: float = 0.0) -> None:
        """Let a ticket go on with a row, or with what there is instead.

        Args:
            ticket: In no place now: new, called back from a seat, or taken out of a queue.
            row: What it is for.
            at: Now.
            ran_s: Device-seconds it had, for its record if it ends here.
        """
        fault = fault_of(self._box, row.model, at)
        if fault is None:
            self._enter(ticket, row, at)
            return
        ticket.model, ticket.device = row.model, row.device
        if fault.can_pull:
            self._wait(ticket, row, at, ran_s)
        else:
            self.instead(ticket, fault, at, ran_s)

    def _enter(self, ticket: Ticket, row: RowFacts, at: float) -> None:
        if ticket.state is State.RUNNING:
            self._dispatcher.recall(ticket)
        self._dispatcher.enqueue(ticket, row, at)

    def pull(self, ticket: Ticket, row: RowFacts, at: float) -> None:
        """Serve a request that wants a row to be on disk and nothing else.

        A row that rests is tried, and of one with another template the store looks whether its source has
        another file by now.
        """
        ticket.model, ticket.device = row.model, row.device
        if self._box.pulls.state(row.model) == READY:
            self._tell_done(ticket, at)
        else:
            self._wait(ticket, row, at)

    def unusable(self, ticket: Ticket, event: Failed, ran_s: float) -> None:
        """A device's worker cannot use a row: try again, pull it, or have another one answer."""
        box, model, at = self._box, ticket.model, event.at
        row = box.catalogue.rows[model]
        cause = str(event.facts.get("cause") or Reason.LOAD_FAILED)
        if cause == Reason.PULL_FAILED:
            if ticket.pulled != model:  # nobody had said that it is missing
                box.pulls.note(model, MISSING, _NOT_FOUND)
                self._wait(ticket, row, at, ran_s)
                return
            box.pulls.note(model, FAILED, _NOT_FOUND)
            box.rests.failed(model, cause, _NOT_FOUND, at, tries=1)
        elif cause == Why.TEMPLATE_MISMATCH:
            box.rests.failed(model, cause, "its chat template is not the pinned one", at, tries=1)
        elif self._may_load_again(ticket, cause, event):
            box.count("load_retries")
            if fault_of(box, model, at) is None:
                self._dispatcher.retry(ticket, at, "its load failed")
            else:  # it rests since the load that this one waited for failed
                self.land(ticket, row, at, ran_s)
            return
        rest = box.rests.of(model, at)
        fault = Fault(cause, event.message, left_s=rest.until - at if rest is not None else None)
        self._clear_out(model, fault, at)
        self.instead(ticket, fault, at, ran_s)

    def _may_load_again(self, ticket: Ticket, cause: str, event: Failed) -> bool:
        rests, model = self._box.rests, ticket.model
        known = rests.rows.get(model)
        if known is not None and ticket.granted_at < known.failed_at:
            return True  # it waited on another seat for the very load that was counted already
        return not rests.failed(model, cause, "its load failed", event.at, tries=_LOAD_TRIES)

    def _clear_out(self, model: str, fault: Fault, at: float) -> None:
        """A row rests: who waits for a seat with it has another one now."""
        for device in self._box.devices.values():
            waiting = [t for t in device.waiting() if t.model == model and t.hold is None]
            for ticket in waiting:
                device.withdraw(ticket, at)
            for ticket in waiting:
                self.instead(ticket, fault, at)

    # --- another row --------------------------------------------------------------------------------

    def instead(self, ticket: Ticket, fault: Fault, at: float, ran_s: float = 0.0) -> None:
        """Have another row answer for the one that cannot; where none may, the request ends."""
        box = self._box
        row = self._stand_in(ticket, at)
        if row is None:
            self._refuse(ticket, fault, at, ran_s)
            return
        ticket.judge_at = ticket.unsaid = None
        box.undecided.pop(ticket.number, None)
        if not ticket.degraded and ticket.why != Why.TEMPLATE_MISMATCH:
            if fault.cause == Why.TEMPLATE_MISMATCH:
                ticket.why = fault.cause
            else:
                ticket.degraded = fault.cause
            box.count("degraded")
            box.count(f"degraded_{fault.cause}")
        ticket.tell(at, "stand-in", fault.cause)
        self.say(ticket, row)
        self.land(ticket, row, at, ran_s)

    def _stand_in(self, ticket: Ticket, at: float) -> RowFacts | None:
        """Return the next row that may answer: the class's fallback if it is ready, then the default."""
        box, bound, asked = self._box, ticket.bound, ticket.asked
        if bound is None:
            return None
        default = box.catalogue.default_of(asked.name)
        names = [box.catalogue.fallbacks.get(bound.class_), default]
        if ticket.model in names and ticket.model != bound.model:  # it stands in already
            names = names[names.index(ticket.model) + 1 :]
        for name in names:
            row = box.catalogue.rows.get(name or "")
            if row is None or row.model in {ticket.model, bound.model}:
                continue
            fault = fault_of(box, row.model, at)
            if name == default:  # the last resort is pulled and waited for
                usable = fault is None or fault.can_pull
            else:
                usable = fault is None and box.devices[row.device].worker is not None
            if usable and not missing_of(asked, row):
                return row
        return None

    def _refuse(self, ticket: Ticket, fault: Fault, at: float, ran_s: float = 0.0) -> None:
        pull = self._box.pulls.running.get(ticket.model)
        retry_s = _left_s(pull, at) if pull is not None else fault.left_s
        refusal = not_usable(ticket.model, fault.cause, fault.message, retry_s, self._box.limits)
        self._end(ticket, refusal, at, ran_s)

    def _end(self, ticket: Ticket, refusal: Refusal, at: float, ran_s: float = 0.0) -> None:
        self._box.refuse(ticket, at, refusal, ran_s)

    # --- waiting for a pull -------------------------------------------------------------------------

    def _wait(self, ticket: Ticket, row: RowFacts, at: float, ran_s: float = 0.0) -> None:
        box, pulls = self._box, self._box.pulls
        if self.is_abandoned(at):
            self.instead(ticket, no_store(), at, ran_s)
            return
        self._fetch(row.model, at)
        self._fetch_stand_in(ticket, at)
        if not ticket.pull_until:
            ticket.pull_until = self._until(ticket, at)
        ticket.pulled = row.model
        if ticket.pull_until <= at:
            self._time_out(ticket, at, ran_s)
            return
        if ticket.state is State.RUNNING:
            self._dispatcher.recall(ticket)
        ticket.move(State.PULLING, at, row.model)
        ticket.waits_since = at
        box.undecided.pop(ticket.number, None)  # on_busy is asked again from its place in a queue
        pulls.waiting[ticket.number] = ticket
        if ticket.asked.stream or ticket.asked.op == PULL:
            self.tell(ticket, at)

    def _until(self, ticket: Ticket, at: float) -> float:
        asked = ticket.asked
        if asked.op == PULL:
            return asked.expires_at
        budget_ends_at = at + self._box.catalogue.pull_budget_s
        if ticket.bound is None:
            return min(budget_ends_at, asked.expires_at)
        kept_s = min(_KEPT_S, (asked.expires_at - at) / 4)
        return min(budget_ends_at, asked.expires_at - kept_s)

    def _fetch(self, model: str, at: float) -> None:
        """Have the store bring a row, once however many want it."""
        pulls = self._box.pulls
        pull = pulls.running.get(model)
        if pull is None:
            pull = pulls.running[model] = Pull(model, at)
            self._box.count("pulls")
        self.ask(pull)

    def ask(self, pull: Pull) -> None:
        """Ask a store for a row that none was asked for, if there is one."""
        store = next(iter(self._box.roster.of_kind("store")), None)
        if not pull.store and store is not None:
            pull.store = store.route
            self._box.out.append(Fetch(store.route, pull.model))

    def _fetch_stand_in(self, ticket: Ticket, at: float) -> None:
        """Have the default brought as well where nothing is here that could stand in at the budget's end."""
        if ticket.bound is not None and (row := self._stand_in(ticket, at)) is not None:
            fault = fault_of(self._box, row.model, at)
            if fault is not None:
                self._fetch(row.model, at)

    def is_abandoned(self, at: float) -> bool:
        """Return whether there has been no store for so long that nobody waits for one."""
        since = self._box.pulls.absent_since
        return since is not None and at - since >= self._box.limits.absent_s

    def tell(self, ticket: Ticket, at: float) -> None:
        """Tell a client how far the pull is that its request waits for."""
        box, asked = self._box, ticket.asked
        pull = box.pulls.running[ticket.model]
        ticket.told_at = at
        box.heard(ticket)
        box.out.append(
            Tell(asked.client, asked.rid, "pull", 0, None, pull.model, pull.done, pull.total)
        )

    def arrived(self, model: str, at: float) -> None:
        """A row is on disk: all who waited for it go on, and one load serves them."""
        row = self._box.catalogue.rows[model]
        for ticket in self._box.pulls.waiters(model):
            self.leave(ticket, at)
            if ticket.asked.op == PULL:
                self._tell_done(ticket, at)
                continue
            rule = self._box.catalogue.on_busy.get(ticket.bound.class_ if ticket.bound else "")
            if ticket.judge_at is not None and rule is not None:
                ticket.judge_at = at + rule.wait_s
                self._box.undecided[ticket.number] = ticket.judge_at
            self.land(ticket, row, at)

    def _tell_done(self, ticket: Ticket, at: float) -> None:
        pull_ms = None if ticket.pull_s is None else ticket.pull_s * 1e3
        asked = ticket.asked
        self._box.out.append(
            Answer(asked.client, asked.rid, None, None, None, b"", pull_ms=pull_ms)
        )
        self._box.end(ticket, at, "pulled")

    def gave_out(self, model: str, fault: Fault, at: float) -> None:
        """A row did not come: another one answers, or the request ends."""
        for ticket in self._box.pulls.waiters(model):
            self.leave(ticket, at)
            self.instead(ticket, fault, at)

    def leave(self, ticket: Ticket, at: float) -> None:
        """A ticket no longer waits for a pull."""
        del self._box.pulls.waiting[ticket.number]
        ticket.pull_s = (ticket.pull_s or 0.0) + at - ticket.waits_since

    def withdraw(self, ticket: Ticket, at: float) -> None:
        """Take a ticket back on its client's behalf; the pull goes on."""
        self.leave(ticket, at)
        self._box.meter.cancels.add("pulling")
        self._box.end(ticket, at, "cancelled")

    def time_out(self, ticket: Ticket, at: float) -> None:
        """A ticket has waited its time; the pull goes on, so that the next one finds the file."""
        self.leave(ticket, at)
        self._time_out(ticket, at)

    def _time_out(self, ticket: Ticket, at: float, ran_s: float = 0.0) -> None:
        if ticket.asked.op == PULL:
            self._end(ticket, expired(), at)
            return
        self._box.count("pull_timeouts")
        waited_s = ticket.pull_s or 0.0
        text = f"its file did not come within {waited_s:.0f} s; the pull goes on"
        self.instead(ticket, Fault(Reason.PULL_TIMEOUT, text), at, ran_s)


def no_store() -> Fault:
    """Return the fault of a row that nobody is there to pull."""
    return Fault(Reason.PULL_FAILED, "it is not on disk and no store worker is there to pull it")


def _left_s(pull: Pull, at: float) -> float | None:
    """Return how long a pull is expected to take still; None: nothing is known."""
    if pull.total is None or not pull.done or at <= pull.since:
        return None
    return max(1.0, (pull.total - pull.done) * (at - pull.since) / pull.done)
