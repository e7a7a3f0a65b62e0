"""The waiting tickets of one lane at one priority; its conversations share the lane's turns.

Rules of this file: pure. Conversations are flows of `sfq.py` with equal weights, so thirty sub-agents of
a lane neither block each other nor its other work. What no conversation has a claim on yet - the first
ticket of one, or of one that was forgotten - waits in the pool, one flow for all of them in order of
arrival, which weighs as much as there are tickets in it. Without the pool a stream of new conversations,
each starting at v, would keep one with a history waiting for ever; with it n pooled tickets and k
conversations have n + k equal shares, and the bound of the queue bounds n.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from scheduler.core.sfq import Flow, FrozenTags, StartTags
from scheduler.core.ticket import Ticket

_DEBTS = 128  # conversations whose finish tag is remembered; the oldest half is forgotten beyond


class FrozenLine(Struct, array_like=True):
    """A line at rest; fields as of `Line`, tickets by their numbers."""

    tags: FrozenTags  # of the pool, then of the conversations
    pool: list[int]
    talks: list[tuple[str, list[int]]]
    debts: dict[str, float]
    returned: list[int]


class Talk(Flow):
    """The waiting tickets of one conversation, or of the pool."""

    __slots__ = ("waiting",)

    def __init__(self, finish: float = 0.0) -> None:
        super().__init__(1.0, finish)
        self.waiting: OrderedDict[int, Ticket] = OrderedDict()


class Line:
    """Tickets of one lane and priority."""

    __slots__ = ("_debts", "_pool", "_returned", "_size", "_tags", "_talks")

    def __init__(self) -> None:
        self._tags: StartTags[Talk] = StartTags()
        self._talks: dict[str, Talk] = {}  # conversations with tickets waiting
        self._debts: dict[str, float] = {}  # conversation -> finish tag
        self._pool = Talk()
        self._returned: OrderedDict[int, Ticket] = OrderedDict()  # granted once: before all others
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def freeze(self) -> FrozenLine:
        """Return all of it."""
        return FrozenLine(
            self._tags.freeze([self._pool, *self._talks.values()]),
            list(self._pool.waiting),
            [(key, list(talk.waiting)) for key, talk in self._talks.items()],
            self._debts,
            list(self._returned),
        )

    def thaw(self, frozen: FrozenLine, tickets: dict[int, Ticket]) -> None:
        """Become what was frozen; for an empty one."""
        self._talks = {key: Talk() for key, _ in frozen.talks}
        self._tags.thaw(frozen.tags, [self._pool, *self._talks.values()])
        for key, numbers in [*frozen.talks]:
            self._talks[key].waiting.update((number, tickets[number]) for number in numbers)
        self._pool.waiting.update((number, tickets[number]) for number in frozen.pool)
        self._returned.update((number, tickets[number]) for number in frozen.returned)
        self._debts = dict(frozen.debts)
        waiting = [self._returned, self._pool.waiting]
        self._size = sum(map(len, [*waiting, *(talk.waiting for talk in self._talks.values())]))

    def inherit(self, old: "Line") -> None:
        """Take over the conversations' accounts; whoever waited there asks again."""
        self._tags.virtual, self._debts = old._tags.virtual, old._debts  # noqa: SLF001  # of this class
        self._pool.finish = old._pool.finish  # noqa: SLF001

    def push(self, ticket: Ticket, *, front: bool) -> None:
        """Let a ticket wait; `front` puts one that was granted before at the head."""
        self._size += 1
        if front:
            self._returned[ticket.number] = ticket
            self._returned.move_to_end(ticket.number, last=False)
            return
        talk = self._talk_of(ticket.asked.conversation)
        if not talk.waiting:
            self._tags.come(talk)
        talk.waiting[ticket.number] = ticket

    def pop(self) -> Ticket:
        """Take the next ticket and charge its conversation. The line is not empty."""
        self._size -= 1
        if self._returned:
            ticket = self._returned.popitem(last=False)[1]
            self._owe(ticket)
            return ticket
        talk = self._tags.take()
        if talk is None:
            raise LookupError("an empty line")
        ticket = talk.waiting.popitem(last=False)[1]
        key = ticket.asked.conversation
        ticket.pooled = len(talk.waiting) + 1 if talk is self._pool else 0
        talk.weight = max(1, ticket.pooled)
        tag = self._tags.charge(talk, ticket.cost_s)
        self._remember(key, max(self._debts.get(key, 0.0), tag + ticket.cost_s))
        if talk.waiting:
            self._tags.enter(talk)
        elif not ticket.pooled:
            del self._talks[key]
        self._changed(key)
        return ticket

    def remove(self, ticket: Ticket) -> bool:
        """Take a waiting ticket out; return whether it was here. Nothing was charged for it."""
        number, key = ticket.number, ticket.asked.conversation
        if self._returned.pop(number, None) is not None:
            self._size -= 1
            return True
        for talk in (self._talks.get(key), self._pool):
            if talk is not None and talk.waiting.pop(number, None) is not None:
                self._size -= 1
                if not talk.waiting:
                    self._tags.leave(talk)
                    if talk is not self._pool:
                        del self._talks[key]
                return True
        return False

    def pass_through(self, ticket: Ticket) -> None:
        """Charge a ticket that starts at once, in its turn because nobody waits."""
        key, tags, debts = ticket.asked.conversation, self._tags, self._debts
        debt = debts.get(key)
        if debt is not None and debt > tags.virtual:
            tags.virtual = debt
        ticket.pooled = 0
        debts[key] = tags.virtual + ticket.cost_s
        if len(debts) > _DEBTS:
            self._forget()

    def pull(self, ticket: Ticket) -> None:
        """Take a waiting ticket out of its turn and charge it: v stays, nobody else's tag moves."""
        self.remove(ticket)
        self._owe(ticket)

    def correct(self, ticket: Ticket, by_s: float) -> None:
        """Move what was charged for a granted ticket."""
        if ticket.pooled:
            self._pool.finish += by_s / ticket.pooled
            if self._pool.waiting:
                self._tags.enter(self._pool)
        key, debts = ticket.asked.conversation, self._debts
        if key in debts:
            debts[key] += by_s
            if key in self._talks:
                self._changed(key)

    def order(self) -> Iterator[Ticket]:
        """Yield the waiting tickets in the order they would be taken now, estimates taken as true."""
        yield from list(self._returned.values())
        waiting = {id(talk): list(talk.waiting.values()) for _, _, talk in self._tags.entries()}
        heap = [(tag, entry, id(talk), 0) for tag, entry, talk in self._tags.entries()]
        entries = (
            len(self._returned) + self._size + max((entry for _, entry, _, _ in heap), default=0)
        )
        while heap:
            tag, _, which, at = heapq.heappop(heap)
            ticket = waiting[which][at]
            yield ticket
            if at + 1 < len(waiting[which]):
                entries += 1
                share = len(waiting[which]) - at if which == id(self._pool) else 1
                heapq.heappush(heap, (tag + ticket.cost_s / share, entries, which, at + 1))

    def _talk_of(self, key: str) -> Talk:
        talk = self._talks.get(key)
        if talk is not None:
            return talk
        debt = self._debts.get(key)
        if debt is None:
            return self._pool
        talk = self._talks[key] = Talk(debt)
        return talk

    def _owe(self, ticket: Ticket) -> None:
        key = ticket.asked.conversation
        ticket.pooled = 0
        self._remember(key, max(self._tags.virtual, self._debts.get(key, 0.0)) + ticket.cost_s)
        self._changed(key)

    def _remember(self, key: str, finish: float) -> None:
        self._debts[key] = finish
        if len(self._debts) > _DEBTS:
            self._forget()

    def _forget(self) -> None:
        """Forget the oldest half of the debts, but of no conversation that waits."""
        recent = islice(self._debts.items(), len(self._debts) - _DEBTS // 2, None)
        waiting = {known: talk.finish for known, talk in self._talks.items()}
        self._debts = {**waiting, **dict(recent)}

    def _changed(self, key: str) -> None:
        """A conversation's finish tag moved: so does its place, if it has one."""
        talk = self._talks.get(key)
        if talk is not None:
            talk.finish = self._debts[key]
            self._tags.enter(talk)
