"""Decisions under way: one question a conversation, however many of its requests wait for it."""

from collections import OrderedDict
from itertools import islice

from scheduler.core.ticket import Ticket

Key = tuple[str, str]  # whose question it is, so that no lane can join another's


class Question:
    """One decision asked of a scorer, and the tickets that wait for it."""

    __slots__ = ("asked_at", "key", "number", "scorer", "tickets")

    def __init__(self, key: Key, ticket: Ticket, at: float) -> None:
        self.key = key
        self.number = ticket.number  # the id under which a scorer is asked
        self.asked_at = at
        self.scorer: bytes | None = None  # route of the scorer that was asked; None: none was free
        self.tickets = [ticket]


class Questions:
    """Open questions, oldest first; all have the same time-out, so the first is due first."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Key, Question] = OrderedDict()
        self._by_number: dict[int, Question] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def join(self, key: Key, ticket: Ticket, at: float) -> Question | None:
        """Return the new question of this conversation, or None if the ticket joined an open one."""
        question = self._by_key.get(key)
        if question is not None:
            question.tickets.append(ticket)
            return None
        question = Question(key, ticket, at)
        self._by_key[key] = question
        self._by_number[question.number] = question
        return question

    def close(self, number: int, scorer: bytes | None) -> Question | None:
        """Take out the question that this scorer was asked, or return None if it has none such."""
        question = self._by_number.get(number)
        if question is None or question.scorer != scorer:
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
                return self.close(question.number, question.scorer)
        return None

    def open(self) -> list[Question]:
        """Return all open questions, oldest first."""
        return list(self._by_key.values())

    def unasked(self) -> list[Question]:
        """Return the questions that no scorer has, oldest first."""
        return [q for q in self._by_key.values() if q.scorer is None]

    def asked_of(self, route: bytes) -> list[Question]:
        """Return the questions that one scorer has, oldest first."""
        return [q for q in self._by_key.values() if q.scorer == route]

    def oldest(self) -> Question | None:
        """Return the question that is due first, or None."""
        return next(islice(self._by_key.values(), 1), None)
