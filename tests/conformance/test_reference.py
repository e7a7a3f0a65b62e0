"""The reference corpora and goldens: what another server's engine answered, to the letter."""

from pathlib import Path

import pytest

from policies.engine import decide
from policies.errors import PolicyError, RequestError
from policies.parse import parse_policy
from policies.request import context_of
from policies.stubs import StubbedServices
from support import corpus, shared


def golden_rows(name: str) -> list[dict[str, object]]:
    path = shared.ROOT / "data/lemonade/goldens" / name
    return shared.json_lines(path) if path.is_file() else []


def reference_cases(name: str) -> list[corpus.Case]:
    path: Path = shared.ROOT / "data/lemonade" / name
    return corpus.collect(path) if path.is_dir() else []


def test_the_reference_data_is_there() -> None:
    shared.folder("data/lemonade/goldens")
    assert len(reference_cases("conformance")) == 63
    assert len(reference_cases("conformance_total_chars")) == 73
    assert len(golden_rows("policy_errors.jsonl")) == 109
    assert len(golden_rows("semantics.jsonl")) == 110


@pytest.mark.parametrize(
    ("policy", "row"),
    [
        pytest.param(policy, row, id=f"{name}:{case}")
        for name in ("conformance", "conformance_total_chars")
        for case, policy, row in reference_cases(name)
    ],
)
def test_a_reference_case_decides_the_same(policy: object, row: dict[str, object]) -> None:
    decision, services = corpus.run(policy, row)
    assert decision.to_json() == row["decision"]
    assert services.unknown == []


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=str(row["name"])) for row in golden_rows("policy_errors.jsonl")]
)
def test_a_policy_is_refused_with_the_same_text(row: dict[str, object]) -> None:
    types = row.get("types")
    assert types is None or isinstance(types, dict)
    assert corpus.error_of(row["policy"], types) == row["error"]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=str(row["name"])) for row in golden_rows("semantics.jsonl")]
)
def test_a_request_is_decided_the_same(row: dict[str, object]) -> None:
    expect, request, stubs = row["expect"], row["request"], row.get("services")
    assert isinstance(expect, dict)
    assert isinstance(request, dict)
    assert stubs is None or isinstance(stubs, dict)
    if "error" in expect:
        with pytest.raises((PolicyError, RequestError)) as caught:
            decide(parse_policy(row["policy"]), context_of(request), None, trace=True)
        assert str(caught.value) == expect["error"]
        return
    context = context_of(request)
    seen = {"chars", "has_images", "has_tools", "input", "metadata"}
    assert {name: getattr(context, name) for name in seen} == expect["context"]
    services = None if stubs is None else StubbedServices(stubs)
    policy = parse_policy(row["policy"])
    decision = decide(policy, context, services, trace=context.wants_trace)
    assert decision.to_json() == expect["decision"]
    assert decision.header == expect["header"]
    calls = [] if services is None else services.calls
    assert without_prompts(calls) == without_prompts(expect.get("calls", []))


def without_prompts(calls: list[dict[str, str]]) -> list[dict[str, str]]:
    """Leave out the system prompts: their order is the contract, their wording is not."""
    return [{key: value for key, value in call.items() if key != "prompt"} for call in calls]
