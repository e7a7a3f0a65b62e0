"""Label scores out of what a model answers."""

import pytest

from workers.payloads import PayloadError, scores_of

BOTH = {"a": 0.25, "b": 1.0}
PAIRS = '[{"label": "a", "score": 0.25}, {"label": "b", "score": 1}]'


@pytest.mark.parametrize(
    "reply",
    [
        '{"a": 0.25, "b": 1}',
        '{"labels": {"a": 0.25, "b": 1}}',
        '{"scores": {"a": 0.25, "b": 1}}',
        '{"classification": {"a": 0.25, "b": 1}}',
        '{"classifications": {"a": 0.25, "b": 1}}',
        f'{{"labels": {PAIRS}}}',
        f'{{"scores": {PAIRS}}}',
        f'{{"classification": {PAIRS}}}',
        f'{{"classifications": {PAIRS}}}',
        f'{{"data": {PAIRS}}}',
        PAIRS,
        f"\n\t {PAIRS} \r\n",
    ],
)
def test_every_accepted_shape_says_the_same(reply: str) -> None:
    assert scores_of(reply) == BOTH


def test_one_label_with_its_score_is_a_payload() -> None:
    assert scores_of('{"label": "a", "score": 0}') == {"a": 0.0}


def test_other_keys_of_an_entry_are_ignored() -> None:
    assert scores_of('[{"label": "a", "score": 1, "why": "x"}]') == {"a": 1.0}


def test_a_list_of_labels_beside_a_model_name_is_read() -> None:
    assert scores_of('{"model": "m", "data": [{"label": "a", "score": 1}]}') == {"a": 1.0}


@pytest.mark.parametrize(
    "reply",
    [
        "", " ", "a", "{", "null", "1", '"a"', "true", "{}", "[]", '{"labels": {}}',
        '{"labels": []}', "[1]", '[["a", 1]]', '[{"score": 1}]', '[{"label": 1, "score": 1}]',
        '[{"label": "a"}]', '{"a": "1"}', '{"a": true}', '{"a": null}', '{"a": [1]}',
        '{"a": -0.1}', '{"a": 1.1}', '{"a": NaN}', '{"a": Infinity}', '{"a": 1e999}',
        '{"a": 0.5, "b": 2}', "```json\n{}\n```", "<think></think>{}", "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_anything_else_is_a_failure(reply: str) -> None:
    with pytest.raises(PayloadError):
        scores_of(reply)


@pytest.mark.parametrize("score", [0, 1, 0.0, 1.0, 5e-324])
def test_the_ends_of_the_range_are_scores(score: float) -> None:
    assert scores_of(f'{{"a": {score}}}') == {"a": score}
