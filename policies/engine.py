"""Deciding: the first rule that matches names the candidate, else the default does."""

import msgspec

from policies.conditions import Evaluation, TraceEntry
from policies.document import Policy
from policies.request import RouteContext
from policies.services import ModelServices

DECISION_VERSION = "1"


class Decision(msgspec.Struct, frozen=True):
    """What a policy says about a request.

    Attributes:
        route_to: Canonical name of the chosen candidate.
        matched_rule: Id of the rule that chose it, empty if none did.
        default_used: No rule matched. A rule that names the default is a match all the same.
        outputs: The rule's outputs; treat as constant.
        trace: Leaves in the order of their evaluation, those of rules that missed included.
        failed: Ids of the classifiers whose model failed, in the order of their calls.
        timeouts: Patterns that were stopped and counted as no match.
        scores: Classifier id -> label -> score, of the classifiers that were called and succeeded.
    """

    route_to: str
    matched_rule: str
    default_used: bool
    outputs: dict[str, object]
    trace: tuple[TraceEntry, ...] = ()
    failed: tuple[str, ...] = ()
    timeouts: int = 0
    scores: dict[str, dict[str, float]] = {}

    def to_json(self) -> dict[str, object]:
        """Return the Decision object as builtins; `trace` only if there is one."""
        result: dict[str, object] = {
            "version": DECISION_VERSION,
            "route_to": self.route_to,
            "matched_rule": self.matched_rule,
            "default_used": self.default_used,
            "outputs": dict(self.outputs),
        }
        if self.trace:
            result["trace"] = msgspec.to_builtins(list(self.trace))
        return result

    @property
    def header(self) -> str:
        """The value of `x-lemonade-route`: the rule's id, or `default`."""
        return self.matched_rule or "default"


def decide(
    policy: Policy, context: RouteContext, services: ModelServices | None, *, trace: bool
) -> Decision:
    """Decide one request.

    Args:
        policy: The policy.
        context: The request.
        services: The models; `None` makes every model-backed condition fail.
        trace: Whether to record the leaves.
    """
    evaluation = Evaluation(policy, context, services, trace=trace)
    for rule in policy.rules:
        if evaluation.holds(rule.match):
            return _decision(evaluation, rule.route_to, rule.id, rule.outputs)
    return _decision(evaluation, policy.default_model, "", {})


def _decision(
    evaluation: Evaluation, route_to: str, rule_id: str, outputs: dict[str, object]
) -> Decision:
    scores = evaluation.scores
    return Decision(
        route_to=route_to,
        matched_rule=rule_id,
        default_used=not rule_id,
        outputs=outputs,
        trace=tuple(evaluation.trace),
        failed=tuple(name for name, score in scores.items() if not score.ok),
        timeouts=evaluation.timeouts,
        scores={name: score.labels for name, score in scores.items() if score.ok},
    )
