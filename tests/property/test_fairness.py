"""The fair queue's promises, on virtual time. The seed is in the test's id; a run is its seed's alone."""

import random
from itertools import combinations

import pytest

from support.sim import Draw, Sim, gap, largest, service

seeds = pytest.mark.parametrize("seed", range(5))
TINY = 1e-6  # rounding of some thousand additions
WEIGHTS = {"a": 1.0, "b": 2.0, "c": 5.0, "d": 0.5}


def uniform(low: float, high: float) -> Draw:
    """Draw sizes evenly."""
    return lambda source: source.uniform(low, high)


def skewed(source: random.Random) -> float:
    """Draw many small sizes and a few that are a hundred times as large."""
    return source.choice([0.5, 1.0, 1.5, 2.0, 60.0])


def wild(source: random.Random) -> float:
    """Draw guesses that have nothing to do with the truth."""
    return source.choice([0.01, 1.0, 10.0, 60.0])


SIZES: dict[str, Draw] = {
    "a": uniform(0.1, 2),
    "b": skewed,
    "c": uniform(5, 30),
    "d": uniform(1, 1.1),
}


def saturated(seed: int, seats: int = 1, guess: Draw | None = None, weights: bool = True) -> Sim:
    """Return a run of four lanes that never run dry."""
    sim = Sim(seed, WEIGHTS if weights else {}, seats)
    for lane, size in SIZES.items():
        sim.backlog(lane, 5, size, guess)
    sim.run(3000.0)
    return sim


def assert_fair(sim: Sim) -> None:
    """Hold every pair of lanes to the bound: the largest ticket of each, once a seat."""
    for one, two in combinations(SIZES, 2):
        bound = sum(largest(sim.log, lane) / sim.weights.get(lane, 1.0) for lane in (one, two))
        assert gap(sim.log, one, two, sim.weights) <= bound * sim.seats + TINY, (one, two)


@seeds
def test_two_backlogged_lanes_stay_within_their_largest_tickets(seed: int) -> None:
    assert_fair(saturated(seed))


@seeds
def test_the_bound_holds_when_no_estimate_is_true(seed: int) -> None:
    assert_fair(saturated(seed, guess=wild))


@seeds
@pytest.mark.parametrize("seats", [2, 4])
def test_the_bound_holds_for_each_seat(seed: int, seats: int) -> None:
    assert_fair(saturated(seed, seats))


@seeds
@pytest.mark.parametrize("seats", [2, 4])
def test_the_bound_holds_for_each_seat_when_no_estimate_is_true(seed: int, seats: int) -> None:
    assert_fair(saturated(seed, seats, wild))


@seeds
def test_weights_are_respected_within_two_percent(seed: int) -> None:
    sim = Sim(seed, WEIGHTS)
    for lane in WEIGHTS:
        sim.backlog(lane, 3, uniform(0.5, 1.5), wild)
    sim.run(8000.0)
    served, total = service(sim.log), sum(WEIGHTS.values())
    for lane, weight in WEIGHTS.items():
        assert served[lane] / sim.now == pytest.approx(weight / total, rel=0.02)


@seeds
def test_lanes_without_a_weight_share_evenly(seed: int) -> None:
    served = service(saturated(seed, weights=False).log).values()
    jain = sum(served) ** 2 / (len(served) * sum(s * s for s in served))
    assert jain >= 0.99


@seeds
def test_no_seat_is_free_while_a_ticket_waits(seed: int) -> None:
    sim = Sim(seed, WEIGHTS, seats=3)
    for _ in range(500):
        lane, size = sim.random.choice(list(SIZES)), sim.random.uniform(0.1, 5)
        sim.comes(sim.random.uniform(0, 500), lane, size)
    sim.run(5000.0)  # Sim itself fails where a seat is free beside a waiting ticket
    assert len(sim.log) == 500
    assert len(sim.queue) == 0


@seeds
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_a_lane_that_idled_has_banked_no_credit(seed: int, depth: int) -> None:
    sim = Sim(seed)
    sim.backlog("busy", 4, uniform(1, 3), wild)
    sim.run(1000.0)
    if depth == 0:  # nothing waits and the device is busy: the returning lane meets an empty queue
        sim.stop("busy")
        while len(sim.queue):
            sim.run(sim.now + 0.5)
        assert sim.running
    known = len(sim.log)
    sim.backlog("back", max(1, depth), uniform(1, 3), wild)
    sim.backlog("busy", 4, uniform(1, 3), wild)
    sim.run(sim.now + 500.0)
    log = sim.log[known:]
    bound = largest(sim.log, "busy") + largest(log, "back")
    assert gap(log, "busy", "back", {}) <= bound + TINY


@seeds
def test_a_device_that_idled_gives_nobody_credit(seed: int) -> None:
    sim = Sim(seed)
    sim.backlog("busy", 1, uniform(1, 3))
    sim.run(1000.0)
    sim.stop("busy")
    sim.run(2000.0)
    known = len(sim.log)
    sim.backlog("new", 2, uniform(1, 3))
    sim.backlog("busy", 2, uniform(1, 3))
    sim.run(3000.0)
    assert gap(sim.log[known:], "busy", "new", {}) <= 6.0 + TINY


@seeds
def test_an_overrun_is_paid_by_the_lane_that_caused_it(seed: int) -> None:
    sim = Sim(seed)
    sim.backlog("liar", 3, uniform(9, 11), lambda _: 0.1)
    sim.backlog("honest", 3, uniform(0.5, 1.5))
    sim.run(4000.0)
    served = service(sim.log)
    assert served["liar"] / served["honest"] == pytest.approx(1.0, rel=0.02)


@seeds
def test_an_estimate_that_was_too_high_is_given_back(seed: int) -> None:
    sim = Sim(seed)
    sim.backlog("modest", 3, uniform(0.5, 1.5), lambda _: 100.0)
    sim.backlog("exact", 3, uniform(0.5, 1.5))
    sim.run(2000.0)
    served = service(sim.log)
    assert served["modest"] / served["exact"] == pytest.approx(1.0, rel=0.02)


@seeds
def test_a_cancelled_ticket_costs_its_lane_nothing(seed: int) -> None:
    sim = Sim(seed)
    sim.backlog("fickle", 1, uniform(1, 3))
    sim.backlog("steady", 1, uniform(1, 3))
    for second in range(1000):
        sim.passes_by(second, "fickle", 50.0)
    sim.run(1000.0)
    assert gap(sim.log, "fickle", "steady", {}) <= 6.0 + TINY
    assert sum(sim.queue.served_s().values()) <= sim.now + 100.0


@seeds
@pytest.mark.parametrize("guess", [None, wild])
def test_a_light_lane_waits_for_one_ticket_of_each_other_lane_and_what_runs(
    seed: int, guess: Draw | None
) -> None:
    sim = Sim(seed)
    for lane, size in SIZES.items():
        sim.backlog(lane, 8, size, guess)
    for n in range(40):
        sim.comes(100.0 + n * 500.0, "light", 1.0)
    sim.run(100.0 + 41 * 500.0)
    waits = [s.began_at - s.asked_at for s in sim.log if s.lane == "light"]
    in_service = max(s.actual_s for s in sim.log)
    assert len(waits) == 40
    assert max(waits) <= sum(largest(sim.log, lane) for lane in SIZES) + in_service + TINY


def throttled(sim: Sim, size: Draw) -> Draw:
    """Draw what a size takes on a device that throttles to half its speed halfway."""
    return lambda source: size(source) * (2 if sim.now > 1500.0 else 1)


@seeds
def test_a_slow_device_is_shared_as_a_fast_one_is(seed: int) -> None:
    sim = Sim(seed, WEIGHTS)
    for lane, size in SIZES.items():
        sim.backlog(lane, 4, throttled(sim, size), size)
    sim.run(3000.0)
    assert_fair(sim)


@seeds
def test_the_same_seed_makes_the_same_run(seed: int) -> None:
    def order(sim: Sim) -> list[tuple[str, float]]:
        return [(served.lane, served.ended_at) for served in sim.log]

    assert order(saturated(seed, 2, wild)) == order(saturated(seed, 2, wild))
