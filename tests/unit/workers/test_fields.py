"""What the in-process engine honours, ignores, and refuses."""

import pytest

from workers.fields import INTEGERS, NUMBERS, REFUSED, STOPS_MAX, sampling, wants_base64
from workers.job import JobError
from workers.vectors import packed

HARMLESS: dict[str, object] = {
    "n": 1, "best_of": 1, "logprobs": False, "top_logprobs": 0, "logit_bias": {}, "echo": False,
    "suffix": "", "modalities": ["text"], "functions": [], "function_call": "none", "tools": [],
    "tool_choice": "auto",
}  # fmt: skip
HARMFUL: dict[str, object] = {
    "n": 2, "best_of": 3, "logprobs": True, "top_logprobs": 5, "logit_bias": {"1": 2}, "echo": True,
    "suffix": "x", "audio": {}, "modalities": ["audio"], "functions": [{}], "function_call": "auto",
    "tools": [{}], "tool_choice": "required", "prediction": {}, "web_search_options": {},
}  # fmt: skip


def refusal(body: dict[str, object]) -> JobError:
    """Return why a request is refused."""
    with pytest.raises(JobError) as caught:
        sampling(body)
    return caught.value


def test_nothing_asked_is_nothing_passed_on() -> None:
    assert sampling({}) == {"stop": []}


def test_fields_nobody_knows_are_ignored() -> None:
    assert sampling({"user": "x", "metadata": {}, "store": True, "stream": True}) == {"stop": []}


def test_the_tables_of_this_test_know_every_refused_field() -> None:
    assert HARMFUL.keys() == REFUSED.keys()


@pytest.mark.parametrize("field", HARMFUL)
def test_a_field_that_would_change_the_answer_is_refused_by_name(field: str) -> None:
    error = refusal({field: HARMFUL[field]})
    assert (error.status, error.code, error.facts) == (400, "unsupported_field", {"param": field})


@pytest.mark.parametrize("field", HARMLESS)
def test_a_value_that_asks_for_nothing_is_harmless(field: str) -> None:
    assert sampling({field: HARMLESS[field]}) == {"stop": []}


@pytest.mark.parametrize("field", [*HARMFUL, *NUMBERS, *INTEGERS, "stop"])
def test_null_asks_for_nothing(field: str) -> None:
    assert sampling({field: None}) == {"stop": []}


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_is_taken_in_its_range_and_refused_outside(field: str) -> None:
    low, high = NUMBERS[field]
    assert sampling({field: low})[field] == low
    assert sampling({field: high})[field] == high
    for wrong in (low - 0.1, high + 0.1):
        assert refusal({field: wrong}).code == "invalid_value"


@pytest.mark.parametrize("field", [*NUMBERS, *INTEGERS])
@pytest.mark.parametrize("wrong", ["1", True, [], {}])
def test_a_value_of_another_type_is_refused(field: str, wrong: object) -> None:
    error = refusal({field: wrong})
    assert (error.status, error.code, error.facts) == (400, "invalid_value", {"param": field})


@pytest.mark.parametrize("field", INTEGERS)
def test_an_integer_is_no_fraction(field: str) -> None:
    assert refusal({field: 1.5}).facts == {"param": field}


@pytest.mark.parametrize(
    ("seed", "used"), [(0, 0), (2**32, 0), (-1, 2**32 - 1), (2**63 - 1, 2**32 - 1)]
)
def test_a_seed_is_folded_into_the_samplers_bits(seed: int, used: int) -> None:
    assert sampling({"seed": seed})["seed"] == used


@pytest.mark.parametrize(("stop", "stops"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ([], [])])
def test_stops_are_a_text_or_a_list(stop: object, stops: list[str]) -> None:
    assert sampling({"stop": stop})["stop"] == stops


@pytest.mark.parametrize("stop", ["", [""], ["a", 1], 1, {}, ["a"] * (STOPS_MAX + 1)])
def test_other_stops_are_refused(stop: object) -> None:
    assert refusal({"stop": stop}).facts == {"param": "stop"}


@pytest.mark.parametrize(("form", "is_packed"), [(None, False), ("float", False), ("base64", True)])
def test_vectors_come_in_the_form_that_is_asked_for(form: str | None, *, is_packed: bool) -> None:
    assert wants_base64({} if form is None else {"encoding_format": form}) is is_packed


@pytest.mark.parametrize("field", ["encoding_format", "dimensions"])
def test_a_form_of_vectors_that_is_not_had_is_refused_by_name(field: str) -> None:
    with pytest.raises(JobError) as caught:
        wants_base64({field: 64})
    assert (caught.value.status, caught.value.facts) == (400, {"param": field})


def test_a_packed_vector_is_four_bytes_a_number() -> None:
    assert packed([1.0, -0.5]) == "AACAPwAAAL8="
