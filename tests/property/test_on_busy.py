"""The on_busy rule over arbitrary situations: a second reading agrees, and nothing goes to and fro."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from policies.heat import Heat, rule_lines
from policies.on_busy import judge
from policies.row import CLASSES, OnBusy
from support.rule_cases import ME, NPUS, TIMES, Case, judged, naive, spoken

lanes = st.lists(st.sampled_from([ME, "a", "b"]), max_size=4).map(tuple)
ages = st.sampled_from([None, 0.0, 59.0, 59.999, 60.0, 61.0, 86_400.0])
# Quarters add up exactly, so that "reached" means the same to both readings.
waits = st.integers(0, 40).map(lambda quarters: quarters / 4)
cases = st.builds(
    Case,
    has_rule=st.sampled_from([True, True, True, False]),
    class_=st.sampled_from(CLASSES),
    allow_interactive=st.booleans(),
    keeps=st.sampled_from([False, False, False, True]),
    held=lanes,
    waiting=lanes,
    queue_depth=st.sampled_from([None, 1, 2, 3, 8]),
    wait_s=waits,
    waited_s=waits,
    busy_ratio=st.sampled_from([None, 0.9]),
    outside=st.booleans(),
    tctl_c=st.sampled_from([None, 95.0]),
    hot=st.sampled_from([None, False, True]),
    uptime_s=ages,
    since_resume_s=ages,
    since_reset_s=ages,
    npu=st.sampled_from([*NPUS, "healthy", "healthy"]),
    faster=st.sampled_from([*TIMES]),
    max_prompt_tokens=st.sampled_from([None, 999, 1000, 1001]),
    prompt_tokens=st.sampled_from([0.0, 999.5, 1000.0, 1001.0]),
)


@given(cases)
def test_both_readings_of_the_contract_agree(case: Case) -> None:
    assert spoken(judge(*judged(case))) == naive(case)


@given(cases)
def test_what_keeps_its_placement_is_never_moved(case: Case) -> None:
    assert spoken(judge(*judged(case._replace(keeps=True)))) == "stay"


@given(cases, cases)
def test_a_ticket_is_judged_twice_at_most(before: Case, after: Case) -> None:
    """Whatever has changed meanwhile: the second word is final."""
    first = judge(*judged(before))
    if first.again_in_s is not None:
        waited_s = before.waited_s + first.again_in_s
        later = after._replace(wait_s=before.wait_s, waited_s=waited_s)
        assert judge(*judged(later)).again_in_s is None


@given(cases)
def test_a_suppression_hides_a_move_or_an_unknown(case: Case) -> None:
    """With nothing in the way the same situation moves, waits for its time, or is still unknown."""
    if judge(*judged(case)).suppressed is not None:
        free = case._replace(
            uptime_s=86_400.0,
            since_resume_s=None,
            since_reset_s=None,
            npu="healthy",
            faster="off",
            max_prompt_tokens=None,
        )
        said = spoken(judge(*judged(free)))
        assert said.partition(" ")[0] in {"move", "again"} or said == "suppressed sensor_unknown"


@given(
    st.lists(
        st.tuples(st.sampled_from([None, 70.0, 90.0, 96.0, 110.0]), st.integers(1, 40)), min_size=1
    )
)
def test_new_conversations_do_not_go_to_and_fro_within_the_shortest_stay(
    runs: list[tuple[float | None, int]],
) -> None:
    """One conversation a second: from a move to a stay and back takes the stay's time each way."""
    rule = OnBusy(device="npu", model="N", tctl_c=95.0, tctl_clear_c=85.0, min_stay_s=30.0)
    lines = rule_lines(rule)
    assert lines is not None
    heat, turns = Heat(lines), list[tuple[int, str]]()
    for second, reading in enumerate(value for value, length in runs for _ in range(length)):
        heat.feed(float(second), reading)
        case = Case(tctl_c=95.0, hot=heat.is_hot(float(second)))
        said = spoken(judge(*judged(case)))
        known = said != "suppressed sensor_unknown"
        assert known == (reading is not None)
        if known and (not turns or turns[-1][1] != said):
            turns.append((second, said))
    # The first word is the state before anything was known of heat; from then on each lasts.
    spans = [later[0] - sooner[0] for sooner, later in pairwise(turns[1:])]
    assert all(span >= 30 for span in spans)
