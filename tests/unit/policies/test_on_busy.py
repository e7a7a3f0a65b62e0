"""The on_busy rule, claim by claim and as a table of every situation."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from policies.on_busy import judge
from policies.why import Suppressed
from support.rule_cases import ME, NPUS, TIMES, Case, judged, naive, spoken

BUSY = Case(held=("a",))
WAITING = BUSY._replace(wait_s=5.0)
HOT = Case(tctl_c=90.0, hot=True)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case(), "stay"),
        (BUSY, "move gpu_busy"),
        (Case(waiting=("a",)), "move gpu_busy"),
        (Case(held=(ME,), waiting=(ME, ME)), "stay"),
        (BUSY._replace(has_rule=False), "stay"),
        (BUSY._replace(keeps=True), "stay"),
        (BUSY._replace(class_="code"), "stay"),
        (BUSY._replace(class_="short", allow_interactive=True), "move gpu_busy"),
        (BUSY._replace(queue_depth=2), "stay"),
        (BUSY._replace(queue_depth=2, waiting=("b",)), "move gpu_busy"),
        (BUSY._replace(queue_depth=None), "stay"),
        (BUSY._replace(uptime_s=59.0), "suppressed warmup"),
        (BUSY._replace(uptime_s=60.0), "move gpu_busy"),
        (BUSY._replace(since_resume_s=59.9), "suppressed warmup"),
        (BUSY._replace(since_reset_s=0.0), "suppressed warmup"),
        (BUSY._replace(uptime_s=None), "suppressed sensor_unknown"),
        (BUSY._replace(uptime_s=None, since_resume_s=5.0), "suppressed warmup"),
        (Case(uptime_s=20.0), "stay"),  # no move to suppress
        (WAITING, "again 5"),
        (WAITING._replace(waited_s=4.0), "again 1"),
        (WAITING._replace(waited_s=5.0, held=()), "stay"),
        (WAITING._replace(tctl_c=90.0, hot=True), "move gpu_hot"),
        (WAITING._replace(busy_ratio=0.9, outside=True), "move gpu_busy"),
        (WAITING._replace(npu="absent"), "suppressed npu_unavailable"),
        (HOT, "move gpu_hot"),
        (HOT._replace(held=("a",)), "move gpu_busy"),
        (HOT._replace(hot=None), "suppressed sensor_unknown"),
        (HOT._replace(hot=None, held=("a",)), "move gpu_busy"),
        (HOT._replace(tctl_c=None, hot=None), "stay"),
        (Case(outside=True), "stay"),
        (Case(outside=True, busy_ratio=0.9), "move gpu_busy"),
        (BUSY._replace(npu="quarantined and unable"), "suppressed npu_quarantined"),
        (BUSY._replace(npu="unable, no canary"), "suppressed capability"),
        (BUSY._replace(npu="no canary"), "suppressed npu_canary"),
        (BUSY._replace(npu="passed"), "move gpu_busy"),
        (BUSY._replace(faster="equal", max_prompt_tokens=1), "suppressed slower"),
        (BUSY._replace(faster="unlearned"), "suppressed slower"),
        (BUSY._replace(faster="faster than the wait"), "move gpu_busy"),
        (BUSY._replace(max_prompt_tokens=1000), "move gpu_busy"),
        (BUSY._replace(max_prompt_tokens=999), "suppressed too_long"),
    ],
)
def test_the_rule_says(case: Case, said: str) -> None:
    assert spoken(judge(*judged(case))) == said
    assert naive(case) == said


def test_a_timer_that_is_early_by_a_rounding_has_waited() -> None:
    assert spoken(judge(*judged(WAITING._replace(waited_s=5.0 - 1e-9)))) == "move gpu_busy"


QUEUES = [
    Case(),
    Case(held=(ME,)),
    Case(held=(ME,), waiting=(ME, ME)),
    Case(held=("a",)),
    Case(waiting=("a",)),
    Case(held=(ME,), waiting=("a", ME)),
    Case(held=("a",), waiting=(ME, "b")),
    Case(held=("a", ME), waiting=("a", "b")),
]
DEPTHS = [Case(queue_depth=depth) for depth in (None, 1, 2, 3)]
WAITS = [Case(wait_s=5.0, waited_s=waited_s) for waited_s in (0.0, 4.9, 5.0, 7.0)]
WAITS.append(Case())
HEATS = [Case(tctl_c=90.0, hot=hot) for hot in (False, True, None)]
HEATS += [Case(hot=None), Case(hot=True)]
AGES = [Case(uptime_s=uptime_s) for uptime_s in (59.0, 60.0, 61.0, None)]
AGES += [Case(since_resume_s=since_s) for since_s in (59.0, 60.0)]
AGES += [Case(uptime_s=None, since_resume_s=since_s) for since_s in (59.0, 60.0)]
AGES += [Case(since_reset_s=since_s) for since_s in (59.0, 60.0)]
ASKERS = [
    Case(),
    Case(has_rule=False),
    Case(keeps=True),
    Case(class_="prose"),
    Case(class_="short"),
    Case(class_="code"),
    Case(class_="code", allow_interactive=True),
]
NPU_STATES = [Case(npu=npu) for npu in NPUS]
LOADS = [Case(busy_ratio=ratio, outside=True) for ratio in (None, 0.9)]
LOADS.append(Case(busy_ratio=0.9))
TERMS = [
    Case(faster=faster, max_prompt_tokens=limit)
    for faster in TIMES
    for limit in (None, 999, 1000, 1001)
]
TABLES = {
    "who asks, and what waits": [ASKERS, QUEUES, DEPTHS, WAITS, HEATS, AGES],
    "what the devices are": [QUEUES[2:5], WAITS, HEATS, AGES, NPU_STATES, LOADS],
    "further terms": [QUEUES[2:5], WAITS, HEATS, LOADS, NPU_STATES[:3], TERMS],
}


def crossed(axes: list[list[Case]]) -> Iterator[Case]:
    """Yield every combination; of each axis a point changes what it sets and leaves the rest."""
    for points in itertools.product(*([_changes(point) for point in axis] for axis in axes)):
        yield Case(**{name: value for point in points for name, value in point.items()})


def _changes(point: Case) -> dict[str, Any]:
    pairs = zip(Case._fields, point, Case(), strict=True)
    return {name: value for name, value, same in pairs if value != same}


@pytest.mark.parametrize("axes", TABLES.values(), ids=TABLES)
def test_every_situation_is_judged_as_the_contract_lists_it(axes: list[list[Case]]) -> None:
    said = Counter[str]()
    for case in crossed(axes):
        verdict = spoken(judge(*judged(case)))
        assert verdict == naive(case), case
        said[verdict.partition(" ")[0]] += 1
    assert min(said[kind] for kind in ("stay", "move", "suppressed", "again")) > 200


def test_the_table_meets_every_word_of_the_vocabulary() -> None:
    cases = itertools.chain.from_iterable(crossed(axes) for axes in TABLES.values())
    said = {spoken(judge(*judged(case))) for case in cases}
    assert {f"suppressed {word}" for word in Suppressed} < said
    assert {"stay", "move gpu_busy", "move gpu_hot", "again 5", "again 0.1"} < said
