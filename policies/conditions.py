"""Evaluating a match: left to right, no further than needed, with a trace on demand.

Nothing here raises. Deterministic conditions cannot fail, and a classifier that fails is a leaf
that takes its `on_error`.
"""

from typing import assert_never

import msgspec

from policies.document import (
    All,
    AnyOf,
    Band,
    Chars,
    Feature,
    Keywords,
    Leaf,
    Match,
    Metadata,
    Not,
    Policy,
    Regex,
)
from policies.keywords import INDEX_BYTES
from policies.request import RouteContext
from policies.scoring import Score, evaluate
from policies.services import ModelServices

_BLANK = " \t\r\n"


class TraceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One leaf that was evaluated.

    Attributes:
        condition: The leaf's name, `classifier:<id>` for a band.
        result: What the leaf said; a `not` around it does not turn it.
        score: What a classifier that succeeded gave.
        label: The label that a band names.
        rationale: A chat model's reason for the label that the band tests; on a pattern that was
            stopped, that it was.
    """

    condition: str
    result: bool
    score: float | None = None
    label: str | None = None
    rationale: str | None = None


class Evaluation:
    """One request under evaluation: what is remembered between its leaves.

    Attributes:
        scores: Classifier id -> its score; each classifier runs at most once, failed or not.
        trace: Leaves evaluated so far, in order; empty if no trace is wanted.
        timeouts: Patterns stopped by the clock.
    """

    def __init__(
        self,
        policy: Policy,
        context: RouteContext,
        services: ModelServices | None,
        *,
        trace: bool,
    ) -> None:
        self.context = context
        self.classifiers = policy.classifiers
        self.index = policy.index
        self.services = services
        self.wants_trace = trace
        self.scores: dict[str, Score] = {}
        self.trace: list[TraceEntry] = []
        self.timeouts = 0
        self._folded: bytes | None = None
        # Keyword -> whether it occurs, as far as that is known.
        self._occurring: dict[bytes, bool] = {}

    def holds(self, match: Match) -> bool:
        """Tell whether a match is true for the request."""
        if isinstance(match, All):
            return all(self.holds(child) for child in match.children)
        if isinstance(match, AnyOf):
            return any(self.holds(child) for child in match.children)
        if isinstance(match, Not):
            return not self.holds(match.child)
        return self._leaf(match)

    def _leaf(self, leaf: Leaf) -> bool:
        match leaf:
            case Keywords():
                return self._keywords(leaf)
            case Chars():
                return self._chars(leaf)
            case Feature():
                return self._feature(leaf)
            case Metadata():
                return self._traced("metadata", result=holds_metadata(leaf, self.context.metadata))
            case Regex():
                return self._regex(leaf)
            case Band():
                return self._band(leaf)
            case _:
                assert_never(leaf)

    def _traced(self, condition: str, *, result: bool) -> bool:
        if self.wants_trace:
            self.trace.append(TraceEntry(condition, result))
        return result

    def _keywords(self, leaf: Keywords) -> bool:
        if leaf.every:
            result = all(self._occurs(needle) for needle in leaf.needles)
            return self._traced("keywords_all", result=result)
        result = any(self._occurs(needle) for needle in leaf.needles)
        return self._traced("keywords_any", result=result)

    def _occurs(self, needle: bytes) -> bool:
        if self._folded is None:
            self._folded = self.context.data.lower()
            if self.index is not None and len(self._folded) >= INDEX_BYTES:
                self._occurring = self.index.search(self._folded)
        known = self._occurring.get(needle)
        if known is None:
            known = self._occurring[needle] = needle in self._folded
        return known

    def _chars(self, leaf: Chars) -> bool:
        context = self.context
        measured = context.total_chars if "total" in leaf.name else context.chars
        is_floor = leaf.name.startswith("min")
        result = measured >= leaf.limit if is_floor else measured <= leaf.limit
        return self._traced(leaf.name, result=result)

    def _feature(self, leaf: Feature) -> bool:
        context = self.context
        value = context.has_tools if leaf.name == "has_tools" else context.has_images
        return self._traced(leaf.name, result=value == leaf.expected)

    def _regex(self, leaf: Regex) -> bool:
        found = leaf.pattern.search(self.context.data)
        if found is None:
            self.timeouts += 1
            if self.wants_trace:
                self.trace.append(TraceEntry("regex", result=False, rationale="timed out"))
            return False
        return self._traced("regex", result=found)

    def _band(self, leaf: Band) -> bool:
        classifier = self.classifiers[leaf.classifier]
        score = self.scores.get(leaf.classifier)
        if score is None:
            score = evaluate(classifier, self.context, self.services)
            self.scores[leaf.classifier] = score
        if not score.ok:
            result, value = classifier.on_error == "match_true", None
        else:
            label = classifier.default_label if leaf.label is None else leaf.label
            value = score.of(label)
            result = _within(value, leaf)
        if self.wants_trace:
            self.trace.append(_band_entry(leaf, score, value, result=result))
        return result


def _within(value: float, band: Band) -> bool:
    if band.floor is not None and value < band.floor:
        return False
    return band.ceiling is None or value <= band.ceiling


def _band_entry(leaf: Band, score: Score, value: float | None, *, result: bool) -> TraceEntry:
    """Describe a band; a reason belongs to the chosen label, not to a band on another one."""
    chosen = leaf.label is None or leaf.label in score.labels
    rationale = score.rationale if chosen and score.rationale else None
    return TraceEntry(f"classifier:{leaf.classifier}", result, value, leaf.label, rationale)


def holds_metadata(leaf: Metadata, metadata: dict[str, str]) -> bool:
    """Tell whether one key of the metadata is as the leaf wants it.

    A value of nothing but blanks counts as absent; no other white space is blank.
    """
    value = metadata.get(leaf.key, "")
    present = value.strip(_BLANK) != ""
    if leaf.exists is not None:
        return present == leaf.exists
    if leaf.equals is not None:
        return present and value == leaf.equals
    items = {item.strip(_BLANK) for item in value.split(",")} - {""}
    return leaf.any_of is not None and not items.isdisjoint(leaf.any_of)
