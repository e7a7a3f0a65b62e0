"""Conversations of one lane share its turns, whatever their number, and none waits for ever."""

import random
from collections import Counter

import pytest

from scheduler.core.fairqueue import FairQueue
from support.sim import ticket

seeds = pytest.mark.parametrize("seed", range(5))


def serve(queue: FairQueue, truth: float) -> str:
    """Grant the next ticket, let it take so long, and return its conversation."""
    picked = queue.pick()
    assert picked is not None
    queue.settle(picked, truth)
    return picked.asked.conversation


@seeds
def test_backlogged_conversations_of_a_lane_differ_by_at_most_a_ticket_of_each(seed: int) -> None:
    dice = random.Random(seed)
    queue, served, largest = FairQueue({}), Counter[str](), Counter[str]()
    talks = ["a", "b", "c", "d"]
    for talk in talks:  # each is known: it had a turn
        queue.pass_through(ticket("lane", 0.0, conversation=talk))
        for _ in range(4):
            queue.push(ticket("lane", dice.uniform(0.1, 5), conversation=talk))
    for _ in range(3000):
        truth = dice.choice([0.1, 1.0, 20.0])
        talk = serve(queue, truth)
        served[talk] += truth  # type: ignore[assignment]  # seconds
        largest[talk] = max(largest[talk], truth, 5)  # type: ignore[assignment]
        queue.push(ticket("lane", dice.uniform(0.1, 5), conversation=talk))
    for one in talks:
        for two in talks:
            assert abs(served[one] - served[two]) <= largest[one] + largest[two]


@seeds
def test_thirty_agents_of_a_lane_do_not_block_a_talk_of_it(
    seed: int,
) -> None:
    dice = random.Random(seed)
    queue = FairQueue({})
    agents = [f"agent{n}" for n in range(30)]
    for agent in agents:
        queue.push(ticket("lane", conversation=agent))
    for agent in agents:
        serve(queue, 1.0)
        queue.push(ticket("lane", conversation=agent))
    queue.push(ticket("lane", conversation="talk"))
    between = 0
    while serve(queue, dice.uniform(0.5, 1.5)) != "talk":
        queue.push(ticket("lane", conversation=dice.choice(agents)))
        between += 1
        assert between <= 64


@seeds
def test_a_stream_of_new_conversations_keeps_none_with_a_history_waiting(seed: int) -> None:
    dice = random.Random(seed)
    queue = FairQueue({})
    queue.pass_through(ticket("lane", 1.0, conversation="old"))
    for n in range(10):
        queue.push(ticket("lane", conversation=f"new{n}"))
    waits, since = [], 0
    queue.push(ticket("lane", conversation="old"))
    for n in range(10, 1000):
        queue.push(ticket("lane", conversation=f"new{n}"))
        since += 1
        assert since <= 1.2 * len(queue) + 3  # the pool grows while it waits, and costs are guesses
        if serve(queue, dice.uniform(0.9, 1.1)) == "old":
            waits.append(since)
            since = 0
            queue.push(ticket("lane", conversation="old"))
    assert len(waits) >= 990 / len(queue)  # one share of as many as wait


@seeds
def test_new_conversations_are_not_kept_waiting_by_those_with_a_history(seed: int) -> None:
    dice = random.Random(seed)
    queue = FairQueue({})
    talks = [f"old{n}" for n in range(8)]
    for talk in talks:
        queue.pass_through(ticket("lane", 1.0, conversation=talk))
    for talk in talks * 3:
        queue.push(ticket("lane", conversation=talk))
    waits, since, n = [], 0, 0
    queue.push(ticket("lane", conversation="new"))
    for _ in range(500):
        since += 1
        truth = dice.uniform(0.9, 1.1)
        talk = serve(queue, truth)
        if talk.startswith("new"):
            waits.append(since)
            since, n = 0, n + 1
            queue.push(ticket("lane", conversation=f"new{n}"))
        else:
            queue.push(ticket("lane", conversation=talk))
    assert max(waits) <= 2 * (len(talks) + 1)


def test_what_a_conversation_used_while_nobody_waited_is_no_debt() -> None:
    queue = FairQueue({})
    for _ in range(100):
        queue.pass_through(ticket("lane", 10.0, conversation="long"))
    queue.push(ticket("lane", 10.0, conversation="long"))
    queue.push(ticket("lane", 10.0, conversation="other"))
    queue.push(ticket("lane", 10.0, conversation="third"))
    assert "long" in [serve(queue, 10.0) for _ in range(3)][:3]
    assert len(queue) == 0


def test_conversations_that_end_leave_nothing_behind() -> None:
    queue = FairQueue({})
    for n in range(20_000):
        queue.push(ticket("lane", conversation=f"talk{n}"))
        serve(queue, 1.0)
    line = queue._lanes["lane"].lines[0]  # what must not grow shows nowhere else
    assert len(line._debts) <= 128
    assert len(line._talks) == 0
