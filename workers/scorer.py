"""The scorer worker's judge: the table's policy, evaluated for the first turn of a conversation.

It takes no ticket and waits for no device: a decision is microseconds of Python in a process of its own.
Whatever is wrong with a request or a backend, the answer is the default model, never nothing.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from policies.desugar import to_policy
from policies.document import Policy
from policies.engine import Decision, decide
from policies.errors import RequestError
from policies.parse import parse_policy
from policies.request import context_of, head_of
from policies.table import CLASSES, Table, parse_table
from workers.judge import Judgement
from workers.session import Judge

LAYA = "laya"  # id of the classifier that the desugared table declares
TOOLS_RULE = "agent-tools"
_decode_object = msgspec.json.Decoder(dict[str, object]).decode


class Verdict(Protocol):
    """What a backend says of a text."""

    @property
    def label(self) -> str:
        """The chosen class: code, prose or short."""
        ...

    @property
    def confidence(self) -> float:
        """1 - H(p)/ln 3, 0 to 1."""
        ...


class Backend(Protocol):
    """Tells code, prose and short texts apart."""

    def classify(self, text: str) -> Verdict:
        """Return the class of a text below the size gate."""
        ...


class Scorer:
    """Decides where a conversation goes."""

    def __init__(self, backend: Backend, name: str) -> None:
        """Remember the backend.

        Args:
            backend: Loaded and warm.
            name: What it is called in status.
        """
        self.backend = name
        self._services = _Services(backend)
        self._table: Table | None = None
        self._policy: Policy | None = None

    def take_table(self, table: bytes) -> None:
        """Learn the table and the policy it stands for."""
        parsed = parse_table(table.decode())
        self._policy = parse_policy(to_policy(parsed))
        self._table = parsed

    def decide(self, question: Judge) -> Judgement | None:
        """Return the judgement, or None if its time is over or no table came yet."""
        table, policy = self._table, self._policy
        if table is None or policy is None or time.monotonic() >= question.expires_at:
            return None
        decision = self._decision(policy, question.body)
        class_, confidence = _class_of(decision, table)
        return Judgement(
            rule=decision.header,
            model=decision.route_to,
            class_=class_,
            confidence=confidence,
            scorer_down=bool(decision.failed) and decision.default_used,
            decision=msgspec.json.encode(decision.to_json()),
        )

    def _decision(self, policy: Policy, raw: bytes) -> Decision:
        try:
            context = context_of(head_of(_decode_object(raw)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError):
            # no request the policy can look at: the engine that answers will say what is wrong with it
            return Decision(policy.default_model, "", default_used=True, outputs={})
        return decide(policy, context, self._services, trace=context.wants_trace)


class _Services:
    """The policy's seam to models: here only the classes; other models are not reached yet."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def classify_laya(self, text: str) -> tuple[str, float]:
        """Return the chosen class and the confidence in it."""
        verdict = self._backend.classify(text)
        return verdict.label, verdict.confidence

    def embed(self, model: str, text: str) -> Sequence[float]:
        """Fail: the condition takes its on_error."""
        raise Unreached(model)

    def run_classifier(self, model: str, text: str) -> Mapping[str, float]:
        """Fail: the condition takes its on_error."""
        raise Unreached(model)

    def chat(self, model: str, system: str, user: str) -> str:
        """Fail: the condition takes its on_error."""
        raise Unreached(model)


class Unreached(Exception):
    """A policy's model is not reached from the scorer."""


def _class_of(decision: Decision, table: Table) -> tuple[str, float | None]:
    """Return the class behind a decision, empty where none was decided, and the confidence in it."""
    if decision.matched_rule == TOOLS_RULE:
        return table.tools or "", None
    labels = decision.scores.get(LAYA, {})
    for name in CLASSES:
        if labels.get(name, 0.0) > 0.0:
            return name, labels[name]
    return "", None
