"""Which row a routed request gets: its conversation's binding, a scorer's decision, or the default.

Once a conversation, within `decide_s`. A dead or slow scorer can cost that much time and can refuse
nobody: the default model answers, with `why: scorer_down`, and nothing is bound, so that the next turn
is decided afresh. It costs that once: a scorer that was late is asked nothing until it gives a sign of
life, then one question until it answers one; and where the last scorer went away owing an answer, or none
came in time, nobody waits for another until it is there.
"""

from msgspec import structs

from policies.why import Why
from scheduler.core.binding import Binding
from scheduler.core.box import Box
from scheduler.core.catalogue import RowFacts
from scheduler.core.dispatch import Dispatcher
from scheduler.core.effects import Answer, Place
from scheduler.core.events import Asked, Decided, Failed
from scheduler.core.helpers import Helpers
from scheduler.core.landing import Landing
from scheduler.core.meter import OTHER
from scheduler.core.placing import Placer
from scheduler.core.questions import Question
from scheduler.core.refusal import Refusal, missing_of, unable
from scheduler.core.ticket import State, Ticket

DEFAULT_RULE = "default"
_NO_SUCH_DOOR = 501  # the engine works, and does not serve this kind of request
NOT_USABLE = "model_not_usable"  # code of a worker's error about a row, not about a request


class Decisions:
    """Routes requests whose name means a router collection."""

    def __init__(
        self, box: Box, helpers: Helpers, dispatcher: Dispatcher, landing: Landing
    ) -> None:
        self._box = box
        self._helpers = helpers
        self._dispatcher = dispatcher
        self._landing = landing
        landing.say = self._say_stand_in
        self._placer = Placer(box)
        dispatcher.rescue = self._rescue

    def route(self, ticket: Ticket) -> None:
        """Place a routed request by its binding, or have it decided."""
        box, asked = self._box, ticket.asked
        key = (asked.lane, asked.conversation)
        if asked.op == "decide":
            key = ("", str(ticket.number))  # joined by nobody; a lane has a name
        else:
            binding = box.bindings.find(ticket.lane, asked.conversation, asked.at)
            if binding is not None:
                self._place(ticket, binding, asked.at, why="", decided=False)
                return
        slow = box.catalogue.is_slow(asked.name)
        due_at = asked.at + (box.limits.decide_slow_s if slow else box.limits.decide_s)
        question = box.questions.join(key, ticket, "decide", due_at)
        if question is None:
            return
        scorers = box.roster.scorers()
        if not any(scorer.is_open for scorer in scorers) and (scorers or box.is_overdue):
            self.fall_open(question, asked.at)
        else:
            self._helpers.ask(question)

    def on_decided(self, event: Decided) -> None:
        """A scorer's answer; one that comes too late changes nothing."""
        box = self._box
        question = self._helpers.answered(event.route, event.epoch, event.ticket, "decide")
        if question is not None:
            box.is_overdue = False
            box.count("decisions")
            why = Why.SCORER_DOWN if event.scorer_down else ""
            decided = Binding(
                event.model, event.rule, event.class_, event.confidence, event.decision, event.at
            )
            self._settle(question, decided, event.at, why)
        self._helpers.ask_waiting()

    def give_up(self, question: Question, at: float) -> None:
        """A question is due: suspect the scorer that had it, unless a user's policy kept it waiting."""
        scorer = self._helpers.free(question)
        if self._box.catalogue.is_shipped(question.tickets[0].asked.name):
            self._box.is_overdue = True
            if scorer is not None:
                scorer.suspect = True
        self.fall_open(question, at)
        self._helpers.ask_waiting()

    def fall_open(self, question: Question, at: float) -> None:
        """Nobody decided: the default model answers, and says so."""
        box = self._box
        box.questions.close(question.number, question.helper, "decide")
        box.count("scorer_down")
        name = question.tickets[0].asked.name
        default = box.catalogue.default_of(name) or name
        decided = Binding(default, DEFAULT_RULE, "", None, b"", at)
        self._settle(question, decided, at, Why.SCORER_DOWN)

    def _settle(self, question: Question, decided: Binding, at: float, why: str) -> None:
        box = self._box
        for ticket in question.tickets:
            if not why and ticket.asked.op != "decide":
                box.bindings.keep(ticket.lane, ticket.asked.conversation, decided)
            self._place(ticket, decided, at, why=why, decided=True)

    def on_failed(self, event: Failed) -> None:
        """A job failed: its row may be tried again, pulled, or stood in for; else its client is told.

        The binding keeps the wanted row, so the next turn has it once it is usable again.
        """
        let_go = self._dispatcher.let_go(event)
        if let_go is None:
            return
        ticket, ran_s = let_go
        device = self._box.devices[ticket.device]
        if event.code == NOT_USABLE:
            self._box.meter.loads_failed.add(ticket.device)
        if ticket.state is State.RUNNING and not ticket.began and event.code == NOT_USABLE:
            self._landing.unusable(ticket, event, ran_s)
        elif (row := self._after_failure(ticket, event)) is not None:
            self._dispatcher.recall(ticket, tries=ticket.attempts)
            self._dispatcher.enqueue(ticket, row, event.at)
        else:
            failed = Refusal(event.status, event.code, event.message, event.facts)
            self._box.refuse(ticket, event.at, failed, ran_s)
        self._dispatcher.pump(device, event.at)

    def _after_failure(self, ticket: Ticket, event: Failed) -> RowFacts | None:
        """An engine failed: what the rule moved to the NPU is tried once more, on the GPU."""
        if ticket.state is not State.RUNNING or ticket.began:
            return None  # nobody waits for it, or it has begun
        if event.status == _NO_SUCH_DOOR:
            row = self._placer.declined(ticket, event.at)
            if row is not None and ticket.bound is not None:
                self._say(ticket, row, ticket.bound, ticket.rule)
            return row
        if event.status < 500:  # it is the request's own fault
            self._box.quarantine.left(ticket.number)
            return None
        row = self._rescue(ticket, event.at)
        if row is not None:
            self._box.quarantine.crashed(event.at, ticket.number)
        return row

    def _say_stand_in(self, ticket: Ticket, row: RowFacts) -> None:
        if ticket.bound is not None:
            self._say(ticket, row, ticket.bound, DEFAULT_RULE)

    def _place(
        self, ticket: Ticket, binding: Binding, at: float, *, why: str, decided: bool
    ) -> None:
        box, asked = self._box, ticket.asked
        row = self._able_row(asked, binding.model)
        if isinstance(row, Refusal):
            box.refuse(ticket, at, row)
            return
        ticket.why, ticket.bound = why, binding
        ticket.decide_ms = (at - asked.at) * 1e3 if decided else None
        rule = binding.rule if row.model == binding.model else DEFAULT_RULE
        if not why and asked.op != "decide":
            row = self._placer.place(ticket, binding, row, at)
        self._say(ticket, row, binding, rule)
        self._count(ticket, binding, row.device, decided=decided)
        ticket.tell(at, "placed", why or ticket.rule)
        if asked.op == "decide":
            box.out.append(Answer(asked.client, asked.rid, None, None, None, b""))
            box.end(ticket, at, "decided")
        else:
            self._landing.land(ticket, row, at)

    def _count(self, ticket: Ticket, binding: Binding, device: str, *, decided: bool) -> None:
        """Count a placement, by labels that no user's policy can make more of."""
        box = self._box
        class_ = binding.class_ if binding.class_ in box.catalogue.classes else OTHER
        outcome = "decided" if decided else "kept"
        if decided and ticket.decide_ms is not None:
            box.meter.decided.take(ticket.decide_ms / 1e3)
            if not binding.decision:
                outcome = "fell_open"
        why = ticket.why or "none"
        box.meter.decisions.add(class_ if binding.class_ else "none", device, why, outcome)

    def _say(self, ticket: Ticket, row: RowFacts, binding: Binding, rule: str) -> None:
        """Tell the client where its request is placed."""
        asked = ticket.asked
        ticket.rule = rule
        wanted = "" if rule == binding.rule else binding.rule
        place = Place(
            asked.client, asked.rid, rule, binding.class_, binding.confidence,
            row.model, row.device, ticket.why, wanted, ticket.degraded,
            ticket.decide_ms, binding.decision,
        )  # fmt: skip
        ticket.unsaid = None
        if ticket.judge_at is not None:  # it may still move
            ticket.unsaid, place = place, structs.replace(place, is_open=True)
        self._box.heard(ticket)
        self._box.out.append(place)

    def judge_again(self, ticket: Ticket, at: float) -> None:
        """A ticket has waited its time in the GPU's queue: it moves, or stays for good."""
        box = self._box
        box.undecided.pop(ticket.number, None)
        row = self._placer.again(ticket, at)
        bound = ticket.bound
        if bound is None or ticket.judge_at is not None:
            return  # it is judged once more
        if row is not None:
            self._say(ticket, row, bound, ticket.rule)
            ticket.tell(at, "placed", ticket.why)
            self._dispatcher.transfer(ticket, row, at)
        elif ticket.unsaid is not None:
            box.heard(ticket)
            box.out.append(ticket.unsaid)
            ticket.unsaid = None

    def _rescue(self, ticket: Ticket, at: float) -> RowFacts | None:
        """Return the row on the GPU for a ticket whose NPU was lost under it, having said so."""
        row = self._placer.lost(ticket)
        if row is not None and ticket.bound is not None:
            ticket.tell(at, "placed", ticket.why)
            self._say(ticket, row, ticket.bound, ticket.rule)
        return row

    def _able_row(self, asked: Asked, model: str) -> RowFacts | Refusal:
        """Return the row decided for, else the default, whichever can serve this request."""
        catalogue = self._box.catalogue
        missing = "a row of that name"
        for name in (model, catalogue.default_of(asked.name) or model):
            row = catalogue.rows.get(name)
            missing = missing_of(asked, row) if row else missing
            if row and not missing:
                return row
        return unable(model, missing)
