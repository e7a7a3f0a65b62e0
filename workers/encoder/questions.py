"""Typed questions as the decision model reads them: pure, no tokens yet.

Source of the wording: the decision model's `render_options`, version 0.4.15.
The order of the options is part of the question: the model is sensitive to it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from workers.question import CRITERIA, INSTRUCTIONS

Kind = Literal["choice", "score", "noul"]
KINDS: tuple[Kind, ...] = ("choice", "score", "noul")  # the place is the row of the type embedding

_NOUL = (("false", "no, the statement does not hold"), ("true", "yes, the statement holds"))


class Question(Struct, frozen=True):
    """One question, whatever the state it is asked of.

    Attributes:
        kind: Which type embedding the head adds.
        instructions: What is asked; text, or JSON rendered as text.
        labels: What the options are called in an answer, in the model's order.
        options: What the model reads for each label.
    """

    kind: Kind
    instructions: str
    labels: tuple[str, ...]
    options: tuple[str, ...]

    @property
    def text(self) -> str:
        """What stands in front of the options."""
        return f"{self.kind} question: {self.instructions}"


def choice(instructions: object, criteria: Mapping[str, object]) -> Question:
    """Return a question that picks one label.

    Args:
        instructions: Text, or any JSON value.
        criteria: Label -> description, in the order the model shall see; None or "": no description.
    """
    options = tuple(
        label if said is None or said == "" else f"{label}: {_rendered(said)}"
        for label, said in criteria.items()
    )
    return Question("choice", _rendered(instructions), tuple(criteria), options)


def score(instructions: object, levels: Sequence[object]) -> Question:
    """Return a question that picks a level.

    Args:
        instructions: Text, or any JSON value.
        levels: Descriptions, level 0 first.
    """
    labels = tuple(str(number) for number in range(len(levels)))
    options = tuple(f"level {number}: {_rendered(said)}" for number, said in enumerate(levels))
    return Question("score", _rendered(instructions), labels, options)


def noul(instructions: object, criteria: Mapping[str, object] | None = None) -> Question:
    """Return a question whether a statement holds.

    Args:
        instructions: Text, or any JSON value.
        criteria: What `false` and `true` mean, either or both; the model's own words where absent.
    """
    given = criteria or {}
    options = tuple(
        f"{label}: {usual if given.get(label) in (None, '') else _rendered(given[label])}"
        for label, usual in _NOUL
    )
    return Question("noul", _rendered(instructions), ("false", "true"), options)


def state_text(state: object) -> str:
    """Return what the model reads of a state: text as it is, anything else as JSON."""
    return _rendered(state)


def _rendered(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


ROUTING = choice(INSTRUCTIONS, CRITERIA)
