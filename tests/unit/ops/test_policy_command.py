"""`fairlane policy`, as it is called."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.commands.policy import policy

POLICY = {
    "version": "1",
    "recipe": "collection.router",
    "components": ["small", "large", "m"],
    "routing": {
        "candidates": ["small", "large"],
        "default_model": "small",
        "classifiers": [{"id": "c", "type": "classifier", "model": "m", "labels": ["X"]}],
        "rules": [
            {"id": "big", "match": {"keywords_any": ["big"]}, "route_to": "large"},
            {"id": "x", "match": {"classifier": "c", "label": "X"}, "route_to": "large"},
        ],
    },
}
BAD = POLICY | {"version": "2"}
REFUSAL = "Unsupported collection.router schema major '2' from version '2'; supported major is '1'"
ASK = {"messages": [{"role": "user", "content": "a big one"}]}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    documents = {"policy": POLICY, "bad": BAD, "ask": ASK, "services": {}, "odd": {"messages": [1]}}
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "role.json").write_text('{"messages": [{"role": 1}]}', encoding="utf-8")
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    return tmp_path


def call(*arguments: str, stdin: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(policy, arguments, input=stdin)
    return result.exit_code, result.stdout.strip()


def test_a_good_policy_is_ok(files: Path) -> None:
    assert call("check", str(files / "policy.json")) == (0, "ok")
    assert call("check", "-", "--json", stdin=json.dumps(POLICY)) == (0, '{"error": null}')


def test_a_bad_policy_is_refused_with_its_text(files: Path) -> None:
    assert call("check", str(files / "bad.json")) == (3, REFUSAL)
    code, out = call("check", str(files / "bad.json"), "--json")
    assert (code, json.loads(out)) == (3, {"error": REFUSAL})


def test_what_is_no_json_is_invalid(files: Path) -> None:
    code, out = call("check", str(files / "broken.json"), "--json")
    assert code == 3
    assert json.loads(out)["error"].startswith("FILE: not JSON")


@pytest.mark.parametrize("arguments", [["check"], ["decide"], ["check", "/no/such/file"]])
def test_missing_files_are_a_usage_error(arguments: list[str]) -> None:
    assert call(*arguments)[0] == 2


def decide_files(files: Path, name: str, request: str, *more: str) -> tuple[int, str]:
    paths = ["--policy", str(files / f"{name}.json"), "--request", str(files / f"{request}.json")]
    return call("decide", *paths, *more)


def test_a_request_is_decided(files: Path) -> None:
    assert decide_files(files, "policy", "ask") == (0, "large (big)")
    services = ["--services", str(files / "services.json")]
    code, out = decide_files(files, "policy", "odd", "--json", *services)
    assert code == 0
    assert json.loads(out)["decision"]["default_used"] is True


def test_whose_fault_an_error_is_shows_in_the_exit_code(files: Path) -> None:
    assert decide_files(files, "bad", "ask") == (3, REFUSAL)
    code, out = decide_files(files, "policy", "role", "--json")
    assert (code, "type must be string" in json.loads(out)["error"]) == (1, True)
    assert decide_files(files, "policy", "list") == (1, "the request must be a JSON object")


def test_lines_are_checked_in_order() -> None:
    lines: list[object] = [
        {"policy": POLICY},
        {"policy": BAD},
        {"policy": POLICY, "types": {"m": "llm"}},
        {"policy": POLICY, "types": {}},
        {},
    ]
    code, out = call("check", "--jsonl", stdin="\n".join(map(json.dumps, lines)) + "\n\n")
    errors = [json.loads(line)["error"] for line in out.split("\n")]
    assert code == 0
    assert errors[:3] == [None, REFUSAL, None]
    assert "unresolvable type" in errors[3]
    assert errors[4] == "collection must be an object"


def test_lines_are_decided_in_order() -> None:
    quiet = {"messages": [{"role": "user", "content": "x"}], "route_trace": True}
    scores = {"run_classifier": {"m": {"X": 0.9}}}
    lines: list[object] = [
        {"policy": POLICY, "request": ASK},
        {"policy": POLICY, "request": quiet, "services": scores},
        {"policy": POLICY, "request": quiet},
        {"policy": POLICY, "request": {"messages": [{"role": None}]}},
        {"policy": BAD, "request": ASK},
    ]
    code, out = call("decide", "--jsonl", stdin="\n".join(map(json.dumps, lines)))
    answers = [json.loads(line) for line in out.split("\n")]
    assert code == 0
    assert [answer.get("decision", {}).get("matched_rule") for answer in answers[:3]] == [
        "big",
        "x",
        "",
    ]
    # Without an answer the call fails, and a failed call has no score in the trace.
    assert answers[2]["decision"]["trace"][-1] == {
        "condition": "classifier:c",
        "label": "X",
        "result": False,
    }
    assert "type must be string" in answers[3]["error"]
    assert answers[4] == {"error": REFUSAL}


def test_a_line_that_cannot_be_read_still_gets_an_answer() -> None:
    stdin = "{\n[]\n" + json.dumps({"policy": POLICY})
    code, out = call("check", "--jsonl", stdin=stdin)
    errors = [json.loads(line)["error"] for line in out.split("\n")]
    assert code == 1
    assert errors[0].startswith("not JSON")
    assert errors[1:] == ["the line must hold a JSON object", None]
