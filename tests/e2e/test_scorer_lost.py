"""A scorer that is gone or stuck: the next request has the default model in time, and a scorer comes back."""

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from support.box import Box
from support.http import CHAT, ROW, Reply, call, chat
from support.wait import at_best, until

DEADLINE_S = 0.627
SLACK_S = 0.25  # a loaded machine is late itself
BACK_S = 60.0
_numbers = count()


def ask(box: Box) -> Reply:
    """Ask in a conversation that nobody had before."""
    return call(box.url, CHAT, chat(), {"x-fairlane-conversation": f"lost {next(_numbers)}"})


def asked_in(box: Box) -> tuple[Reply, float]:
    began_at = time.monotonic()
    reply = ask(box)
    return reply, time.monotonic() - began_at


def own_s(box: Box) -> float:
    """Return the time of a request that nobody decides, the longest of some."""

    def once() -> float:
        began_at = time.monotonic()
        call(box.url, CHAT, chat(model=ROW))
        return time.monotonic() - began_at

    return max(once() for _ in range(5))


@pytest.fixture
def box(new_box: Callable[..., Box]) -> Box:
    box = new_box(workers__engine="null")
    until(lambda: "why" not in ask(box).outputs, "a scorer that decides")
    return box


def undecided_s(box: Box) -> float:
    """Ask what nobody decides, check the answer, and return how much longer it took than any other.

    A scorer is back by itself after it.
    """
    reply, took_s = asked_in(box)
    assert (reply.status, reply.outputs["model"]) == (200, ROW)
    assert reply.headers["x-lemonade-route"] == "default; why=scorer_down"
    assert reply.outputs["why"] == "scorer_down"
    more_s = took_s - own_s(box)
    until(lambda: decides(box), "a scorer that is back by itself", within_s=BACK_S)
    return more_s


def decides(box: Box) -> bool:
    return "why" not in ask(box).outputs


def kill_for_a_while(box: Box) -> None:
    """Kill the scorer as often as it comes back, until the supervisor pauses for longer than a second."""
    for _ in range(5):
        pid = until(lambda: box.pids().get("scorer"), "a scorer", within_s=BACK_S)
        box.kill("scorer")
        until(lambda pid=pid: box.pids().get("scorer") != pid, "its end")  # type: ignore[misc]  # a default binds pid


@pytest.mark.slow
def test_after_a_kill_the_next_request_has_the_default_model_in_time(box: Box) -> None:
    def more_s() -> float:
        kill_for_a_while(box)
        return undecided_s(box)

    at_best(more_s, DEADLINE_S + SLACK_S, "seconds longer after a kill")


@pytest.mark.slow
def test_a_frozen_scorer_costs_no_more_and_another_takes_its_place(box: Box) -> None:
    def more_s() -> float:
        old = box.kill("scorer", signal.SIGSTOP)
        took_s = undecided_s(box)
        assert box.pids()["scorer"] != old
        return took_s

    at_best(more_s, DEADLINE_S + SLACK_S, "seconds longer with a frozen scorer")


@pytest.mark.slow
def test_while_it_is_frozen_every_request_has_its_answer(box: Box) -> None:
    def late() -> float:
        box.kill("scorer", signal.SIGSTOP)
        replies = [asked_in(box) for _ in range(30)]
        assert {reply.status for reply, _ in replies} == {200}
        found = [took_s for _, took_s in replies if took_s > DEADLINE_S / 2]
        until(lambda: decides(box), "a scorer that is back by itself", within_s=BACK_S)
        return float(len(found))

    at_best(late, 4, "of 30 that waited: the first, and who asks a late scorer again now and then")


@pytest.mark.slow
def test_a_scorer_killed_under_load_refuses_nobody(box: Box) -> None:
    with ThreadPoolExecutor(8) as pool:
        replies = [pool.submit(ask, box) for _ in range(60)]
        box.kill("scorer")
        replies += [pool.submit(ask, box) for _ in range(60)]
    assert {reply.result().status for reply in replies} == {200}
    until(lambda: decides(box), "a scorer that is back by itself", within_s=BACK_S)
