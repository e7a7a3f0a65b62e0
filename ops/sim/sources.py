"""Modelled clients: they ask as their lane's arrivals say, and take what comes of it.

Each lane draws from a generator of its own, seeded by run and lane, so lanes whose arrivals do not
depend on their answers bring the same requests whichever scheduler serves them.
"""

import random
from functools import partial
from itertools import cycle
from typing import Protocol

from ops.sim.clock import Loop
from ops.sim.job import Job
from ops.sim.lanes import Agents, Arrivals, Bursts, Every, Lane, OnOff, Poisson, Saturating

_AGAIN_S = 1.0  # a client that keeps a queue full tries again after so long where it is refused


class Asker(Protocol):
    """Takes what a lane asks."""

    def ask(self, job: Job) -> None:
        """Ask for something."""

    def number(self) -> int:
        """Return the next request's number."""
        ...


class Source(Protocol):
    """The clients of one lane."""

    def begin(self) -> None:
        """Time begins."""

    def started(self, job: Job) -> None:
        """A device begins with one of their requests."""

    def ended(self, job: Job, retry_s: float | None) -> None:
        """One of them ended; `retry_s`: it was refused, and when to try again."""


class Pen:
    """Writes a lane's requests."""

    def __init__(self, name: str, lane: Lane, loop: Loop, seed: str, asker: Asker) -> None:
        self.name = name
        self.lane = lane
        self.loop = loop
        self.random = random.Random(f"{seed}/{name}")  # noqa: S311  # a model, no secret
        self._asker = asker
        self._rows = cycle(lane.rows)

    def ask(self) -> None:
        """Ask for something new."""
        prompt, output = self.lane.size.draw(self.random)
        self.turn("", prompt, output, starts=True)

    def turn(
        self, conversation: str, prompt: int, output: int, *, starts: bool, agent: int = 0
    ) -> None:
        """Ask one turn of a conversation; an empty name: of one that ends with it."""
        lane, now = self.lane, self.loop.now
        self._asker.ask(
            Job(
                self._asker.number(), self.name, next(self._rows), lane.routed, conversation, starts,
                prompt, output, max(output, lane.states), lane.stream, now, now + lane.deadline_s,
                agent,
            )
        )  # fmt: skip

    def later(self, mean_s: float) -> float:
        """Return an instant an exponential time from now."""
        return self.loop.now + self.random.expovariate(1.0 / mean_s)


class _Backlog:
    """Keeps so many waiting."""

    def __init__(self, pen: Pen, arrivals: Saturating) -> None:
        self._pen = pen
        self._depth = arrivals.depth

    def begin(self) -> None:
        for _ in range(self._depth):
            self._pen.ask()

    def started(self, job: Job) -> None:
        del job
        self._pen.ask()

    def ended(self, job: Job, retry_s: float | None) -> None:
        del job
        if retry_s is not None:
            self._pen.loop.at(self._pen.loop.now + _AGAIN_S, self._pen.ask)


class _Open:
    """Comes when it comes, whatever became of the ones before; a refused one is given up."""

    def __init__(self, pen: Pen, arrivals: Poisson | Every | Bursts | OnOff) -> None:
        self._pen = pen
        self._arrivals = arrivals
        self._on_until = 0.0

    def begin(self) -> None:
        arrivals = self._arrivals
        first_at = arrivals.first_at if isinstance(arrivals, Every) else self._next()
        self._pen.loop.at(first_at, self._come)

    def started(self, job: Job) -> None:
        pass

    def ended(self, job: Job, retry_s: float | None) -> None:
        pass

    def _come(self) -> None:
        for _ in range(self._arrivals.size if isinstance(self._arrivals, Bursts) else 1):
            self._pen.ask()
        self._pen.loop.at(self._next(), self._come)

    def _next(self) -> float:
        pen, arrivals = self._pen, self._arrivals
        if isinstance(arrivals, Every):
            return pen.loop.now + arrivals.period_s
        if isinstance(arrivals, Bursts):
            return pen.later(arrivals.every_s)
        if isinstance(arrivals, Poisson):
            return pen.later(1.0 / arrivals.per_s)
        at = pen.later(1.0 / arrivals.per_s)
        if at > self._on_until:  # the lane falls silent first
            on_at = max(pen.loop.now, self._on_until)
            on_at += pen.random.expovariate(1.0 / arrivals.off_s)
            self._on_until = on_at + pen.random.expovariate(1.0 / arrivals.on_s)
            return on_at
        return at


class _Agents:
    """Agents in conversation: the next turn holds all that was said, and comes after a think."""

    def __init__(self, pen: Pen, arrivals: Agents) -> None:
        self._pen = pen
        self._arrivals = arrivals
        self._said = [0] * arrivals.count  # tokens of the conversation so far
        self._turn = [0] * arrivals.count
        self._begun = [0] * arrivals.count  # conversations

    def begin(self) -> None:
        for agent in range(self._arrivals.count):
            self._pen.loop.at(self._pen.later(self._arrivals.think_s), partial(self._ask, agent))

    def started(self, job: Job) -> None:
        pass

    def ended(self, job: Job, retry_s: float | None) -> None:
        agent, pen = job.agent, self._pen
        if retry_s is not None:
            pen.loop.at(pen.loop.now + retry_s, partial(self._ask_again, job))
            return
        self._said[agent] = job.prompt_tokens + job.output_tokens
        self._turn[agent] += 1
        if self._turn[agent] >= self._arrivals.turns:
            self._turn[agent], self._said[agent] = 0, 0
            self._begun[agent] += 1
        pen.loop.at(pen.later(self._arrivals.think_s), partial(self._ask, agent))

    def _ask(self, agent: int) -> None:
        prompt, output = self._pen.lane.size.draw(self._pen.random)
        prompt += self._said[agent] or self._arrivals.system_tokens
        self._put(agent, prompt, output)

    def _ask_again(self, job: Job) -> None:
        self._put(job.agent, job.prompt_tokens, job.output_tokens)

    def _put(self, agent: int, prompt: int, output: int) -> None:
        conversation = f"{self._pen.name}/{agent}/{self._begun[agent]}"
        starts = self._turn[agent] == 0
        self._pen.turn(conversation, prompt, output, starts=starts, agent=agent)


def source(pen: Pen, arrivals: Arrivals) -> Source:
    """Return the clients of a lane."""
    if isinstance(arrivals, Saturating):
        return _Backlog(pen, arrivals)
    if isinstance(arrivals, Agents):
        return _Agents(pen, arrivals)
    return _Open(pen, arrivals)
