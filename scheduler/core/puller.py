"""What the store says of the rows, and what becomes of those who wait for one."""

from policies.why import Reason, Why
from scheduler.core.box import Box
from scheduler.core.effects import Fact, Record
from scheduler.core.events import Pulled, PullMoved, Stocked
from scheduler.core.landing import NOTE_S, PULL, Landing, no_store
from scheduler.core.pulls import FAILED, MISMATCH, READY, Pull
from scheduler.core.usable import Fault
from scheduler.core.worker import Worker


class Puller:
    """Keeps the book of pulls by the store's word."""

    def __init__(self, box: Box, landing: Landing) -> None:
        self._box = box
        self._landing = landing

    def on_stocked(self, event: Stocked) -> None:
        """The store says which rows are on disk; what it says of rows that no table names is not kept."""
        box = self._box
        if not self._is_stores(event.route, event.epoch):
            return
        for model, stock in event.rows.items():
            if model not in box.catalogue.rows:
                continue
            if stock.state == READY and box.pulls.state(model) != READY:
                box.rests.forget(model)  # these are other files than those that failed
            box.pulls.stock[model] = stock
            if stock.state == READY:
                self._ready(model, event.at)
            elif stock.state == MISMATCH:
                self._failed(model, Why.TEMPLATE_MISMATCH, stock.reason, event.at)

    def on_moved(self, event: PullMoved) -> None:
        """A pull has come so far; one that this start of the broker has not begun is taken in."""
        box = self._box
        if not self._is_stores(event.route, event.epoch) or event.model not in box.catalogue.rows:
            return
        pull = box.pulls.running.setdefault(event.model, Pull(event.model, event.at, event.route))
        pull.done, pull.total = event.done, event.total
        for ticket in box.pulls.waiters(event.model):
            if ticket.asked.op == PULL:  # somebody watches
                self._landing.tell(ticket, event.at)

    def on_pulled(self, event: Pulled) -> None:
        """A pull has ended."""
        box, model = self._box, event.model
        if not self._is_stores(event.route, event.epoch) or model not in box.catalogue.rows:
            return
        box.meter.pulled(event.cause, event.seconds)
        facts: dict[str, Fact] = {"model": model, "seconds": event.seconds, "cause": event.cause}
        box.out.append(Record("pulled", facts | {"error": event.message[:500]}))
        if not event.cause:
            box.pulls.note(model, READY, "")
            box.rests.forget(model)
            self._ready(model, event.at)
        elif event.cause == Why.TEMPLATE_MISMATCH:
            box.pulls.note(model, MISMATCH, event.message)
            self._failed(model, event.cause, event.message, event.at)
        else:
            box.pulls.note(model, FAILED, event.message)
            box.rests.failed(model, Reason.PULL_FAILED, event.message, event.at, tries=1)
            box.count("pulls_failed")
            self._failed(model, Reason.PULL_FAILED, event.message, event.at)

    def _ready(self, model: str, at: float) -> None:
        self._box.pulls.running.pop(model, None)
        self._landing.arrived(model, at)

    def _failed(self, model: str, cause: str, message: str, at: float) -> None:
        self._box.pulls.running.pop(model, None)
        rest = self._box.rests.of(model, at)
        left_s = rest.until - at if rest is not None else None
        self._landing.gave_out(model, Fault(cause, message, left_s=left_s), at)

    def store_up(self, at: float) -> None:
        """A store is there: it is asked for all that is on its way and that no other store has."""
        pulls = self._box.pulls
        pulls.absent_since = None
        for pull in pulls.running.values():
            self._landing.ask(pull)

    def store_lost(self, store: Worker, at: float) -> None:
        """A store is gone with what it was asked; another one, or the next one, is asked again."""
        box, pulls = self._box, self._box.pulls
        if not box.roster.of_kind("store"):
            pulls.absent_since = at
        for pull in pulls.running.values():
            if pull.store == store.route:
                pull.store = b""
                self._landing.ask(pull)

    def time_out(self, at: float) -> None:
        """Let go on who has waited its time."""
        for ticket in list(self._box.pulls.waiting.values()):
            if ticket.pull_until <= at:
                self._landing.time_out(ticket, at)

    def look_over(self, at: float) -> None:
        """Tell those who wait how far it is, or that nobody is there to pull anything."""
        pulls = self._box.pulls
        if self._landing.is_abandoned(at):
            for model in list(pulls.running):
                del pulls.running[model]
                self._landing.gave_out(model, no_store(), at)
            return
        for ticket in pulls.waiting.values():
            if ticket.asked.stream and at - ticket.told_at >= NOTE_S:
                self._landing.tell(ticket, at)

    def _is_stores(self, route: bytes, epoch: int) -> bool:
        """Return whether a message is of a registered store: a fact has one owner."""
        worker = self._box.worker(route, epoch)
        if worker is not None and worker.kind != "store":
            self._box.count("fenced")
        return worker is not None and worker.kind == "store"
