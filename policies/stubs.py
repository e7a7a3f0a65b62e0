"""Models that answer from a table: for the offline commands, and for any test.

The table is an object of `embed` (model -> text -> vector), `run_classifier` (model -> label ->
score), `chat` (model -> reply) and `classify_laya` (class -> confidence, one entry, for any text;
or text -> class -> confidence, where the text `*` stands for every other). Null in place of an
answer is a call that fails, and so is a call that the table does not know.
"""

from collections.abc import Mapping, Sequence

import msgspec

from policies.shape import is_number, is_object


class StubError(Exception):
    """The table fails this call, or does not know it."""


class StubbedServices:
    """A table as models.

    Attributes:
        calls: Every call in order: the service's name and what it was asked.
        unknown: The calls that the table does not know.
    """

    def __init__(self, table: Mapping[str, object]) -> None:
        self.table = table
        self.calls: list[dict[str, str]] = []
        self.unknown: list[str] = []

    def embed(self, model: str, text: str) -> Sequence[float]:
        """Return the vector for a text."""
        self.calls.append({"embed": text})
        vectors = self._answer(self.table.get("embed"), model, f"embed {model}")
        return msgspec.convert(self._answer(vectors, text, f"embed {model} {text!r}"), list[float])

    def run_classifier(self, model: str, text: str) -> Mapping[str, float]:
        """Return the scores of a model, whatever the text."""
        self.calls.append({"run_classifier": model})
        scores = self._answer(self.table.get("run_classifier"), model, f"run_classifier {model}")
        return msgspec.convert(scores, dict[str, float])

    def chat(self, model: str, system: str, user: str) -> str:
        """Return the reply of a model, whatever it is asked."""
        self.calls.append({"chat": model, "prompt": system, "input": user})
        return msgspec.convert(self._answer(self.table.get("chat"), model, f"chat {model}"), str)

    def classify_laya(self, text: str) -> tuple[str, float]:
        """Return the class of a text."""
        self.calls.append({"classify_laya": text})
        answers = self.table.get("classify_laya")
        if is_object(answers) and any(is_number(value) for value in answers.values()):
            answers = {"*": answers}
        key = text if is_object(answers) and text in answers else "*"
        answer = self._answer(answers, key, f"classify_laya {text!r}")
        ((label, confidence),) = msgspec.convert(answer, dict[str, float]).items()
        return label, confidence

    def _answer(self, answers: object, key: str, call: str) -> object:
        if answers is None and call.partition(" ")[0] in self.table:
            raise StubError(f"{call} is stubbed to fail")
        if not is_object(answers) or key not in answers:
            self.unknown.append(call)
            raise StubError(f"no stub for {call}")
        if answers[key] is None:
            raise StubError(f"{call} is stubbed to fail")
        return answers[key]
