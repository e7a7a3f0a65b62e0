"""What is remembered of conversations, and for how long."""

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core.binding import Binding, Bindings
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
