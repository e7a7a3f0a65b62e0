"""Scores: what a broken or odd model costs, and how similarity is kept."""

from collections.abc import Mapping, Sequence

import pytest

from policies.document import Laya, ModelClassifier, Similarity
from policies.engine import decide
from policies.judge import read_reply
from policies.parse import parse_policy
from policies.request import context_of
from policies.scoring import FAILED, Score, cosine, evaluate
from policies.stubs import StubbedServices

CONTEXT = context_of({"prompt": "q"})


class Broken:
    """Fails in ways that no contract foresees."""

    def embed(self, model: str, text: str) -> Sequence[float]:
        raise MemoryError

    def run_classifier(self, model: str, text: str) -> Mapping[str, float]:
        raise KeyError(model)

    def chat(self, model: str, system: str, user: str) -> str:
        raise OSError

    def classify_laya(self, text: str) -> tuple[str, float]:
        raise TimeoutError


@pytest.mark.parametrize(
    "classifier",
    [
        ModelClassifier("c", "m", (), None, "match_false"),
        Similarity("s", "m", (("a", ("b",)),), None, "match_false"),
        Laya("l", None, ("code",), None, "match_false"),
    ],
)
def test_no_failure_of_a_model_escapes(classifier: ModelClassifier | Similarity | Laya) -> None:
    assert evaluate(classifier, CONTEXT, Broken()) == FAILED
    assert evaluate(classifier, CONTEXT, None) == FAILED


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_confidence_outside_its_range_is_a_failure(confidence: float) -> None:
    services = StubbedServices({"classify_laya": {"*": {"code": confidence}}})
    assert evaluate(Laya("l", None, ("code",), None, "match_false"), CONTEXT, services) == FAILED


def test_reference_phrases_are_embedded_once_and_only_kept_when_complete() -> None:
    classifier = Similarity("s", "m", (("a", ("p1", "p2")),), None, "match_false")
    broken = StubbedServices({"embed": {"m": {"p1": [1, 0], "p2": None, "q": [1, 0]}}})
    assert not evaluate(classifier, CONTEXT, broken).ok
    whole = StubbedServices({"embed": {"m": {"p1": [1, 0], "p2": [0, 1], "q": [1, 0]}}})
    assert evaluate(classifier, CONTEXT, whole) == Score({"a": 1.0})
    assert evaluate(classifier, CONTEXT, whole) == Score({"a": 1.0})
    assert [call["embed"] for call in whole.calls] == ["p1", "p2", "q", "q"]


@pytest.mark.parametrize(
    ("left", "right", "value"),
    [
        ([], [], None),
        ([1.0], [1.0, 2.0], None),
        ([0.0], [1.0], None),
        ([1.0], [0.0], None),
        ([3.0, 4.0], [3.0, 4.0], 1.0),
        ([1.0, 0.0], [-1.0, 0.0], -1.0),
    ],
)
def test_cosines(left: list[float], right: list[float], value: float | None) -> None:
    assert cosine(left, right) == value


@pytest.mark.parametrize(
    "reply", ["[" * 100_000, '{"model": 1, "rationale": "r"}', "```\n```", "NaN"]
)
def test_an_answer_of_another_form_is_no_choice(reply: str) -> None:
    assert read_reply(reply) is None


def test_a_stopped_pattern_is_counted_and_marked() -> None:
    policy = parse_policy(
        {
            "version": "1",
            "recipe": "collection.router",
            "components": ["a"],
            "routing": {
                "candidates": ["a"],
                "default_model": "a",
                "rules": [{"id": "r", "match": {"regex": r"(a+)\1+b"}, "route_to": "a"}],
            },
        }
    )
    context = context_of({"prompt": "a" * 100_000 + "xb"})
    decision = decide(policy, context, None, trace=True)
    assert decision.timeouts == 1
    assert decision.to_json()["trace"] == [
        {"condition": "regex", "result": False, "rationale": "timed out"}
    ]
    assert decide(policy, context, None, trace=False).trace == ()


def test_helper_models_are_sorted_and_laya_brings_none() -> None:
    classifiers = [
        {"id": "b", "type": "classifier", "model": "z"},
        {"id": "a", "type": "llm", "model": "y", "prompt": "p", "labels": ["l"]},
        {"id": "c", "type": "classifier", "model": "z"},
        {"id": "l", "type": "laya", "labels": ["code"]},
    ]
    policy = parse_policy(
        {
            "version": "1",
            "recipe": "collection.router",
            "components": ["x", "y", "z"],
            "routing": {
                "candidates": ["x"],
                "default_model": "x",
                "classifiers": classifiers,
                "rules": [{"id": "r", "match": {"min_chars": 0}, "route_to": "x"}],
            },
        }
    )
    assert policy.helper_models == ("y", "z")


def test_names_are_resolved_and_labels_are_not() -> None:
    policy = parse_policy(
        {
            "version": "1",
            "recipe": "collection.router",
            "components": ["x", "y"],
            "routing": {
                "candidates": ["x", "y"],
                "default_model": "x",
                "router": {"type": "llm", "model": "y", "prompt": "p"},
            },
        },
        resolve=lambda name: name.upper(),
    )
    assert policy.candidates == ("X", "Y")
    assert [rule.route_to for rule in policy.rules] == ["X", "Y"]
    assert policy.classifiers["__router"].labels == ("x", "y")
    assert policy.helper_models == ("Y",)
    services = StubbedServices({"chat": {"Y": '{"model": "y", "rationale": "r"}'}})
    decision = decide(policy, CONTEXT, services, trace=False)
    assert (decision.route_to, decision.scores) == ("Y", {"__router": {"y": 1.0}})
