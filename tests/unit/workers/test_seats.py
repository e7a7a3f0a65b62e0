"""Which slot of a server a conversation gets."""

from hypothesis import given
from hypothesis import strategies as st

from workers.upstream.seats import Seats


def test_a_conversation_comes_back_to_its_own_slot() -> None:
    seats = Seats(2)
    for talk in ("a", "b", "a", "b", "b", "a"):
        slot = seats.take(talk)
        assert slot == {"a": 0, "b": 1}[talk]
        seats.leave(slot)


def test_the_slot_used_least_recently_gives_way() -> None:
    seats = Seats(2)
    for talk in ("a", "b", "a"):
        slot = seats.take(talk)
        assert slot is not None
        seats.leave(slot)
    assert seats.take("c") == 1  # where b was
    assert seats.take("b") == 0
    assert seats.take("d") is None


def test_a_busy_slot_is_never_given_twice() -> None:
    seats = Seats(1)
    assert seats.take("a") == 0
    assert seats.take("a") is None
    seats.leave(0)
    assert seats.take("b") == 0


@given(
    st.integers(1, 4), st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=40)
)
def test_what_is_held_is_held_once(count: int, steps: list[tuple[str, bool]]) -> None:
    seats, held = Seats(count), list[int]()
    for talk, ends in steps:
        slot = seats.take(talk)
        assert (slot is None) == (len(held) == count)
        if slot is not None:
            assert slot not in held
            assert 0 <= slot < count
            held.append(slot)
        if ends and held:
            seats.leave(held.pop(0))
