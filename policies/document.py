"""The parsed policy: frozen values that can be evaluated without looking at JSON again.

Everything here comes out of `policies.parse`. A leaf that an author wrote with several keys is
an `All` of single conditions, in the order in which they are evaluated.
"""

from typing import Literal

import msgspec

from policies.ecma.pattern import Pattern
from policies.keywords import KeywordIndex

# Nested match objects below the outermost one.
MAX_DEPTH = 64

Bound = Literal["min_chars", "max_chars", "min_total_chars", "max_total_chars"]
FeatureName = Literal["has_tools", "has_images"]
OnError = Literal["match_true", "match_false"]


class Keywords(msgspec.Struct, frozen=True):
    """`keywords_any` or `keywords_all`.

    Attributes:
        needles: UTF-8 with A-Z folded to a-z; no other letter is folded.
        every: Whether all needles must occur.
    """

    needles: tuple[bytes, ...]
    every: bool


class Regex(msgspec.Struct, frozen=True):
    """`regex`: found anywhere in the bytes of the input."""

    pattern: Pattern


class Chars(msgspec.Struct, frozen=True):
    """A bound on a length, both ends inclusive.

    Attributes:
        name: The condition, which says what is measured.
        limit: Bytes of UTF-8.
    """

    name: Bound
    limit: int


class Feature(msgspec.Struct, frozen=True):
    """`has_tools` or `has_images`: the request is as the author expects."""

    name: FeatureName
    expected: bool


class Metadata(msgspec.Struct, frozen=True):
    """`metadata`: one key compared in exactly one way.

    Attributes:
        key: Case-sensitive.
        equals: The value must be this text.
        any_of: One of the value's comma-separated items must be one of these.
        exists: The value must be there, or must not.
    """

    key: str
    equals: str | None = None
    any_of: frozenset[str] | None = None
    exists: bool | None = None


class Band(msgspec.Struct, frozen=True):
    """`classifier`: a score between two bounds, both inclusive.

    Attributes:
        classifier: Id of the classifier.
        label: The label tested; `None`: the classifier's default, else its only score.
        floor: Lowest score that matches; `None`: no lower bound.
        ceiling: Highest score that matches; `None`: no upper bound.
    """

    classifier: str
    label: str | None
    floor: float | None
    ceiling: float | None


class All(msgspec.Struct, frozen=True):
    """True when every child is; stops at the first that is not."""

    children: "tuple[Match, ...]"


class AnyOf(msgspec.Struct, frozen=True):
    """True when a child is; stops at the first that is."""

    children: "tuple[Match, ...]"


class Not(msgspec.Struct, frozen=True):
    """True when its child is not, a failed classifier's leaf included."""

    child: "Match"


Leaf = Keywords | Regex | Chars | Feature | Metadata | Band
Match = All | AnyOf | Not | Leaf


class Rule(msgspec.Struct, frozen=True):
    """One rule; the first that matches decides.

    Attributes:
        id: Unique in its policy.
        match: Its condition.
        route_to: The candidate it chooses, by its canonical name.
        outputs: Handed through to the decision; treat as constant.
    """

    id: str
    match: Match
    route_to: str
    outputs: dict[str, object]


class ModelClassifier(msgspec.Struct, frozen=True):
    """Type `classifier`: a model returns a score per label, as it likes."""

    id: str
    model: str
    labels: tuple[str, ...]
    default_label: str | None
    on_error: OnError


class Similarity(msgspec.Struct, frozen=True):
    """Type `semantic_similarity`: one score per concept, the nearest of its phrases.

    Attributes:
        concepts: Concept and phrases, sorted by concept: the order of the embedding calls.
        references: Phrase vectors once embedded; filled by the first evaluation that succeeds and
            kept as long as the policy object, as only one thread evaluates a policy.
    """

    id: str
    model: str
    concepts: tuple[tuple[str, tuple[str, ...]], ...]
    default_label: str | None
    on_error: OnError
    references: list[tuple[tuple[float, ...], ...]] = msgspec.field(default_factory=list)

    @property
    def labels(self) -> tuple[str, ...]:
        """The concept names."""
        return tuple(name for name, _ in self.concepts)


class Judge(msgspec.Struct, frozen=True):
    """Type `llm`: a chat model picks one label."""

    id: str
    model: str
    prompt: str
    labels: tuple[str, ...]
    default_label: str | None
    on_error: OnError


class Laya(msgspec.Struct, frozen=True):
    """Type `laya`: the class of the conversation's first user message.

    Attributes:
        model: Named by some authors; the scorer is not chosen by a policy.
    """

    id: str
    model: str | None
    labels: tuple[str, ...]
    default_label: str | None
    on_error: OnError


Classifier = ModelClassifier | Similarity | Judge | Laya


class Policy(msgspec.Struct, frozen=True):
    """A policy ready to decide.

    Attributes:
        candidates: Canonical names, in the author's order.
        default_model: Chosen when no rule matches.
        classifiers: Id -> classifier.
        rules: In the author's order.
        normalized: The policy's `routing` with its `router` shorthand written out.
        index: All keywords of the rules; `None` if looking for each by itself is as good.
    """

    candidates: tuple[str, ...]
    default_model: str
    classifiers: dict[str, Classifier]
    rules: tuple[Rule, ...]
    normalized: dict[str, object]
    index: KeywordIndex | None = None

    @property
    def helper_models(self) -> tuple[str, ...]:
        """The models that deciding may call, sorted, each once."""
        names = {c.model for c in self.classifiers.values() if c.model is not None}
        return tuple(sorted(names))
