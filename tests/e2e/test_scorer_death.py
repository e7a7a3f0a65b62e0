"""A scorer that is killed or stopped can slow a new conversation by 627 ms and never refuse it."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from support.box import Box
from support.http import CHAT, ROW, Reply, Stream, call, chat
from support.wait import at_best, until

DEADLINE_MS = 627.0
_numbers = count()


def new_conversation(box: Box) -> Reply:
    return call(box.url, CHAT, chat(), {"x-fairlane-conversation": f"scorer-{next(_numbers)}"})


def decide_ms(reply: Reply) -> float:
    """Return what the decision took, by the box's clock."""
    return float(reply.outputs["timings"]["decide_ms"])


@contextmanager
def stopped_scorer(box: Box) -> Iterator[None]:
    """Stop the scorer; at the end it goes on and has been seen to decide again."""
    box.kill("scorer", signal.SIGSTOP)
    try:
        yield
    finally:
        box.kill("scorer", signal.SIGCONT)
        until(lambda: decides(box), "a scorer that decides again")


def decides(box: Box) -> bool:
    with box.bus() as bus:
        decided = bus.decide([{"role": "user", "content": "Hi"}])
    return "why" not in decided["outputs"]


@pytest.fixture(scope="module")
def warm_box(rough_box: Box) -> Box:
    """A box whose model is loaded, so that its own time is short."""
    call(rough_box.url, CHAT, chat(model=ROW))
    return rough_box


def test_a_new_conversation_gets_the_default_model_in_time(warm_box: Box) -> None:
    def more_s() -> float:
        began_at = time.monotonic()
        call(warm_box.url, CHAT, chat(model=ROW))
        own_s = time.monotonic() - began_at
        with stopped_scorer(warm_box):
            began_at = time.monotonic()
            reply = new_conversation(warm_box)
            took_s = time.monotonic() - began_at
        assert reply.outputs["model"] == ROW
        print(
            f"answered after {took_s:.3f} s without a scorer, {own_s:.3f} s with an explicit name"
        )
        return took_s - own_s

    at_best(more_s, DEADLINE_MS / 1e3 + 0.25, "seconds more than with an explicit name")


def test_the_header_says_that_the_scorer_was_down(warm_box: Box) -> None:
    with stopped_scorer(warm_box):
        reply = new_conversation(warm_box)
    assert reply.headers["x-lemonade-route"] == "default; why=scorer_down"
    assert reply.outputs["why"] == "scorer_down"


def test_a_streams_header_says_it_too(warm_box: Box) -> None:
    with stopped_scorer(warm_box):
        own = {"x-fairlane-conversation": f"scorer-{next(_numbers)}"}
        with Stream(warm_box.url, CHAT, chat(), own) as stream:
            assert stream.headers["x-lemonade-route"] == "default; why=scorer_down"


def test_the_decision_falls_open_at_the_deadline(warm_box: Box) -> None:
    def fell_open_ms() -> float:
        with stopped_scorer(warm_box):
            cost_ms = decide_ms(new_conversation(warm_box))
        assert cost_ms >= DEADLINE_MS - 5
        return cost_ms

    at_best(fell_open_ms, DEADLINE_MS + 25, "ms until a decision fell open")


def test_the_second_conversation_does_not_wait_again(warm_box: Box) -> None:
    def second_ms() -> float:
        with stopped_scorer(warm_box):
            new_conversation(warm_box)
            return decide_ms(new_conversation(warm_box))

    at_best(second_ms, 50, "ms that the second conversation waits")


def test_nobody_waits_for_a_scorer_that_was_frozen_until_it_counts_as_lost(warm_box: Box) -> None:
    def longest_ms() -> float:
        with stopped_scorer(warm_box):
            new_conversation(warm_box)
            until(lambda: not warm_box.status()["scorers"], "the loss of the silent scorer")
            return max(decide_ms(new_conversation(warm_box)) for _ in range(5))

    at_best(longest_ms, 50, "ms that anybody waits for a lost scorer")


def test_a_bound_conversation_needs_no_scorer(warm_box: Box) -> None:
    bound = {"x-fairlane-conversation": f"scorer-{next(_numbers)}"}
    first = call(warm_box.url, CHAT, chat(), bound)
    with stopped_scorer(warm_box):
        again = call(warm_box.url, CHAT, chat(), bound)
    assert again.headers["x-lemonade-route"] == first.headers["x-lemonade-route"]


def test_a_default_for_want_of_a_scorer_binds_nothing(warm_box: Box) -> None:
    same = {"x-fairlane-conversation": f"scorer-{next(_numbers)}"}
    with stopped_scorer(warm_box):
        call(warm_box.url, CHAT, chat(), same)
    assert "why" not in call(warm_box.url, CHAT, chat(), same).outputs


def test_a_killed_scorer_refuses_nobody_and_comes_back(warm_box: Box) -> None:
    def waited_ms() -> float:
        old = warm_box.kill("scorer")
        reply = new_conversation(warm_box)
        assert reply.status == 200
        assert warm_box.wait_for_new("scorer", old)
        until(lambda: decides(warm_box), "a scorer that decides again")
        return decide_ms(reply)

    at_best(waited_ms, DEADLINE_MS + 25, "ms that a new conversation waits")
