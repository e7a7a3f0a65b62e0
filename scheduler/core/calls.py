"""Policies that are looked at or kept: requests that end with what a helper says of them.

They hold no device and bind nothing. The catalogue changes only here, by the store's word.
"""

from scheduler.core.box import Box
from scheduler.core.effects import Answer, Publish
from scheduler.core.events import Served, Shelved
from scheduler.core.helpers import KIND_OF, Helpers
from scheduler.core.questions import Question
from scheduler.core.refusal import Refusal
from scheduler.core.ticket import Ticket

OPS = frozenset({"validate", "register"})


class Calls:
    """Has helpers serve requests."""

    def __init__(self, box: Box, helpers: Helpers) -> None:
        self._box = box
        self._helpers = helpers

    def start(self, ticket: Ticket) -> None:
        """Have a helper serve a request."""
        asked = ticket.asked
        due_at = asked.at + self._box.limits.call_s
        key = ("", str(ticket.number))  # joined by nobody; a lane has a name
        question = self._box.questions.join(key, ticket, asked.op, due_at)
        if question is not None:
            self._helpers.ask(question)

    def on_served(self, event: Served) -> None:
        """A helper's answer is the client's."""
        box = self._box
        question = self._helpers.answered(event.route, event.epoch, event.ticket, "call")
        for ticket in question.tickets if question else ():
            asked = ticket.asked
            box.out.append(
                Answer(asked.client, asked.rid, None, None, None, event.body, event.status)
            )
            box.end(ticket, event.at, "served")
        self._helpers.ask_waiting()

    def give_up(self, question: Question, at: float) -> None:
        """Nobody served a request in time."""
        box = self._box
        self._helpers.free(question)
        box.questions.close(question.number, question.helper, "call")
        kind = KIND_OF[question.op]
        message = f"No {kind} worker answered; see `fairlane status`."
        for ticket in question.tickets:
            box.refuse(
                ticket, at, Refusal(503, f"{kind}_unavailable", message, {"retryable": True})
            )
        self._helpers.ask_waiting()

    def on_shelved(self, event: Shelved) -> None:
        """The store says which user policies there are: the next version of the catalogue."""
        box = self._box
        store = box.worker(event.route, event.epoch)
        if store is None or store.kind != "store":
            return
        box.catalogue = box.catalogue.with_users(event.collections, event.slow)
        others = sorted(route for route in box.roster.by_route if route != event.route)
        box.out.append(Publish(others, box.catalogue.version, event.policies))
