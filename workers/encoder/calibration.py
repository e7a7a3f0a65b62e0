"""From the head's logits to probabilities and a confidence: pure.

Source: the decision model's calibration. A temperature fitted for the number of options wins over the one
of the question's type; each is confined to 0.5 to 5, because a published one (0.1006) would turn a coin
flip into certainty.
"""

import math
from collections.abc import Sequence

from msgspec import Struct

from policies.shape import is_array, is_object
from workers.encoder.questions import KINDS, Kind

LOWEST, HIGHEST = 0.5, 5.0
_LEAST = 1e-12  # below it a probability adds nothing to the entropy


class Calibration(Struct, frozen=True):
    """Temperatures, each within 0.5 to 5.

    Attributes:
        by_kind: Of choice, score and noul.
        by_options: `choice:3-5` and the like -> temperature.
    """

    by_kind: tuple[float, float, float] = (1.0, 1.0, 1.0)
    by_options: dict[str, float] = {}

    def temperature(self, kind: Kind, count: int) -> float:
        """Return what the logits of a question with so many options are divided by."""
        return self.by_options.get(bucket(kind, count), self.by_kind[KINDS.index(kind)])


def calibration_of(config: dict[str, object]) -> Calibration:
    """Return the temperatures of a model's configuration; 1.0 where it names none that is usable."""
    named = config.get("temperature")
    given = [clamped(value) for value in named] if is_array(named) else []
    first, second, third = [*given, 1.0, 1.0, 1.0][:3]
    by_options = config.get("temperature_by_options")
    buckets = by_options.items() if is_object(by_options) else ()
    return Calibration((first, second, third), {name: clamped(value) for name, value in buckets})


def clamped(value: object) -> float:
    """Return a usable temperature: 1.0 for what is no finite number."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return 1.0
    return min(HIGHEST, max(LOWEST, number)) if math.isfinite(number) else 1.0


def bucket(kind: Kind, count: int) -> str:
    """Return the name of the temperature for a number of options."""
    for most, name in ((2, "2"), (5, "3-5"), (10, "6-10")):
        if count <= most:
            return f"{kind}:{name}"
    return f"{kind}:11+"


def shares_of(logits: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Return softmax(logits / temperature): probabilities in the order of the logits, at least one."""
    highest = max(logits)
    powers = [math.exp((logit - highest) / temperature) for logit in logits]
    total = math.fsum(powers)
    return tuple(power / total for power in powers)


def confidence_of(kind: Kind, shares: Sequence[float]) -> float:
    """Return how sure an answer is, 0 to 1.

    For choice and score 1 - H(p) / ln K, the entropy as a share of its maximum, not the winner's
    probability: (0.8, 0.1, 0.1) is 0.42. For noul the larger probability.
    """
    if kind == "noul":
        return max(shares)
    if len(shares) < 2:
        return 1.0
    entropy = -math.fsum(share * math.log(max(share, _LEAST)) for share in shares)
    return min(1.0, max(0.0, 1.0 - entropy / math.log(len(shares))))
