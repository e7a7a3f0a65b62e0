"""Scores: what each type of classifier makes of a request.

A failed call is a score too, one that is not `ok`. An empty score is a success: nothing was
recognised, and every label reads 0.0.
"""

import math
from array import array
from collections.abc import Sequence

import msgspec

from policies.document import Classifier, Judge, Laya, ModelClassifier, Similarity
from policies.judge import read_reply, system_text, user_text
from policies.request import RouteContext
from policies.services import ModelServices
from policies.shape import utf8

# From this length on a first turn is a document, whatever it says, and no model is asked.
LONG_DOC = "long_doc"
LONG_DOC_BYTES = 1024

_CLASSES = frozenset({"short", "prose", "code", LONG_DOC})


class Score(msgspec.Struct, frozen=True):
    """What a classifier said.

    Attributes:
        labels: Label -> score; a label that is missing scores 0.0.
        ok: Whether the call succeeded.
        rationale: The model's own reason, empty if it gave none.
    """

    labels: dict[str, float] = {}
    ok: bool = True
    rationale: str = ""

    def of(self, label: str | None) -> float:
        """Return a label's score; without a label the only score, 0.0 if there is not just one."""
        if label is not None:
            return self.labels.get(label, 0.0)
        return next(iter(self.labels.values())) if len(self.labels) == 1 else 0.0


FAILED = Score(ok=False)


def evaluate(
    classifier: Classifier, context: RouteContext, services: ModelServices | None
) -> Score:
    """Run a classifier once.

    Args:
        classifier: Which one.
        context: The request.
        services: The models; `None`: there are none, and every call to one fails.

    Returns:
        Its score. A call that fails in any way is a score that is not `ok`, never an exception:
        a broken model may cost a request its best candidate, it can never refuse the request.
    """
    if isinstance(classifier, Laya) and _is_long(classifier, context.laya_text):
        return Score({LONG_DOC: 1.0})
    if services is None:
        return FAILED
    try:
        return _call(classifier, context, services)
    except Exception:  # noqa: BLE001  # what lies behind the seam may fail in any way
        return FAILED


def _is_long(classifier: Laya, text: str) -> bool:
    return LONG_DOC in classifier.labels and len(utf8(text)) >= LONG_DOC_BYTES


def _call(classifier: Classifier, context: RouteContext, services: ModelServices) -> Score:
    if isinstance(classifier, ModelClassifier):
        return Score(dict(services.run_classifier(classifier.model, context.input)))
    if isinstance(classifier, Similarity):
        return _similarity(classifier, context, services)
    if isinstance(classifier, Judge):
        reply = services.chat(classifier.model, system_text(classifier), user_text(context))
        return _choice(classifier, reply)
    return _laya(classifier, context, services)


def _choice(judge: Judge, reply: str) -> Score:
    choice = read_reply(reply)
    if choice is None or choice.label not in judge.labels:
        return Score()
    return Score({choice.label: 1.0}, rationale=choice.rationale)


def _laya(classifier: Laya, context: RouteContext, services: ModelServices) -> Score:
    label, confidence = services.classify_laya(context.laya_text)
    known = label in classifier.labels or label in _CLASSES
    if not known or not 0.0 <= confidence <= 1.0:
        return FAILED
    return Score({label: float(confidence)})


def _similarity(classifier: Similarity, context: RouteContext, services: ModelServices) -> Score:
    references = classifier.references
    if not references:
        # All or nothing: a failure half-way is not kept, so the next request tries again.
        vectors = [
            tuple(_single(services.embed(classifier.model, phrase)) for phrase in phrases)
            for _, phrases in classifier.concepts
        ]
        references.extend(vectors)
    vector = _single(services.embed(classifier.model, context.input))
    labels: dict[str, float] = {}
    for (concept, _), phrases in zip(classifier.concepts, references, strict=True):
        best = 0.0
        for phrase in phrases:
            nearness = cosine(vector, phrase)
            if nearness is None:
                return FAILED
            best = max(best, nearness)
        labels[concept] = min(best, 1.0)
    return Score(labels)


def _single(vector: Sequence[float]) -> tuple[float, ...]:
    """Round a vector to single precision, which is how it is compared elsewhere too."""
    return tuple(array("f", vector))


def cosine(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the cosine of the angle between two vectors, -1 to 1.

    Returns:
        `None` if they are empty, of different length, or one of them is zero.
    """
    if not left or len(left) != len(right):
        return None
    # Plain sums from left to right: a compensated sum would differ in the last digit.
    dot = left_square = right_square = 0.0
    for a, b in zip(left, right, strict=True):
        dot += a * b
        left_square += a * a
        right_square += b * b
    if left_square <= 0.0 or right_square <= 0.0:
        return None
    return dot / (math.sqrt(left_square) * math.sqrt(right_square))
