"""Figures and arrivals of the simulation, on logs and draws small enough to check by hand."""

import random
from collections import Counter

import pytest

from ops.sim.baselines import Fifo, RoundRobin
from ops.sim.clock import Loop
from ops.sim.figures import Figures, figures, percentile
from ops.sim.intervals import common
from ops.sim.job import Job, Left, Service
from ops.sim.lanes import Agents, Arrivals, Bursts, Every, Heavy, Lane, Lasts, OnOff, Poisson
from ops.sim.scenarios import SCENARIOS, Ask
from ops.sim.sources import Pen, source
from ops.sim.study import merged
from ops.sim.world import Outcome, Plan

HOUR_S = 3600.0


def plan_of(*lanes: str, **weights: float) -> Plan:
    """Return the plan of some scenario with other lanes."""
    plan = SCENARIOS["throttle"].parts(Ask(seed=1), HOUR_S, 1)["throttle"]
    made = {
        name: Lane(arrivals=Poisson(1.0), size=Lasts(1), weight=weights.get(name, 1.0))
        for name in lanes
    }
    return Plan(box=plan.box, lanes=made, horizon_s=HOUR_S)


def outcome_of(*services: tuple[str, float, float], until: float) -> Outcome:
    """Return an outcome: (lane, start, end) each, all of them asked at 0."""
    log = [
        Service(n, lane, "large", "large", 0.0, start, end, end - start, end - start, True)
        for n, (lane, start, end) in enumerate(services)
    ]
    lanes = {lane for lane, _, _ in services}
    return Outcome(
        log=log,
        left=[],
        waiting=[Left(lane, 0.0, until, "waiting") for lane in lanes],
        loads=[],
        busy_s=sum(entry.device_s for entry in log),
        virtual_s=until,
        wall_s=0.0,
        cpu_s=0.0,
        interrupted=False,
    )


def test_jain_is_one_for_like_service_and_a_half_where_one_of_two_has_it_all() -> None:
    like = outcome_of(("a", 0, 5), ("b", 5, 10), until=10)
    alone = outcome_of(("a", 0, 5), ("a", 5, 10), until=10)
    alone.waiting.append(Left("b", 0.0, 10.0, "waiting"))
    assert figures(plan_of("a", "b"), like).jain == 1.0
    assert figures(plan_of("a", "b"), alone).jain == 0.5


def test_service_counts_by_weight() -> None:
    outcome = outcome_of(("a", 0, 2), ("b", 2, 10), until=10)
    told = figures(plan_of("a", "b", b=4.0), outcome)
    assert told.jain == 1.0
    assert told.weight_error == pytest.approx(0.0)
    assert figures(plan_of("a", "b", b=1.5), outcome).weight_error == pytest.approx(0.5)


def test_the_gap_is_the_largest_over_any_interval_not_only_from_the_start() -> None:
    services = [("a", 0, 4), ("b", 4, 8), ("b", 8, 12), ("b", 12, 16)]
    told = figures(plan_of("a", "b"), outcome_of(*services, until=16))
    assert told.gap_s == pytest.approx(12.0)  # all three of b, after a's
    assert told.gap_bound_s == pytest.approx(8.0)
    assert told.gap_over_bound == pytest.approx(1.5)


def test_a_lane_that_was_not_backlogged_is_owed_nothing() -> None:
    outcome = outcome_of(("a", 0, 4), ("a", 4, 8), until=8)
    outcome.log.append(Service(9, "b", "large", "large", 8.0, 8.0, 10.0, 2.0, 2.0, True))
    told = figures(plan_of("a", "b"), outcome)
    assert told.gap_s is None  # never backlogged together
    assert told.jain is None


def test_a_device_that_idles_while_somebody_waits_is_found_out() -> None:
    told = figures(plan_of("a"), outcome_of(("a", 2, 4), ("a", 7, 10), until=10))
    assert told.idle_while_waiting_s == pytest.approx(5.0)


def test_waits_of_those_who_still_wait_count_as_the_longest() -> None:
    told = figures(plan_of("a"), outcome_of(("a", 3, 4), until=50))
    assert told.lanes["a"].wait_p50_s == 3.0
    assert told.lanes["a"].wait_max_s == 50.0


def test_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99)) == (50.0, 99.0)
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) is None


def test_common_intervals() -> None:
    one, other = [(0.0, 5.0), (8.0, 9.0)], [(3.0, 8.5)]
    assert common(one, other) == [(3.0, 5.0), (8.0, 8.5)]


def test_the_parts_of_a_study_are_told_by_their_worst() -> None:
    good = figures(plan_of("a", "b"), outcome_of(("a", 0, 5), ("b", 5, 10), until=10))
    bad = figures(plan_of("a", "b"), outcome_of(("a", 0, 2), ("b", 2, 10), until=10))
    both: dict[str, Figures] = {"good": good, "bad": bad}
    told = merged(both, with_parts=True)
    assert told["jain"] == bad.jain
    assert told["tickets"] == 4


class Asks:
    """Takes what a lane asks."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def number(self) -> int:
        return len(self.jobs) + 1

    def ask(self, job: Job) -> None:
        self.jobs.append(job)


def asked(arrivals: Arrivals, seconds: float) -> list[Job]:
    """Return what a lane asks while nothing is answered."""
    asks, loop = Asks(), Loop()
    pen = Pen("x", Lane(arrivals=arrivals, size=Lasts(4)), loop, "seed", asks)
    source(pen, arrivals).begin()
    loop.run(seconds)
    return asks.jobs


def test_a_poisson_lane_comes_at_its_rate() -> None:
    assert len(asked(Poisson(2.0), 5000)) == pytest.approx(10_000, rel=0.05)


def test_a_lane_that_is_on_a_quarter_of_the_time_comes_at_a_quarter_of_its_rate() -> None:
    assert len(asked(OnOff(2.0, 50.0, 150.0), 200_000)) == pytest.approx(100_000, rel=0.1)


def test_bursts_come_at_once() -> None:
    at_once = Counter(job.asked_at for job in asked(Bursts(7, 10.0), 1000))
    assert set(at_once.values()) == {7}


def test_every_period_one_comes() -> None:
    assert [job.asked_at for job in asked(Every(0.5, 0.1), 1.2)] == pytest.approx([0.1, 0.6, 1.1])


def test_heavy_tails_stay_in_their_bounds_and_are_heavy() -> None:
    draw, size = random.Random(1), Heavy(1, 120)
    tokens = [size.draw(draw) for _ in range(20_000)]
    seconds = sorted(prompt / 128 + output / 16 for prompt, output in tokens)
    assert seconds[0] > 0.9
    assert seconds[-1] < 121
    assert seconds[10_000] == pytest.approx(1.87, rel=0.05)  # median: F(x) = 1/2
    assert seconds[-1] > 50 * seconds[0]


def test_an_agent_says_on_what_was_said_and_begins_anew_after_its_turns() -> None:
    asks, loop = Asks(), Loop()
    arrivals = Agents(count=1, think_s=5.0, turns=2, system_tokens=100)
    pen = Pen("x", Lane(arrivals=arrivals, size=Lasts(4)), loop, "seed", asks)
    agent = source(pen, arrivals)
    agent.begin()
    for number in range(3):
        loop.run(1000.0 * (number + 1))
        assert len(asks.jobs) == number + 1  # it waits for its answer
        agent.ended(asks.jobs[-1], None)
    first, second, third = asks.jobs
    assert (first.prompt_tokens, first.output_tokens) == (128 + 100, 48)
    assert second.prompt_tokens == 128 + 228 + 48
    assert (first.conversation, first.starts) == (second.conversation, not second.starts)
    assert third.conversation != first.conversation
    assert third.prompt_tokens == first.prompt_tokens


def test_the_baselines_order() -> None:
    jobs = asked(Bursts(4, 1.0), 20)[:4]
    for job, lane in zip(jobs, "aabc", strict=True):
        job.lane = lane
    orders: list[list[str]] = []
    for queue in (Fifo(), RoundRobin()):
        for job in jobs:
            queue.push(job)
        order: list[str] = []
        while (head := queue.head()) is not None:
            queue.remove(head)
            order.append(head.lane)
        orders.append(order)
    assert orders == [["a", "a", "b", "c"], ["a", "b", "c", "a"]]


def test_a_withdrawn_job_costs_its_lane_no_turn() -> None:
    jobs = asked(Bursts(4, 1.0), 20)[:4]
    queue = RoundRobin()
    for job, lane in zip(jobs, "aabb", strict=True):
        job.lane = lane
        queue.push(job)
    queue.remove(jobs[1])
    assert queue.head() is jobs[0]
