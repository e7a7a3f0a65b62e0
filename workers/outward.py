"""The decision daemon's protocol, spoken outward: one JSON object a line in, one a line out. Pure.

Another program, such as Lemonade's fork or another Fairlane, drives us as it would drive `laya daemon`.
Source of the lines' form: that daemon. What we add and refuse: WORKERS.md, "The scorer, asked from outside".
Rules of this file: each line gets exactly one line, whatever is on it; nothing a line says ends the process.
"""

import json
from collections.abc import Callable, Mapping

from msgspec import Struct

from policies.scoring import LONG_DOC, LONG_DOC_BYTES
from policies.shape import decode, is_array, is_object, utf8
from workers.backend import Backend, BackendError
from workers.question import CRITERIA, QUESTION_ID

Reply = dict[str, object]

BY_LENGTH = "size_gate"  # the text is a document by its length; no model was asked
BY_SCORER = "scorer"  # the backend chose
SCORER_DOWN = "scorer_down"  # the backend could not choose
_PLACES = 4  # of every number, as in the daemon's replies
_NAME_MAX = 60  # characters of a question's name that an error repeats


class Told(Struct, frozen=True):
    """The class of a text.

    Attributes:
        class_: One of the four.
        confidence: 0 to 1.
        probabilities: Label -> share, 0 to 1; empty where the backend tells none.
        why: `size_gate` or `scorer`.
    """

    class_: str
    confidence: float
    probabilities: Mapping[str, float]
    why: str


class _Malformed(Exception):
    """A request cannot be answered; the text says why."""


def tell(backend: Backend, text: str) -> Told:
    """Return the class of a text. A document is told by its length, without asking the backend.

    Raises:
        BackendError: The backend cannot tell.
    """
    if len(utf8(text)) >= LONG_DOC_BYTES:
        return Told(LONG_DOC, 1.0, {LONG_DOC: 1.0}, BY_LENGTH)
    verdict = backend.classify(text)
    return Told(verdict.label, verdict.confidence, verdict.probabilities, BY_SCORER)


def ready(backend: Backend) -> bytes:
    """Return the first line, which says that questions may come and who answers them."""
    return _line({"status": "ready", "model": backend.name})


def refused(reason: str) -> bytes:
    """Return the answer to a line whose id nobody can know."""
    return _line({"error": reason})


class Outward:
    """Answers lines."""

    def __init__(self, backend: Backend, clock: Callable[[], float]) -> None:
        """Remember the backend.

        Args:
            backend: Warm.
            clock: Seconds, for what a reply says of its time.
        """
        self._backend = backend
        self._clock = clock

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line, both without what separates lines; None for a blank line."""
        if not line.strip():
            return None
        try:
            request = decode(line.decode("utf-8"))
            if not is_object(request):
                return refused("the line must hold a JSON object")
            return _line({**self._reply(request), "id": request.get("id", "0")})
        except RecursionError:
            return refused("not JSON that can be read: nested too deeply")
        except (
            ValueError
        ) as error:  # wrong bytes, no JSON, or an id such as 1e999 that JSON cannot spell
            return refused(f"not JSON that can be read: {error}")

    def _reply(self, request: dict[str, object]) -> Reply:
        """Return the reply to a request, without its id."""
        began_at = self._clock()
        try:
            questions = _questions_of(request, self._backend.name)
            text = _text_of(request)
            told = tell(self._backend, text)
        except _Malformed as error:
            return {"error": str(error)}
        except BackendError as error:
            return {"error": str(error), "why": SCORER_DOWN}
        latency_ms = round((self._clock() - began_at) * 1e3, _PLACES)
        return {
            "model": self._backend.name,
            "answers": {name: _answer(told, labels) for name, labels in questions.items()},
            "usage": {"input_tokens": 0, "output_tokens": 0, "latency_ms": latency_ms},
            "class": told.class_,
            "confidence": round(told.confidence, _PLACES),
            "why": told.why,
        }


def _text_of(request: dict[str, object]) -> str:
    """Return what is asked about: `text`, else `state`, which need be no string."""
    text, state = request.get("text"), request.get("state")
    if text is not None:
        if not isinstance(text, str):
            raise _Malformed("'text' must be a string")
        return text
    if state is None:
        raise _Malformed("missing state")
    return state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)


def _questions_of(request: dict[str, object], model: str) -> dict[str, list[str]]:
    """Return question -> its labels in the order asked; a text alone asks the one that is always asked."""
    if request.get("preset") is not None:
        raise _Malformed("presets are not known here; ask with 'questions'")
    questions = request.get("questions")
    if questions is None and request.get("text") is not None:
        return {QUESTION_ID: list(CRITERIA)}
    if not questions:
        raise _Malformed("missing questions")
    if not is_object(questions):
        raise _Malformed("'questions' must be an object of questions")
    return {name: _labels_of(name, asked, model) for name, asked in questions.items()}


def _labels_of(name: str, asked: object, model: str) -> list[str]:
    where = f"question '{name[:_NAME_MAX]}'"
    if not is_object(asked):
        raise _Malformed(f"{where} must be an object")
    kind, criteria = asked.get("type", "choice"), asked.get("criteria")
    if kind != "choice":
        raise _Malformed(f"{where}: {model} answers the type 'choice' alone")
    labels = list(criteria) if is_object(criteria) or is_array(criteria) else []
    texts = [label for label in labels if isinstance(label, str)]
    if len(texts) != len(CRITERIA) or set(texts) != CRITERIA.keys():
        raise _Malformed(f"{where}: {model} chooses among {', '.join(CRITERIA)}, and nothing else")
    return texts


def _answer(told: Told, labels: list[str]) -> Reply:
    """Return the answer to a choice among labels.

    Of a document none was chosen: the shares are even and the confidence is 0, so that a client that has no
    class for documents takes its own default.
    """
    if told.why == BY_LENGTH:
        shares: Mapping[str, float] = dict.fromkeys(labels, 1.0 / len(labels))
        choice, confidence = labels[0], 0.0
    else:
        shares, choice, confidence = told.probabilities, told.class_, told.confidence
    return {
        "type": "choice",
        "choice": choice,
        "probabilities": {x: round(shares[x], _PLACES) for x in labels if x in shares},
        "confidence": round(confidence, _PLACES),
        "action": {"act_probability": 1.0},  # clients look for it; it is 1.0 whatever was asked
    }


def _line(reply: Reply) -> bytes:
    return json.dumps(reply, separators=(",", ":"), allow_nan=False).encode()
