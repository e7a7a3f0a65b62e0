"""A discrete-event simulation of one device on virtual time, around the real fair queue.

Lanes are sources of tickets. A ticket holds a seat for `actual_s`, which the queue learns only when it ends;
what it is told before is `cost_s`. Nothing here decides anything: whoever `pick` names runs.
"""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count

from scheduler.core.events import Asked
from scheduler.core.fairqueue import FairQueue
from scheduler.core.ticket import Ticket

Draw = Callable[[random.Random], float]

_numbers = count(1)


def ticket(
    lane: str, cost_s: float = 1.0, *, batch: bool = False, conversation: str = "k"
) -> Ticket:
    """Return a ticket that waits for nothing yet."""
    number = next(_numbers)
    asked = Asked(
        0.0, b"c", str(number), "chat", "M", lane, conversation, True, False, batch, 1e9, 0, None,
        False, False, False, b"",
    )  # fmt: skip
    made = Ticket(number, asked, lane, [])
    made.cost_s = cost_s
    return made


class Served:
    """One ticket's service."""

    __slots__ = ("actual_s", "asked_at", "began_at", "cost_s", "ended_at", "lane")

    def __init__(self, lane: str, cost_s: float, actual_s: float, asked_at: float) -> None:
        self.lane = lane
        self.cost_s = cost_s
        self.actual_s = actual_s
        self.asked_at = asked_at
        self.began_at = 0.0
        self.ended_at = 0.0

    @property
    def largest_s(self) -> float:
        """What the queue may have charged for it at some time."""
        return max(self.cost_s, self.actual_s)


class Sim:
    """One device, its seats and its lanes."""

    def __init__(self, seed: int, weights: dict[str, float] | None = None, seats: int = 1) -> None:
        self.random = random.Random(seed)
        self.weights = weights or {}
        self.queue = FairQueue(self.weights)
        self.seats = seats
        self.now = 0.0
        self.running: dict[int, tuple[Ticket, Served]] = {}
        self.waiting: dict[int, tuple[Ticket, Served]] = {}
        self.log: list[Served] = []  # ended services, in the order of their ends
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._backlogs: dict[str, tuple[int, Draw, Draw]] = {}

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Let something happen at an instant."""
        heapq.heappush(self._events, (when, next(self._order), what))

    def comes(self, when: float, lane: str, actual_s: float) -> None:
        """Let a ticket come at an instant; its guess is exact."""

        def push() -> None:
            self.push(lane, actual_s)

        self.at(when, push)

    def passes_by(self, when: float, lane: str, cost_s: float) -> None:
        """Let a ticket come at an instant and be withdrawn at once."""

        def pass_by() -> None:
            self.cancel(self.push(lane, cost_s))

        self.at(when, pass_by)

    def backlog(self, lane: str, depth: int, actual: Draw, guess: Draw | None = None) -> None:
        """Keep so many tickets of a lane waiting from now on; the guess is exact unless drawn."""
        self._backlogs[lane] = (depth, actual, guess or (lambda _: 0.0))
        self._refill()

    def stop(self, lane: str) -> None:
        """Let a lane's tickets run out."""
        del self._backlogs[lane]

    def push(
        self, lane: str, actual_s: float, cost_s: float = 0.0, *, batch: bool = False
    ) -> Ticket:
        """Let one ticket come now; the guess is exact unless given."""
        made = ticket(lane, cost_s or actual_s, batch=batch)
        self.waiting[made.number] = made, Served(lane, made.cost_s, actual_s, self.now)
        self.queue.push(made)
        return made

    def cancel(self, made: Ticket) -> None:
        """Withdraw a ticket that waits."""
        del self.waiting[made.number]
        self.queue.cancel(made)

    def run(self, until: float) -> None:
        """Let virtual time pass."""
        self._start()
        while self._events and self._events[0][0] <= until:
            self.now, _, what = heapq.heappop(self._events)
            what()
            self._refill()
            self._start()
        self.now = until

    def _start(self) -> None:
        while len(self.running) < self.seats:
            picked = self.queue.pick()
            if picked is None:
                assert not self.waiting, "a seat is free and tickets wait"
                return
            served = self.waiting.pop(picked.number)[1]
            served.began_at = self.now
            self.running[picked.number] = picked, served
            self.at(self.now + served.actual_s, lambda n=picked.number: self._end(n))  # type: ignore[misc]  # bound now
            self._refill()

    def _end(self, number: int) -> None:
        ended, served = self.running.pop(number)
        served.ended_at = self.now
        self.queue.settle(ended, served.actual_s)
        self.log.append(served)

    def _refill(self) -> None:
        for lane, (depth, actual, guess) in self._backlogs.items():
            while self.queue.waiting_of(lane) < depth:
                self.push(lane, actual(self.random), guess(self.random))


def service(log: list[Served]) -> dict[str, float]:
    """Return device-seconds by lane."""
    sums: dict[str, float] = defaultdict(float)
    for served in log:
        sums[served.lane] += served.actual_s
    return dict(sums)


def largest(log: list[Served], lane: str) -> float:
    """Return the largest ticket of a lane, in device-seconds."""
    return max((served.largest_s for served in log if served.lane == lane), default=0.0)


def gap(log: list[Served], first: str, second: str, weights: dict[str, float]) -> float:
    """Return the largest difference of weighted service between two lanes, over any interval."""
    values = list(_differences(log, first, second, weights))
    return max(values) - min(values)


def _differences(
    log: list[Served], first: str, second: str, weights: dict[str, float]
) -> Iterator[float]:
    difference = 0.0
    yield difference
    for served in log:
        if served.lane == first:
            difference += served.actual_s / weights.get(first, 1.0)
        elif served.lane == second:
            difference -= served.actual_s / weights.get(second, 1.0)
        yield difference
