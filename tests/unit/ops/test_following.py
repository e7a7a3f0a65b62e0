"""Following the feed: each thing once, oldest first, and what was missed is counted."""

from typing import Any

from ops.following import Follower
from scheduler.core.recent import KEEP
from support.stand import Stand


def told(follower: Follower, stand: Stand) -> list[tuple[Any, ...]]:
    """Return what is new, as (what, request or count)."""
    new = follower.take(stand.core.live(stand.now))
    return [(one["what"], one.get("request", one.get("endings"))) for one in new]


def box() -> Stand:
    stand = Stand()
    stand.worker()
    return stand


def test_a_request_is_told_when_it_waits_runs_and_ends() -> None:
    stand, follower = box(), Follower()
    first = stand.run("a")
    stand.ask("b")
    assert sorted(told(follower, stand)) == [("runs", "a"), ("waits", "b")]
    assert told(follower, stand) == []
    stand.finish(first)
    assert told(follower, stand) == [("ended", "a"), ("runs", "b")]


def test_what_came_and_went_between_two_looks_is_told_by_its_ending() -> None:
    stand, follower = box(), Follower()
    assert told(follower, stand) == []
    stand.finish(stand.run("a"))
    assert told(follower, stand) == [("ended", "a")]


def test_the_past_is_told_first_and_no_more_of_it_than_wanted() -> None:
    stand = box()
    for number in range(5):
        stand.finish(stand.run(f"r{number}"))
        stand.now += 1.0
    assert told(Follower(2), stand) == [("ended", "r3"), ("ended", "r4")]
    assert told(Follower(0), stand) == []


def test_endings_that_came_too_fast_are_counted() -> None:
    stand, follower = box(), Follower()
    stand.finish(stand.run("first"))
    assert told(follower, stand) == [("ended", "first")]
    for number in range(KEEP + 3):
        stand.finish(stand.run(f"r{number}"))
    new = told(follower, stand)
    assert (new[0], new[1], len(new)) == (("missed", 3), ("ended", "r3"), KEEP + 1)


def test_a_refusal_at_the_door_is_told_once() -> None:
    stand, follower = box(), Follower()
    stand.ask("no", "nope")
    assert told(follower, stand) == [("refused", "no")]
    assert told(follower, stand) == []


def test_a_box_that_lost_its_past_is_followed_from_its_own_beginning() -> None:
    stand, follower = box(), Follower()
    for number in range(3):
        stand.finish(stand.run(f"r{number}"))
    told(follower, stand)
    fresh = box()
    fresh.finish(fresh.run("new"))
    assert told(follower, fresh) == [("ended", "new")]
