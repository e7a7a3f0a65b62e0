"""What is remembered of conversations, and for how long."""

import math
import time

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core.binding import Binding, Bindings, Kept
from support.stand import Stand, kinds, one


def binding(model: str = "M", at: float = 0.0) -> Binding:
    return Binding(model, "rule", "code", 1.0, b"", at)


def test_a_binding_is_found_under_its_lane_and_key_only() -> None:
    bindings = Bindings(Limits())
    bindings.keep("lane", "key", binding())
    assert bindings.find("lane", "key", 1.0) is not None
    assert bindings.find("lane", "other", 1.0) is None
    assert bindings.find("other", "key", 1.0) is None


def test_a_binding_unused_for_its_idle_time_is_forgotten() -> None:
    bindings = Bindings(Limits(binding_idle_s=10.0))
    bindings.keep("lane", "key", binding())
    assert bindings.find("lane", "key", 10.0) is not None
    assert bindings.find("lane", "key", 20.0) is not None
    assert bindings.find("lane", "key", 30.1) is None
    assert len(bindings) == 0


def test_the_least_recently_used_of_a_lane_gives_way() -> None:
    bindings = Bindings(Limits(bindings_per_lane=2))
    bindings.keep("lane", "a", binding())
    bindings.keep("lane", "b", binding())
    bindings.find("lane", "a", 1.0)
    bindings.keep("lane", "c", binding())
    assert bindings.find("lane", "b", 2.0) is None
    assert bindings.find("lane", "a", 2.0) is not None


def test_keeping_a_binding_again_counts_as_using_it() -> None:
    bindings = Bindings(Limits(bindings_per_lane=2))
    bindings.keep("lane", "a", binding())
    bindings.keep("lane", "b", binding())
    bindings.keep("lane", "a", binding("N"))
    bindings.keep("lane", "c", binding())
    found = bindings.find("lane", "a", 1.0)
    assert found is not None
    assert found.model == "N"
    assert len(bindings) == 2


def test_past_the_bound_of_the_box_the_lane_that_holds_most_gives_way() -> None:
    bindings = Bindings(Limits(bindings=4, bindings_per_lane=4))
    for key in "abc":
        bindings.keep("crowd", key, binding())
    bindings.keep("calm", "x", binding())
    bindings.keep("calm", "y", binding())
    assert bindings.find("crowd", "a", 1.0) is None
    assert bindings.find("calm", "x", 1.0) is not None
    assert len(bindings) == 4


def test_no_number_of_conversations_passes_the_bound() -> None:
    bindings = Bindings(Limits(bindings=10, bindings_per_lane=5))
    for n in range(100):
        bindings.keep(f"lane{n % 7}", f"key{n}", binding())
    assert len(bindings) == 10


def test_a_conversation_idle_for_an_hour_is_decided_afresh() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.decided(stand.question("a", conversation="k"))
    stand.cancel("a")
    stand.wait(3601.0, scorer)
    assert kinds(stand.ask("b", "auto", conversation="k")) == ["AskHelper"]


def test_one_lanes_flood_of_conversations_does_not_unbind_another_lane() -> None:
    stand = Stand(Limits(bindings=6, bindings_per_lane=4))
    stand.worker()
    stand.scorer()
    stand.finish(one(stand.decided(stand.question("calm", conversation="k")), fx.Dispatch))
    for n in range(20):
        stand.finish(one(stand.decided(stand.question(f"r{n}", lane="crowd")), fx.Dispatch))
    assert kinds(stand.ask("again", "auto", conversation="k")) == ["Place", "Dispatch"]


# --- who gives way --------------------------------------------------------------------------------


def held(bindings: Bindings) -> dict[str, set[str]]:
    """Return the keys of each lane."""
    found: dict[str, set[str]] = {}
    for one_ in bindings.items():
        found.setdefault(one_.lane, set()).add(one_.key)
    return found


def started(bindings: Bindings, lane: str, *keys: str, at: float = 0.0) -> None:
    """Begin conversations."""
    for key in keys:
        bindings.keep(lane, key, binding(at=at))


def test_in_a_lane_a_one_shot_conversation_gives_way_before_one_that_went_on() -> None:
    bindings = Bindings(Limits(bindings_per_lane=3))
    started(bindings, "lane", "agent")
    bindings.find("lane", "agent", 1.0)
    for n in range(50):
        started(bindings, "lane", f"shot{n}", at=2.0)
    assert held(bindings) == {"lane": {"agent", "shot48", "shot49"}}


def test_in_all_a_one_shot_conversation_gives_way_before_one_that_went_on() -> None:
    bindings = Bindings(Limits(bindings=4, bindings_per_lane=4))
    started(bindings, "agents", "a", "b")
    for key in "ab":
        bindings.find("agents", key, 1.0)
    started(bindings, "shots", "s", "t", at=2.0)
    started(bindings, "agents", "c", at=3.0)
    assert held(bindings) == {"agents": {"a", "b", "c"}, "shots": {"t"}}


def test_a_lane_below_its_equal_share_gives_nothing_to_a_larger_one() -> None:
    bindings = Bindings(Limits(bindings=6, bindings_per_lane=6))
    started(bindings, "calm", "one-shot")
    for key in "abcde":
        started(bindings, "crowd", key)
        bindings.find("crowd", key, 1.0)
    for key in "fghij":
        started(bindings, "crowd", key, at=2.0)
        bindings.find("crowd", key, 2.0)
    assert held(bindings)["calm"] == {"one-shot"}


def test_a_new_conversation_is_kept_even_among_none_but_old_ones() -> None:
    bindings = Bindings(Limits(bindings_per_lane=2))
    started(bindings, "lane", "a", "b")
    for key in "ab":
        bindings.find("lane", key, 1.0)
    started(bindings, "lane", "new", at=2.0)
    assert held(bindings) == {"lane": {"b", "new"}}


def test_a_new_conversation_is_kept_in_a_full_box_of_other_lanes() -> None:
    bindings = Bindings(Limits(bindings=2, bindings_per_lane=2))
    started(bindings, "one", "a")
    bindings.find("one", "a", 1.0)
    started(bindings, "two", "b", at=1.0)
    bindings.find("two", "b", 1.0)
    started(bindings, "three", "new", at=2.0)
    assert held(bindings) == {"two": {"b"}, "three": {"new"}}


def test_what_is_idle_for_its_time_gives_way_before_a_one_shot_conversation() -> None:
    bindings = Bindings(Limits(bindings_per_lane=2, binding_idle_s=10.0))
    started(bindings, "lane", "old")
    bindings.find("lane", "old", 1.0)
    started(bindings, "lane", "shot", at=5.0)
    started(bindings, "lane", "new", at=11.5)
    assert held(bindings) == {"lane": {"shot", "new"}}


def test_two_first_turns_at_once_are_a_conversation_that_goes_on() -> None:
    bindings = Bindings(Limits(bindings_per_lane=2))
    started(bindings, "lane", "a", "a", "b", "c")
    assert held(bindings) == {"lane": {"a", "c"}}


def keep_us(in_all: int, lanes: int) -> float:
    """Return the processor time of a new conversation in a box that is full, the best of some rounds."""
    bindings = Bindings(Limits(bindings=in_all, bindings_per_lane=in_all))
    for n in range(in_all):
        bindings.keep(f"lane{n % lanes}", f"k{n}", binding())
    best = math.inf
    for round_ in range(7):
        began_at = time.process_time()
        for n in range(2000):
            bindings.keep(f"lane{n % lanes}", f"r{round_}.{n}", binding())
        best = min(best, (time.process_time() - began_at) / 2000 * 1e6)
    return best


def test_a_new_conversation_costs_the_same_among_few_and_among_many() -> None:
    few, many = keep_us(500, 5), keep_us(50_000, 500)
    print(f"{few:.1f} us among 500 of 5 lanes, {many:.1f} us among 50,000 of 500 lanes")
    assert many < 5 * few


def test_a_lanes_own_flood_of_one_shots_does_not_unbind_its_agent() -> None:
    stand = Stand(Limits(bindings_per_lane=4))
    stand.worker()
    stand.scorer()
    stand.finish(one(stand.decided(stand.question("agent", conversation="k")), fx.Dispatch))
    stand.finish(one(stand.ask("second", "auto", conversation="k"), fx.Dispatch))
    for n in range(20):
        stand.finish(one(stand.decided(stand.question(f"shot{n}")), fx.Dispatch))
    assert kinds(stand.ask("third", "auto", conversation="k")) == ["Place", "Dispatch"]


# --- another life ---------------------------------------------------------------------------------


def test_what_was_kept_is_restored_in_its_order_and_with_its_turns() -> None:
    limits = Limits(bindings_per_lane=3)
    bindings = Bindings(limits)
    started(bindings, "lane", "a", "b", "c")
    bindings.find("lane", "a", 1.0)
    bindings.find("lane", "b", 2.0)
    again = Bindings(limits)
    again.restore(bindings.items(), at=3.0)
    assert again.items() == bindings.items()
    started(again, "lane", "d", at=4.0)
    assert held(again) == {"lane": {"a", "b", "d"}}


def test_what_was_idle_for_its_time_is_not_restored() -> None:
    bindings = Bindings(Limits(binding_idle_s=10.0))
    started(bindings, "lane", "a")
    started(bindings, "lane", "b", at=5.0)
    again = Bindings(Limits(binding_idle_s=10.0))
    again.restore(bindings.items(), at=12.0)
    assert held(again) == {"lane": {"b"}}


def test_restoring_keeps_the_bounds_and_of_two_with_one_key_the_later() -> None:
    bindings = Bindings(Limits())
    started(bindings, "lane", "a", "b", "c", "d")
    bindings.keep("lane", "b", binding("later", at=1.0))
    again = Bindings(Limits(bindings_per_lane=3))
    again.restore([Kept("lane", "b", binding(), turned=False), *bindings.items()], at=1.0)
    assert held(again) == {"lane": {"b", "c", "d"}}
    found = again.find("lane", "b", 2.0)
    assert found is not None
    assert found.model == "later"


def test_an_explicit_id_finds_the_same_decision_after_its_binding_was_lost() -> None:
    """The key is made of the id alone, so the conversation is the same one when it is decided again."""
    stand = Stand(Limits(bindings=2, bindings_per_lane=2))
    stand.worker()
    stand.scorer()
    first = stand.question("first", conversation="id")
    stand.finish(one(stand.decided(first), fx.Dispatch))
    for n in range(4):
        stand.finish(one(stand.decided(stand.question(f"r{n}")), fx.Dispatch))
    stand.finish(one(stand.decided(stand.question("later", conversation="id")), fx.Dispatch))
    assert kinds(stand.ask("again", "auto", conversation="id")) == ["Place", "Dispatch"]


def test_two_first_turns_at_once_are_asked_once_and_get_one_answer() -> None:
    stand = Stand()
    stand.worker(seats=2)
    stand.scorer()
    asked = stand.question("a", conversation="k")
    assert kinds(stand.ask("b", "auto", conversation="k")) == []
    placed = [e for e in stand.decided(asked) if isinstance(e, fx.Place)]
    assert [(place.rid, place.model) for place in placed] == [("a", "N"), ("b", "N")]
