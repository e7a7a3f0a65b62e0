"""What helpers are asked: decisions, one a conversation however many of its requests wait, and calls.

A question is due at an instant of its own; the heap finds the one that is due first.
"""

import heapq
from collections import OrderedDict

from msgspec import Struct

from scheduler.core.ticket import Ticket

Key = tuple[str, str]  # whose question it is, so that no lane can join another's


class FrozenQuestion(Struct, array_like=True):
    """A question at rest; fields as of `Question`, its tickets by their numbers."""

    key: Key
    number: int
    op: str
    due_at: float
    helper: bytes | None
    tickets: list[int]


class Question:
    """One thing asked of a helper, and the tickets that wait for the answer."""

    __slots__ = ("due_at", "helper", "key", "number", "op", "tickets")

    def __init__(self, key: Key, ticket: Ticket, op: str, due_at: float) -> None:
        self.key = key
        self.number = ticket.number  # the id under which a helper is asked
        self.op = op  # decide, validate, register
        self.due_at = due_at
        self.helper: bytes | None = None  # route of the worker that was asked; None: none was free
        self.tickets = [ticket]

    @property
    def kind(self) -> str:
        """`decide` for a decision, `call` for what a helper serves."""
        return "decide" if self.op == "decide" else "call"


class Questions:
    """Open questions, oldest first."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Key, Question] = OrderedDict()
        self._by_number: dict[int, Question] = {}
        self._due: list[tuple[float, int]] = []  # (due_at, number), closed ones among them

    def __len__(self) -> int:
        return len(self._by_key)

    def freeze(self) -> list[FrozenQuestion]:
        """Return the open questions, oldest first."""
        return [
            FrozenQuestion(
                q.key, q.number, q.op, q.due_at, q.helper, [ticket.number for ticket in q.tickets]
            )
            for q in self._by_key.values()
        ]

    def thaw(self, frozen: list[FrozenQuestion], tickets: dict[int, Ticket]) -> None:
        """Become what was frozen; for an empty one."""
        for one in frozen:
            first, *others = [tickets[number] for number in one.tickets]
            question = Question(one.key, first, one.op, one.due_at)
            question.number, question.helper = one.number, one.helper
            question.tickets += others
            self._open(question)

    def join(self, key: Key, ticket: Ticket, op: str, due_at: float) -> Question | None:
        """Return the new question of this conversation, or None if the ticket joined an open one."""
        question = self._by_key.get(key)
        if question is not None:
            question.tickets.append(ticket)
            return None
        question = Question(key, ticket, op, due_at)
        self._open(question)
        return question

    def _open(self, question: Question) -> None:
        heapq.heappush(self._due, (question.due_at, question.number))
        self._by_key[question.key] = question
        self._by_number[question.number] = question

    def close(self, number: int, helper: bytes | None, kind: str) -> Question | None:
        """Take out the question that this helper was asked, or return None if it has none such.

        Args:
            number: The id under which it was asked.
            helper: Route of the worker that answers; None where nobody was asked.
            kind: `decide` for a decision, `call` for what a helper serves.
        """
        question = self._by_number.get(number)
        if question is None or question.helper != helper or question.kind != kind:
            return None
        del self._by_number[number]
        del self._by_key[question.key]
        return question

    def leave(self, ticket: Ticket) -> Question | None:
        """A ticket no longer waits; return the question if nobody waits for it any more."""
        for question in self._by_key.values():
            if ticket in question.tickets:
                question.tickets.remove(ticket)
                if question.tickets:
                    return None
                return self.close(question.number, question.helper, question.kind)
        return None

    def open(self) -> list[Question]:
        """Return all open questions, oldest first."""
        return list(self._by_key.values())

    def unasked(self) -> list[Question]:
        """Return the questions that no helper has, oldest first."""
        return [q for q in self._by_key.values() if q.helper is None]

    def asked_of(self, route: bytes) -> list[Question]:
        """Return the questions that one helper has, oldest first."""
        return [q for q in self._by_key.values() if q.helper == route]

    def first_due(self) -> Question | None:
        """Return the open question that is due first, or None."""
        while self._due:
            question = self._by_number.get(self._due[0][1])
            if question is not None:
                return question
            heapq.heappop(self._due)
        return None
