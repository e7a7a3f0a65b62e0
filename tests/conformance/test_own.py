"""The project's own corpus, and that its runner fails on what it does not understand."""

from pathlib import Path

import pytest

from support import corpus

HERE = Path(__file__).parent
CASES = corpus.collect(HERE)


@pytest.mark.parametrize(
    ("policy", "row"), [pytest.param(policy, row, id=name) for name, policy, row in CASES]
)
def test_a_case_decides_as_written(policy: object, row: dict[str, object]) -> None:
    decision, services = corpus.run(policy, row)
    assert decision.to_json() == row["decision"]
    assert services.unknown == []
    assert row.get("failed", list(decision.failed)) == list(decision.failed)
    calls = [next(iter(call)) for call in services.calls]
    assert row.get("calls", calls) == calls


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


ROW = '{"name": "n", "request": {}, "decision": {}}\n'


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"stray.txt": ""}, "stray file"),
        ({"one/a/policy.json": "{}"}, "stray file"),
        ({"1/stray.txt": ""}, "does not hold exactly"),
        ({"1/a/policy.json": "{}"}, "does not hold exactly"),
        ({"1/a/policy.json": "{}", "1/a/cases.jsonl": ROW, "1/a/x": ""}, "does not hold exactly"),
        ({"1/a/policy.json": '{"version": "2"}', "1/a/cases.jsonl": ROW}, "another version"),
        ({"1/a/policy.json": '{"version": "1"}', "1/a/cases.jsonl": ""}, "no cases"),
        ({"1/a/policy.json": '{"version": "1"}', "1/a/cases.jsonl": ROW + ROW}, "a name twice"),
        (
            {"1/a/policy.json": '{"version": "1"}', "1/a/cases.jsonl": '{"name": "n"}'},
            "not understood",
        ),
        (
            {
                "1/a/policy.json": '{"version": "1"}',
                "1/a/cases.jsonl": ROW.replace('"name"', '"why": 1, "name"'),
            },
            "not understood",
        ),
    ],
)
def test_the_runner_refuses_what_it_does_not_understand(
    tmp_path: Path, files: dict[str, str], says: str
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(ValueError, match=says):
        corpus.collect(tmp_path)
