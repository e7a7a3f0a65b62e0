"""Which prompts an engine keeps, and how long that keeps others waiting."""

from scheduler.core.slots import Slots


def slots(per_row: int = 1) -> Slots:
    made = Slots()
    made.per_row = per_row
    return made


def turn(kept: Slots, conversation: str, until: float = 0.0, model: str = "M") -> None:
    kept.begin(model, conversation, f"lane of {conversation}")
    kept.end(model, conversation, 100, until)


def test_an_engine_that_keeps_nothing_holds_nobody_up() -> None:
    kept = slots(0)
    turn(kept, "a", 50.0)
    assert kept.hold_until("M", "b") == (0.0, "")
    assert kept.tokens("M", "a") == 0


def test_another_conversation_waits_for_the_one_in_the_slot() -> None:
    kept = slots()
    turn(kept, "a", 50.0)
    assert kept.hold_until("M", "b") == (50.0, "lane of a")
    assert kept.hold_until("M", "a") == (0.0, "")


def test_nobody_waits_while_a_slot_is_free() -> None:
    kept = slots(2)
    turn(kept, "a", 50.0)
    assert kept.hold_until("M", "b") == (0.0, "")


def test_the_slot_used_least_recently_is_the_one_that_is_taken() -> None:
    kept = slots(2)
    turn(kept, "a", 50.0)
    turn(kept, "b", 60.0)
    turn(kept, "a", 70.0)
    assert kept.hold_until("M", "c") == (60.0, "lane of b")
    turn(kept, "c")
    assert [kept.tokens("M", key) for key in "abc"] == [100, 0, 100]


def test_a_row_has_no_more_slots_than_the_table_gives_it() -> None:
    kept = slots(8)
    for conversation in "ab":
        kept.begin("M", conversation, f"lane of {conversation}", 2)
        kept.end("M", conversation, 100, 50.0)
    assert kept.hold_until("M", "c") == (50.0, "lane of a")
    kept.begin("M", "c", "l", 2)
    assert [kept.tokens("M", key) for key in "ab"] == [0, 100]
    again = Slots()
    again.thaw(kept.freeze())
    assert again.hold_until("M", "d") == kept.hold_until("M", "d")
    turn(kept, "a", model="N")  # a row that the table says nothing of
    turn(kept, "b", model="N")
    assert kept.hold_until("N", "c") == (0.0, "")


def test_a_slot_at_work_is_not_taken() -> None:
    kept = slots(2)
    kept.begin("M", "a", "l")
    turn(kept, "b", 60.0)
    assert kept.hold_until("M", "c") == (60.0, "lane of b")


def test_a_row_that_must_leave_takes_its_slots_along_and_the_longest_of_them_is_waited_for() -> (
    None
):
    kept = slots(2)
    turn(kept, "a", 50.0)
    turn(kept, "b", 60.0)
    assert kept.hold_until("N", "a", ["M"]) == (60.0, "lane of b")
    kept.drop(["M"])
    assert kept.tokens("M", "a") == 0


def test_rows_that_stay_keep_their_slots() -> None:
    kept = slots(1)
    turn(kept, "a", 50.0)
    assert kept.hold_until("N", "b") == (0.0, "")
    turn(kept, "b", model="N")
    assert kept.tokens("M", "a") == 100


def test_a_conversation_at_work_holds_nothing_until_it_ends() -> None:
    kept = slots()
    turn(kept, "a", 50.0)
    kept.begin("M", "a", "l")
    assert kept.hold_until("M", "b")[0] == 0.0


def test_an_engine_that_left_keeps_nothing() -> None:
    kept = slots()
    turn(kept, "a", 50.0)
    kept.clear()
    assert kept.tokens("M", "a") == 0
