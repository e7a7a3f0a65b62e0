"""Desugaring: the policy that a table stands for, to the byte."""

import json

from policies import shipped
from policies.desugar import to_policy, to_text
from policies.table import parse_table


def test_components_start_with_the_default_and_name_each_model_once() -> None:
    policy = to_policy(parse_table(shipped.read("laya-first.json")))
    assert policy["model_name"] == "user.Laya-First"
    assert policy["components"] == [
        "Qwen3-0.6B-1bit",
        "ZAYA1-8B-1bit",
        "Qwen3-Coder-30B-A3B-Instruct-1bit",
        "Qwen3.8-27B-1bit",
    ]


def test_rules_come_in_a_fixed_order_with_a_floor_above_zero() -> None:
    routing = json.loads(to_text(parse_table(shipped.read("embedded.json"))))["routing"]
    assert [rule["id"] for rule in routing["rules"]] == [
        "agent-tools",
        "laya-code",
        "laya-prose",
        "laya-short",
        "laya-long_doc",
    ]
    assert routing["rules"][0]["match"] == {"has_tools": True}
    assert {rule["match"]["min_score"] for rule in routing["rules"][1:]} == {0.01}


def test_the_bytes_are_stable_and_end_with_one_newline() -> None:
    text = to_text(parse_table(shipped.read("laya-first.json")))
    assert text == to_text(parse_table(shipped.read("laya-first.json")))
    assert text.startswith('{\n  "version": "1",\n  "model_name"')
    assert text.endswith("}\n")
    assert not text.endswith("\n\n")
