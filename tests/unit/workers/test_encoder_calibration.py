"""From logits to probabilities: the published examples, temperatures and their bounds."""

import math

import pytest

from workers.encoder.calibration import (
    Calibration,
    bucket,
    calibration_of,
    clamped,
    confidence_of,
    shares_of,
)

# What the English model is published with.
ENGLISH: dict[str, object] = {
    "temperature": [1.6369, 1.2514, 1.9834],
    "temperature_by_options": {
        "choice:2": 1.906,
        "choice:3-5": 1.760,
        "choice:6-10": 1.000,
        "choice:11+": 0.1006,
        "score:3-5": 1.251,
        "noul:2": 1.983,
    },
}


def test_the_published_example_has_its_probabilities_and_its_confidence() -> None:
    shares = shares_of([4.36607, 2.11530, -3.74828, -2.17159], 1.76015)
    assert [round(share, 4) for share in shares] == [0.7618, 0.2121, 0.0076, 0.0186]
    assert confidence_of("choice", shares) == pytest.approx(0.5331, abs=1e-4)


@pytest.mark.parametrize(
    ("shares", "confidence"),
    [
        ((0.8, 0.1, 0.1), 0.4183),
        ((0.8, 0.15, 0.05), 0.4421),
        ((0.9, 0.05, 0.05), 0.6410),
        ((0.6, 0.3, 0.1), 0.1827),
        ((0.5, 0.3, 0.2), 0.0628),
        ((1 / 3, 1 / 3, 1 / 3), 0.0),
        ((1.0, 0.0, 0.0), 1.0),
        ((1.0,), 1.0),
    ],
)
def test_confidence_is_the_entropy_turned_round(
    shares: tuple[float, ...], confidence: float
) -> None:
    assert confidence_of("choice", shares) == pytest.approx(confidence, abs=5e-5)


def test_the_confidence_of_a_statement_is_the_larger_probability() -> None:
    assert confidence_of("noul", (0.3, 0.7)) == 0.7


@pytest.mark.parametrize(
    ("count", "name"),
    [
        (1, "2"),
        (2, "2"),
        (3, "3-5"),
        (5, "3-5"),
        (6, "6-10"),
        (10, "6-10"),
        (11, "11+"),
        (99, "11+"),
    ],
)
def test_options_fall_into_buckets(count: int, name: str) -> None:
    assert bucket("choice", count) == f"choice:{name}"


@pytest.mark.parametrize(("count", "temperature"), [(2, 1.906), (4, 1.760), (7, 1.0), (12, 0.5)])
def test_the_number_of_options_wins_over_the_type(count: int, temperature: float) -> None:
    assert calibration_of(ENGLISH).temperature("choice", count) == temperature


def test_the_type_counts_where_the_bucket_is_missing() -> None:
    assert calibration_of(ENGLISH).temperature("score", 2) == 1.2514
    assert calibration_of(ENGLISH).temperature("noul", 3) == 1.9834


@pytest.mark.parametrize(
    ("value", "used"),
    [
        (1.5, 1.5), (0.1, 0.5), (0, 0.5), (-3, 0.5), (9, 5.0), (math.nan, 1.0), (math.inf, 1.0),
        (-math.inf, 1.0), (None, 1.0), ("hot", 1.0), ([2.0], 1.0), ("1.5", 1.5), (10**400, 1.0),
    ],
)  # fmt: skip
def test_a_temperature_is_confined(value: object, used: float) -> None:
    assert clamped(value) == used


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"temperature": 3},
        {"temperature": [], "temperature_by_options": [1]},
        {"temperature": {}},
    ],
)
def test_a_configuration_without_temperatures_has_those_of_one(config: dict[str, object]) -> None:
    assert calibration_of(config) == Calibration()


def test_a_short_or_long_list_of_temperatures_is_read_by_its_places() -> None:
    assert calibration_of({"temperature": [2.0]}).by_kind == (2.0, 1.0, 1.0)
    assert calibration_of({"temperature": [2, 3, 4, 5]}).by_kind == (2.0, 3.0, 4.0)


def test_huge_logits_overflow_nothing() -> None:
    assert shares_of([1e4, -1e4], 0.5) == (1.0, 0.0)
