"""What learned figures say of an on_busy rule."""

import json

import pytest

from policies.learned import Learned, losses
from policies.table import Table, parse_table

DIGEST = "0123456789abcdef" * 4
HOME = {"model": "M", "path": "/m", "device": "hrx", "ctx": 1, "template_sha256": DIGEST}
NPU = HOME | {"model": "N", "device": "npu"}
# 1,000 prompt and 256 answer tokens: 10 + 16 s at home, 20 + 64 s on the NPU.
GPU_COST = Learned("M", "hrx0", 1, 10, 20.0, 100.0, 16.0)
NPU_COST = Learned("N", "npu0", 1, 3, 90.0, 50.0, 4.0)


def table(**rule: object) -> Table:
    on_busy = {"device": "npu", "model": "N", **rule}
    classes = {name: {"model": "M"} for name in ("short", "prose", "code")}
    document = {
        "version": "1",
        "default_model": "M",
        "classes": {**classes, "long_doc": {"model": "M", "on_busy": on_busy}},
        "rows": [HOME, NPU],
    }
    return parse_table(json.dumps(document))


def test_a_rule_that_loses_is_told_with_its_figures_and_what_would_gain() -> None:
    assert losses(table(), [GPU_COST, NPU_COST]) == [
        (
            "long_doc: its on_busy rule loses for the asker when the GPU is busy: 1000 prompt and 256 "
            "answer tokens take 84.0 s on N, and 46.0 s on M behind 1 of 20.0 s; it gains from "
            "queue_depth 3 on, and never loses with only_if_faster"
        )
    ]


@pytest.mark.parametrize(
    ("depth", "words"), [(1, ["busy"]), (2, ["busy"]), (3, []), (9, []), (None, [])]
)
def test_the_depth_it_names_is_the_first_that_gains(depth: int | None, words: list[str]) -> None:
    said = losses(table(queue_depth=depth), [GPU_COST, NPU_COST])
    assert [word for word in ("busy", "hot") for one in said if f"is {word}" in one] == words


def test_a_ticket_ahead_is_as_long_as_the_tickets_of_all_rows_there() -> None:
    other = Learned("O", "hrx0", 1, 10, 100.0)
    assert losses(table(), [GPU_COST, other, NPU_COST]) == []


def test_several_seats_of_a_row_do_not_count_its_tickets_twice() -> None:
    both = [GPU_COST, Learned("M", "hrx0", 2, 10, 20.0, 900.0, 900.0), NPU_COST]
    assert "46.0 s on M" in losses(table(), both)[0]


def test_a_line_of_heat_is_judged_without_a_queue() -> None:
    said = losses(table(queue_depth=None, tctl_c=90), [GPU_COST, NPU_COST])
    assert [one.partition(": ")[2] for one in said] == [
        (
            "its on_busy rule loses for the asker when the GPU is hot and nobody waits: 1000 prompt "
            "and 256 answer tokens take 84.0 s on N, and 26.0 s on M"
        )
    ]


def test_an_npu_that_is_faster_loses_nowhere() -> None:
    fast = Learned("N", "npu0", 1, 3, 5.0, 500.0, 60.0)
    assert losses(table(tctl_c=90), [GPU_COST, fast]) == []


def test_a_rule_that_looks_after_itself_is_not_judged() -> None:
    assert losses(table(only_if_faster=True), [GPU_COST, NPU_COST]) == []


def test_no_longer_prompt_is_supposed_than_the_rule_moves() -> None:
    said = losses(table(max_prompt_tokens=100), [GPU_COST, NPU_COST])
    assert "100 prompt and 256 answer tokens take 66.0 s on N" in said[0]


@pytest.mark.parametrize(
    ("costs", "unknown"),
    [
        ([], "M and N"),
        ([GPU_COST], "N"),
        ([GPU_COST, Learned("N", "npu0", 1, 2, 90.0, 50.0, 4.0)], "N"),
        ([GPU_COST, Learned("N", "npu0", 1, 9, 90.0, None, 4.0)], "N"),
        ([NPU_COST, Learned("M", "hrx0", 1, 9, 90.0)], "M"),
    ],
)
def test_too_little_is_said_and_not_passed_over(costs: list[Learned], unknown: str) -> None:
    words = f"long_doc: too little is learned of {unknown} to judge its on_busy rule"
    assert losses(table(), costs) == [words]


def test_tickets_that_took_no_time_are_no_trouble() -> None:
    instant = Learned("M", "hrx0", 1, 10, 0.0, 1e6, 1e6)
    assert "loses" in losses(table(), [instant, NPU_COST])[0]
