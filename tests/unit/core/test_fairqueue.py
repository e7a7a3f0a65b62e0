"""The fair queue, one rule at a time. Its promises over time: tests/property/test_fairness.py."""

import time
from collections.abc import Callable
from itertools import count

import pytest

from scheduler.core.fairqueue import FairQueue
from scheduler.core.ticket import Ticket
from support.sim import ticket


def filled(*tickets: Ticket, weights: dict[str, float] | None = None) -> FairQueue:
    """Return a queue in which these wait."""
    queue = FairQueue(weights or {})
    for one in tickets:
        queue.push(one)
    return queue


def lanes(queue: FairQueue, picks: int) -> str:
    """Return the lanes that are picked, one letter each."""
    return "".join(one.lane for one in (queue.pick() for _ in range(picks)) if one)


def test_an_empty_queue_picks_nothing() -> None:
    assert FairQueue({}).pick() is None


def test_one_lane_is_served_in_order_of_arrival() -> None:
    tickets = [ticket("a") for _ in range(5)]
    queue = filled(*tickets)
    assert [queue.pick() for _ in range(5)] == tickets


def test_equal_lanes_take_turns() -> None:
    queue = filled(*[ticket(lane) for lane in "aaaabbbb"])
    assert lanes(queue, 8) == "abababab"


def test_a_lane_of_weight_three_gets_three_turns_of_four() -> None:
    queue = filled(
        *[ticket("a") for _ in range(9)], *[ticket("b") for _ in range(3)], weights={"a": 3.0}
    )
    assert lanes(queue, 8).count("a") == 6


def test_interactive_goes_before_batch_in_a_lane() -> None:
    batch, interactive = ticket("a", batch=True), ticket("a")
    queue = filled(batch, interactive)
    assert [queue.pick(), queue.pick()] == [interactive, batch]


def test_a_batch_ticket_is_picked_before_another_lanes_interactive_one_when_its_turn_comes() -> (
    None
):
    queue = filled(ticket("a"), ticket("a"), ticket("b", batch=True))
    assert lanes(queue, 3) == "aba"


def test_a_ticket_put_back_goes_before_its_whole_lane() -> None:
    first, second = ticket("a"), ticket("a")
    queue = filled(first, second)
    assert queue.pick() is first
    queue.settle(first, 0.0)
    queue.push(first, front=True)
    assert queue.pick() is first


def test_a_cancelled_ticket_is_not_picked_and_not_charged() -> None:
    first, second = ticket("a"), ticket("a")
    queue = filled(first, second)
    queue.cancel(first)
    assert (len(queue), queue.waiting_of("a")) == (1, 1)
    assert queue.pick() is second
    assert queue.served_s() == {"a": 1.0}


def test_cancelling_the_last_ticket_leaves_an_empty_queue() -> None:
    only = ticket("a")
    queue = filled(only)
    queue.cancel(only)
    assert (queue.pick(), len(queue), queue.waiting_of("a")) == (None, 0, 0)


def test_cancelling_twice_counts_once() -> None:
    first, second = ticket("a"), ticket("a")
    queue = filled(first, second)
    queue.cancel(first)
    queue.cancel(first)
    assert len(queue) == 1


def test_a_charge_is_the_estimate_until_it_is_settled_to_the_truth() -> None:
    one = ticket("a", 5.0)
    queue = filled(one)
    queue.pick()
    assert queue.served_s() == {"a": 5.0}
    queue.settle(one, 7.5)
    assert queue.served_s() == {"a": 7.5}


def test_the_virtual_time_never_falls() -> None:
    queue = FairQueue({"a": 2.0})
    seen = [queue.virtual]
    for n in range(60):
        queue.push(ticket("ab"[n % 2], 1.0 + n % 7))
        if n % 3:
            one = queue.pick()
            assert one is not None
            queue.settle(one, float(n % 5))
        seen.append(queue.virtual)
    assert seen == sorted(seen)


def test_the_order_told_is_the_order_in_which_they_are_picked() -> None:
    tickets = [ticket("abc"[n % 3], 1.0 + n % 4, batch=n % 5 == 0) for n in range(30)]
    queue = filled(*tickets, weights={"b": 2.0})
    queue.cancel(tickets[7])
    told = list(queue.order())
    picked = [queue.pick() for _ in told]
    assert told == picked
    assert queue.pick() is None


def test_looking_at_the_order_changes_nothing() -> None:
    queue = filled(*[ticket(lane) for lane in "aab"])
    list(queue.order())
    assert lanes(queue, 3) == "aba"
    assert queue.waiting() == []


def test_all_that_waits_is_listed() -> None:
    tickets = [ticket(lane) for lane in "aab"]
    assert sorted(t.number for t in filled(*tickets).waiting()) == [t.number for t in tickets]


def test_tickets_that_come_and_are_cancelled_do_not_slow_the_queue_down() -> None:
    queue = filled(ticket("a"))
    began = time.thread_time()
    for _ in range(20_000):
        one = ticket("b")
        queue.push(one)
        queue.cancel(one)
    list(queue.order())
    assert time.thread_time() - began < 5.0
    assert queue.pick() is not None


def used_us(what: Callable[[], object], times: range) -> float:
    """Return the processor time of one of so many calls."""
    began = time.thread_time()
    for _ in times:
        what()
    return (time.thread_time() - began) / len(times) * 1e6


def settle(queue: FairQueue, picked: Ticket | None) -> None:
    """Settle what was picked."""
    assert picked is not None
    queue.settle(picked, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("each", [100, 10_000])
def test_a_pick_among_a_hundred_lanes_takes_microseconds(
    each: int, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = FairQueue({})
    numbers = count(1)
    for lane in range(100):
        shared = ticket(f"lane {lane}", conversation=f"talk {lane}").asked
        for n in range(each):
            one = Ticket(next(numbers), shared, f"lane {lane}", [])
            one.cost_s = 1.0 + n % 13
            queue.push(one)
    for _ in range(200):
        queue.pick()
    picks: list[Ticket | None] = []
    # the best of five parts: what else the machine does is none of the queue's
    pick_us = min(used_us(lambda: picks.append(queue.pick()), range(1000)) for _ in range(5))
    settled = iter(picks)
    settle_us = min(used_us(lambda: settle(queue, next(settled)), range(1000)) for _ in range(5))
    rest = iter(queue.waiting()[:2000])
    cancel_us = min(used_us(lambda: queue.cancel(next(rest)), range(400)) for _ in range(5))
    with capsys.disabled():
        print(
            f"\n100 lanes x {each} waiting: pick {pick_us:.1f} us, settle {settle_us:.1f} us, "
            f"cancel {cancel_us:.1f} us"
        )
    assert pick_us < 20.0
    assert settle_us < 20.0
    assert cancel_us < 20.0
