"""What a decision costs. The limits are the promise; measured values lie well below them."""

import json
from pathlib import Path
from time import process_time

import pytest

from policies.engine import decide
from policies.parse import parse_policy
from policies.request import Body, context_of

TEN_RULES = json.loads((Path(__file__).parent / "ten_rules.json").read_text(encoding="utf-8"))


def cost(policy_json: object, body: Body, rounds: int) -> float:
    """Return the seconds of one decision, context included, as the best of five batches."""
    policy = parse_policy(policy_json)
    best = float("inf")
    for _ in range(5):
        start = process_time()
        for _ in range(rounds):
            assert decide(policy, context_of(body), None, trace=False).default_used
        best = min(best, (process_time() - start) / rounds)
    return best


def test_ten_rules_on_two_kilobytes_take_at_most_200_us() -> None:
    text = "please look at this paragraph and say what it is about. " * 37
    body: Body = {"messages": [{"role": "user", "content": text}], "metadata": {"tags": "a,b"}}
    assert 2000 <= len(text) <= 2100
    assert cost(TEN_RULES, body, 500) <= 200e-6


@pytest.mark.slow
def test_keywords_and_bounds_on_a_mebibyte_take_at_most_20_ms() -> None:
    words = ["traceback", "ship it", "aaaaaaab", "é", "zzz"]
    rules = [
        {"id": f"r{i}", "match": {"keywords_any": words[i:], "min_chars": 1}, "route_to": "a"}
        for i in range(5)
    ] + [{"id": "b", "match": {"max_total_chars": 10}, "route_to": "a"}]
    policy = {
        "version": "1",
        "recipe": "collection.router",
        "components": ["a"],
        "routing": {"candidates": ["a"], "default_model": "a", "rules": rules},
    }
    for text in ("a" * 1_048_576, "the quick brown fox " * 52_428):
        assert cost(policy, {"messages": [{"role": "user", "content": text}]}, 1) <= 20e-3
