"""`routing/validate`: upstream's request, its reply, and each refusal with its text and in its order."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from support.helping import CODER, ROW, Bus, Desk, policy, refused
from workers.policy_bounds import PATTERNS_MAX

DESK = Desk()


def trial(document: object = None, **fields: object) -> dict[str, Any]:
    """Return a request to try a policy out."""
    return {"policy": policy() if document is None else document, **fields}


def refusal(body: object) -> str:
    status, reply = DESK.validate(body)
    assert status == 400
    assert list(reply) == ["error"]
    return str(reply["error"])


def decision(**fields: object) -> dict[str, Any]:
    status, reply = DESK.validate(trial(**fields))
    assert status == 200
    decided: dict[str, Any] = reply["decision"]
    return decided


def test_a_reply_holds_the_decision_with_its_trace_and_the_policy() -> None:
    assert DESK.validate(trial(prompt="Fix it")) == (
        200,
        {
            "decision": {
                "version": "1",
                "route_to": CODER,
                "matched_rule": "fix",
                "default_used": False,
                "outputs": {},
                "trace": [{"condition": "keywords_any", "result": True}],
            },
            "normalized_policy": policy(),
        },
    )


def test_no_rule_leaves_the_default_and_the_trace_of_what_missed() -> None:
    assert decision() == {
        "version": "1", "route_to": ROW, "matched_rule": "", "default_used": True, "outputs": {},
        "trace": [{"condition": "keywords_any", "result": False}],
    }  # fmt: skip


def test_the_shorthand_router_comes_back_written_out(tmp_path: Path) -> None:
    document = policy()
    routing = {"candidates": [ROW, CODER], "default_model": ROW}
    document["routing"] = routing | {"router": {"type": "llm", "model": ROW, "prompt": "Pick."}}
    with Bus(tmp_path, lambda ask, _body: refused(ask)) as bus:
        _, reply = Desk(bus=bus.endpoint).validate(trial(document))
    full = reply["normalized_policy"]
    assert [rule["id"] for rule in full["routing"]["rules"]] == ["__route_0", "__route_1"]
    assert full["routing"]["classifiers"][0]["id"] == "__router"
    assert "router" not in full["routing"]
    assert full["components"] == document["components"]


def test_a_policy_comes_back_as_it_was_sent_in_what_routing_does_not_touch() -> None:
    document = policy() | {"models": [{"any": ["thing", 1.5, None, True]}]}
    assert DESK.validate(trial(document))[1]["normalized_policy"] == document


def test_other_keys_of_the_request_are_ignored() -> None:
    assert decision(messages=[{"role": "user", "content": "fix"}], route_trace=None)["default_used"]


def test_names_are_not_looked_up_and_types_not_checked() -> None:
    strange = json.loads(json.dumps(policy()).replace(ROW, "nobody's"))
    assert DESK.validate(trial(strange))[1]["decision"]["route_to"] == "nobody's"


@pytest.mark.parametrize(
    ("match", "fields"),
    [
        ({"has_tools": True}, {"has_tools": True}),
        ({"has_images": True}, {"has_images": True}),
        ({"metadata": {"key": "k", "equals": "v"}}, {"metadata": {"k": "v"}}),
        ({"min_chars": 4}, {"prompt": "éé"}),
        ({"min_total_chars": 4, "max_total_chars": 4}, {"prompt": "éé"}),
    ],
)
def test_each_field_reaches_its_condition(match: object, fields: dict[str, object]) -> None:
    document = policy(rules=[{"id": "r", "match": match, "route_to": CODER}])
    assert not DESK.validate(trial(document))[1]["decision"]["matched_rule"]
    assert DESK.validate(trial(document, **fields))[1]["decision"]["matched_rule"] == "r"


def test_a_laya_rule_sees_the_prompt() -> None:
    rules = [{"id": "r", "match": {"classifier": "l", "label": "code", "min_score": 0.01}}]
    document = policy(
        rules=[rules[0] | {"route_to": CODER}],
        classifiers=[{"id": "l", "type": "laya", "labels": ["code", "prose", "short"]}],
    )
    text = "Write a Python function that returns the longest word in a list."
    assert DESK.validate(trial(document, prompt=text))[1]["decision"]["matched_rule"] == "r"


# Each body has this fault and all that stand below it: the first fault is the one that is told.
_POLICY_FAULT: dict[str, object] = {"policy": {}}
_ORDER: list[tuple[str, dict[str, object]]] = [
    ("'policy' must be a JSON object", {"policy": 1}),
    ("'prompt' must be a string", {"prompt": 1}),
    ("'has_images' must be a boolean", {"has_images": 1}),
    ("'has_tools' must be a boolean", {"has_tools": "yes"}),
    ("'metadata' must be a JSON object of string values", {"metadata": []}),
    ("Invalid routing policy: collection is missing required key 'version'", {}),
]


@pytest.mark.parametrize("place", range(len(_ORDER)))
def test_the_first_fault_in_upstreams_order_is_told(place: int) -> None:
    body: dict[str, object] = dict(_POLICY_FAULT)
    for _, fault in _ORDER[place:]:
        body = {**body, **fault} if "policy" not in fault or place == 0 else body
    assert refusal(body) == _ORDER[place][0]


@pytest.mark.parametrize("given", [None, [], "text", 1, True])
def test_a_policy_is_an_object(given: object) -> None:
    assert refusal({"policy": given}) == "'policy' must be a JSON object"


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"1", b'"policy"'])
def test_a_body_without_a_policy_is_told_so(body: bytes) -> None:
    assert refusal(body) == "'policy' must be a JSON object"


@pytest.mark.parametrize("given", [None, 1, [], {}, True])
def test_a_prompt_is_a_string(given: object) -> None:
    assert refusal(trial(prompt=given)) == "'prompt' must be a string"


@pytest.mark.parametrize("flag", ["has_images", "has_tools"])
@pytest.mark.parametrize("given", [None, 0, 1, "true", []])
def test_a_flag_is_a_boolean(flag: str, given: object) -> None:
    assert refusal(trial(**{flag: given})) == f"'{flag}' must be a boolean"


@pytest.mark.parametrize("given", [None, 1, "text", [], True])
def test_metadata_is_an_object(given: object) -> None:
    text = "'metadata' must be a JSON object of string values"
    assert refusal(trial(metadata=given)) == text


def test_the_alphabetically_first_bad_value_of_the_metadata_is_named() -> None:
    metadata = {"z": 1, "é": 1, "b": None, "a": "fine"}
    assert refusal(trial(metadata=metadata)) == "'metadata' value for key 'b' must be a string"


def test_an_empty_body_is_told_so() -> None:
    assert refusal(b"") == "Request body is required but was empty"


@pytest.mark.parametrize("body", [b" ", b"{", b"\xff", b'{"policy":"\xff"}', b"[" * 5000, b"NaN"])
def test_a_body_that_is_no_json_is_told_so(body: bytes) -> None:
    assert refusal(body).startswith("Invalid JSON in request body: ")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (policy(rules=[]), "routing.rules must be a non-empty array"),
        (policy() | {"version": "2"}, "Unsupported collection.router schema major '2'"),
        (policy() | {"recipe": "x"}, "collection.recipe must be 'collection.router'"),
        (policy(default_model="Z"), "references component 'Z' that is not declared"),
        (
            policy(router={"type": "llm", "model": ROW, "prompt": "p"}),
            "routing.router cannot be combined",
        ),
        (
            policy(rules=[{"id": "r", "match": {"regex": "("}, "route_to": ROW}]),
            "regex pattern is not valid ECMAScript: ",
        ),
    ],
)
def test_a_faulty_policy_is_told_in_the_parsers_words(document: object, text: str) -> None:
    error = refusal(trial(document))
    assert error.startswith("Invalid routing policy: ")
    assert text in error


@pytest.mark.parametrize("number", ["18446744073709551616", "-0", "1e300", "1" * 60])
def test_numbers_of_any_size_come_back(number: str) -> None:
    raw = json.dumps(trial())[:-1] + f', "n": {number}}}'
    models = raw.replace('"version"', f'"models": [{number}], "version"', 1)
    assert DESK.validate(models.encode())[0] == 200


def test_outputs_nested_deep_come_back() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    rules = [{"id": "r", "match": {"max_chars": 9}, "route_to": ROW, "outputs": {"deep": deep}}]
    decided = DESK.validate(trial(policy(rules=rules)))[1]["decision"]
    assert decided["outputs"] == {"deep": deep}


def test_as_many_patterns_as_are_taken_are_tried_out_in_time() -> None:
    leaves = [{"not": {"regex": f"[a-z]{{1,50}}{n}.*foo[0-9]+"}} for n in range(PATTERNS_MAX)]
    rules = [{"id": "r", "match": {"all": leaves}, "route_to": ROW}]
    began_at = time.monotonic()
    assert DESK.validate(trial(policy(rules=rules)))[0] == 200
    assert time.monotonic() - began_at < 10.0
