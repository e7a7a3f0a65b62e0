"""Helpers: workers that hold no device - scorers, which decide and validate, the store, and the sensors.

A question goes to the helper of its kind that has the fewest in hand. A lost helper's questions go to
another one; where there is none they wait until they are due.
"""

from collections import Counter

from scheduler.core.box import Box
from scheduler.core.effects import AskHelper
from scheduler.core.questions import Question
from scheduler.core.ticket import Ticket
from scheduler.core.worker import Worker

# what is asked -> the kind of worker that can do it
KIND_OF = {"decide": "scorer", "validate": "scorer", "register": "store"}

HELPERS = frozenset(KIND_OF.values()) | {"sensors"}  # the last is asked nothing


class Helpers:
    """Hands questions to helpers and takes their answers."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def ask(self, question: Question) -> None:
        """Hand a question to a helper, if one is free."""
        box = self._box
        full = self._full_of_calls() if question.kind == "call" else frozenset[bytes]()
        kind, credit = KIND_OF[question.op], box.limits.scorer_credit
        helper = box.roster.helper_with_credit(kind, credit, full)
        question.helper = helper.route if helper else None
        if helper is not None:
            helper.held.add(question.number)
            asked = question.tickets[0].asked
            name = box.catalogue.aliases.get(asked.name, asked.name)
            box.out.append(
                AskHelper(
                    helper.route, question.number, question.due_at, question.op,
                    name, asked.lane, asked.body,
                )
            )  # fmt: skip

    def _full_of_calls(self) -> frozenset[bytes]:
        """Return the helpers that have their share of calls in hand."""
        box = self._box
        calls = Counter(q.helper for q in box.questions.open() if q.kind == "call" and q.helper)
        return frozenset(route for route, n in calls.items() if n >= box.limits.call_credit)

    def ask_waiting(self) -> None:
        """Hand out the questions that no helper has."""
        for question in self._box.questions.unasked():
            self.ask(question)

    def answered(self, route: bytes, epoch: int, number: int, ops: str) -> Question | None:
        """Close the question a helper answers; None if it is void, not its own, or of another kind."""
        box = self._box
        helper = box.worker(route, epoch)
        if helper is None or helper.kind not in HELPERS:  # a device worker's tickets are leases
            box.count("fenced")
            return None
        helper.suspect = helper.on_trial = False
        helper.held.discard(number)
        return box.questions.close(number, route, ops)

    def free(self, question: Question) -> Worker | None:
        """Take a question from the helper that has it, which may never answer; return that helper."""
        helper = self._box.roster.by_route.get(question.helper or b"")
        if helper is not None:
            helper.held.discard(question.number)
        return helper

    def lost(self, helper: Worker) -> None:
        """Ask another helper what this one had not answered."""
        for question in self._box.questions.asked_of(helper.route):
            self.ask(question)

    def leave(self, ticket: Ticket, at: float) -> None:
        """Take back a ticket that waits for a helper."""
        dropped = self._box.questions.leave(ticket)
        if dropped is not None:
            self.free(dropped)
        self._box.meter.cancels.add("deciding")
        self._box.end(ticket, at, "cancelled")
        self.ask_waiting()
