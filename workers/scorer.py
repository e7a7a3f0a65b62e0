"""The scorer worker: evaluates policies, for requests and for those who try a policy out.

It takes no ticket and waits for no device: a decision is microseconds of Python in a process of its own.
What may wait is evaluated in a thread, so that it delays nobody else and no heartbeat: the table's policy
while a slow backend would be asked, and a user's policy always, since its conditions may call models and
its patterns take their time to compile.
Whatever is wrong with a request or a backend, the answer is the default model, never nothing.
"""

import threading
import time

import msgspec

from policies.desugar import POLICY_NAME, to_policy
from policies.document import Laya, Policy
from policies.engine import Decision, decide
from policies.errors import PolicyError, RequestError
from policies.parse import parse_policy
from policies.request import RouteContext, context_of, head_of
from policies.table import CLASSES, Table
from scheduler.wire.catalogue import CatalogueBody
from workers.circuit import Classifier
from workers.helper import Judgement, Service
from workers.models import Models
from workers.pool import Pool
from workers.runner import Tell
from workers.session import Judge
from workers.validate import TrialError, read_trial, trial_answer, trial_error

TOOLS_RULE = "agent-tools"
_THREADS = 4  # decisions that wait for models at the same time, and as many for the backend
_decode_object = msgspec.json.Decoder(dict[str, object]).decode


class Scorer:
    """Decides where conversations go."""

    def __init__(self, classifier: Classifier, frontend: str) -> None:
        """Remember who tells classes apart.

        Args:
            classifier: Loaded and warm.
            frontend: The broker's client endpoint, over which conditions reach models.
        """
        self._classifier = classifier
        self._frontend = frontend
        self._table: Table | None = None
        self._shipped: Policy | None = None  # the table's
        self._documents: dict[str, bytes] = {}  # those of users, by name
        self._copies = threading.local()
        self._pool = Pool(_THREADS, "decide")
        self._waiting = Pool(
            _THREADS, "wait"
        )  # of its own: a model of a policy may take ten seconds

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the table's policy and the users'. A user's is parsed when it is first asked for."""
        self._table = body.parsed()
        self._shipped = parse_policy(to_policy(self._table))
        self._documents = {name: bytes(raw) for name, raw in body.policies.items()}

    def joined(self, tell: Tell) -> None:
        """Say nothing: a scorer's READY is all."""

    def backend(self) -> str:
        """Return who tells classes apart now, for the heartbeat."""
        return self._classifier.name

    def fetch(self, model: str, tell: Tell) -> None:
        """A scorer brings nothing; that is the store's."""

    def begin(self, question: Judge, tell: Tell) -> None:
        """Decide or try out, here or in a thread."""
        table, policy = self._table, self._shipped
        if question.op == "validate":
            self._pool.begin(question, lambda: self._try_out(question, tell))
        elif table is None or policy is None or time.monotonic() >= question.expires_at:
            return
        elif question.name == POLICY_NAME:
            if self._classifier.may_wait():
                self._waiting.begin(question, lambda: self._judge(question, policy, table, tell))
            else:
                self._judge(question, policy, table, tell)
        elif question.name in self._documents:
            self._pool.begin(question, lambda: self._judge_users(question, table, tell))

    def _judge_users(self, question: Judge, table: Table, tell: Tell) -> None:
        """Judge by a user's policy, in a thread: its conditions may call models.

        Each thread has a copy of its own, since a policy keeps what its conditions embedded.
        """
        copies: dict[str, tuple[bytes, Policy]] = self._copies.__dict__
        document = self._documents.get(question.name, b"")
        kept = copies.get(question.name)
        if kept is None or kept[0] != document:
            try:
                kept = (document, parse_policy(msgspec.json.decode(document)))
            except (msgspec.DecodeError, PolicyError):
                return  # kept by a store of another version: the default model answers
            copies[question.name] = kept
        self._judge(question, kept[1], table, tell)

    def _judge(self, question: Judge, policy: Policy, table: Table, tell: Tell) -> None:
        context = _context(question.body)
        if context is None:
            # no request a policy can look at: the engine that answers will say what is wrong with it
            decision = Decision(policy.default_model, "", default_used=True, outputs={})
        else:
            decision = self._decide(question, policy, context, trace=context.wants_trace)
        if time.monotonic() >= question.expires_at:
            return  # the client has the default model's answer by now
        class_, confidence = _class_of(decision, policy, table)
        tell(
            Judgement(
                ticket=question.ticket,
                rule=decision.header,
                model=decision.route_to,
                class_=class_,
                confidence=confidence,
                scorer_down=bool(decision.failed) and decision.default_used,
                decision=msgspec.json.encode(decision.to_json()),
            )
        )

    def _try_out(self, question: Judge, tell: Tell) -> None:
        try:
            trial = read_trial(question.body)
        except TrialError as error:
            tell(Service(question.ticket, 400, trial_error(str(error))))
            return
        decision = self._decide(question, trial.policy, trial.context, trace=True)
        tell(Service(question.ticket, 200, trial_answer(trial, decision)))

    def _decide(
        self, question: Judge, policy: Policy, context: RouteContext, *, trace: bool
    ) -> Decision:
        if not policy.helper_models:
            classes = _Classes(self._classifier, question.expires_at)
            return decide(policy, context, classes, trace=trace)
        models = Models(
            self._frontend,
            question.lane,
            question.expires_at,
            self._classifier,
            ticket=question.ticket,
        )
        try:
            return decide(policy, context, models, trace=trace)
        finally:
            models.close()


class _Classes:
    """The seam to models for a policy that calls none: only the classes are there."""

    def __init__(self, classifier: Classifier, due_at: float) -> None:
        self._classifier = classifier
        self._due_at = due_at

    def classify_laya(self, text: str) -> tuple[str, float]:
        """Return the chosen class and the confidence in it."""
        verdict = self._classifier.classify(text, self._due_at)
        return verdict.label, verdict.confidence

    def embed(self, model: str, text: str) -> list[float]:
        """Fail; never asked."""
        raise LookupError(model)

    def run_classifier(self, model: str, text: str) -> dict[str, float]:
        """Fail; never asked."""
        raise LookupError(model)

    def chat(self, model: str, system: str, user: str) -> str:
        """Fail; never asked."""
        raise LookupError(model)


def _context(raw: bytes) -> RouteContext | None:
    """Return what a policy sees of a request cut after its first user message."""
    try:
        return context_of(head_of(_decode_object(raw)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RequestError):
        return None


def _class_of(decision: Decision, policy: Policy, table: Table) -> tuple[str, float | None]:
    """Return the class behind a decision, empty where none was decided, and the confidence in it."""
    if decision.matched_rule == TOOLS_RULE:
        return table.tools or "", None
    for name, labels in decision.scores.items():
        if isinstance(policy.classifiers[name], Laya):
            for class_ in CLASSES:
                if labels.get(class_, 0.0) > 0.0:
                    return class_, labels[class_]
    return "", None
