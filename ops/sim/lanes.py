"""What lanes are like: their weight, how their requests come, and how large these are."""

import random

from msgspec import Struct

from ops.sim.job import DECODE_PER_S, PREFILL_PER_S


class Lasts(Struct, frozen=True, tag=True):
    """Requests that last so many seconds on a device alone at full rate, a quarter of it prefill."""

    seconds: float

    def draw(self, _: random.Random) -> tuple[int, int]:
        """Return prompt and output tokens."""
        return _tokens(self.seconds)


class Heavy(Struct, frozen=True, tag=True):
    """Seconds from a bounded Pareto distribution: most are short, a few are very long.

    Drawn by inverting its distribution function F(x) = (1 - (low/x)^a) / (1 - (low/high)^a).
    """

    low_s: float
    high_s: float
    alpha: float = 1.1

    def draw(self, source: random.Random) -> tuple[int, int]:
        """Return prompt and output tokens."""
        rest = 1.0 - source.random() * (1.0 - (self.low_s / self.high_s) ** self.alpha)
        return _tokens(self.low_s / rest ** (1.0 / self.alpha))


class Between(Struct, frozen=True, tag=True):
    """Seconds drawn evenly."""

    low_s: float
    high_s: float

    def draw(self, source: random.Random) -> tuple[int, int]:
        """Return prompt and output tokens."""
        return _tokens(source.uniform(self.low_s, self.high_s))


def _tokens(seconds: float) -> tuple[int, int]:
    prompt, output = seconds * PREFILL_PER_S / 4, seconds * DECODE_PER_S * 3 / 4
    return round(prompt), max(1, round(output))


Size = Lasts | Heavy | Between


class Saturating(Struct, frozen=True, tag=True):
    """Never runs dry: so many wait at any time."""

    depth: int = 4


class Poisson(Struct, frozen=True, tag=True):
    """Independent requests."""

    per_s: float


class Every(Struct, frozen=True, tag=True):
    """One request a period."""

    period_s: float
    first_at: float = 0.0


class Bursts(Struct, frozen=True, tag=True):
    """Many at once, now and then: the instants are a Poisson process."""

    size: int
    every_s: float


class OnOff(Struct, frozen=True, tag=True):
    """Poisson while on, silent while off; the lengths of both are exponential."""

    per_s: float
    on_s: float
    off_s: float


class Agents(Struct, frozen=True, tag=True):
    """Agents that ask, read the answer, think, and ask on; then begin another conversation.

    Attributes:
        count: How many.
        think_s: Mean of the exponential think time.
        turns: Turns of a conversation; each prompt holds all that was said before.
        system_tokens: What the first prompt holds besides.
    """

    count: int
    think_s: float
    turns: int = 1
    system_tokens: int = 0


Arrivals = Saturating | Poisson | Every | Bursts | OnOff | Agents


class Lane(Struct, frozen=True, kw_only=True):
    """One lane.

    Attributes:
        arrivals: How its requests come.
        size: How large they are.
        weight: Its share, > 0.
        rows: Rows its requests want, in turn.
        routed: They ask for the router collection instead of the row; a scorer names the row.
        states: max_tokens that its clients state: the scheduler's only hint of the answer's length,
            the same for every request, as agents do. A longer answer states its length.
        stream: Whether answers are streamed.
        patience_s: A client leaves after so long without its answer.
        deadline_s: A request waits no longer than this.
        light: The lane whose wait beside the others is looked at.
    """

    arrivals: Arrivals
    size: Size
    weight: float = 1.0
    rows: tuple[str, ...] = ("large",)
    routed: bool = False
    states: int = 1024
    stream: bool = True
    patience_s: float | None = None
    deadline_s: float = 86_400.0
    light: bool = False
