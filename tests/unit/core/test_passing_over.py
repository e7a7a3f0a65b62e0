"""When the fair head waits although the device could run it: to save a load, or for a conversation."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from support.stand import Peer, Stand, of, one

LIMITS = Limits(collate_s=10.0, think_s=3.0)


def stand_with(limits: Limits = LIMITS, **worker: int | bool) -> tuple[Stand, Peer]:
    """Return a box whose memory has room for one of the rows M and N."""
    stand = Stand(limits, memory=100)
    peer = stand.worker(**worker)  # type: ignore[arg-type]  # a test's shorthand
    stand.beat(peer, M=60, N=60)
    return stand, peer


def teach(stand: Stand, seconds: float) -> None:
    """Let a ticket of row M take so long that the next is thought to."""
    run = stand.run("lesson", lane="teacher", max_tokens=100)
    stand.now += seconds
    stand.finish(run, tokens=(1, 100, 100), ttft_s=0.0)


# --- collation ---------------------------------------------------------------------------------------


def order(stand: Stand, run: fx.Dispatch, each_s: float, n: int) -> str:
    """Return the rows of the next grants, each held so long."""
    rows = ""
    for _ in range(n):
        stand.now += each_s
        run = one(stand.finish(run), fx.Dispatch)
        rows += run.model
    return rows


def waiting(stand: Stand, each_s: float) -> fx.Dispatch:
    """Let five tickets for M of one lane and one for N of another wait behind a ticket for M."""
    teach(stand, each_s)
    run = stand.run("a", lane="one", max_tokens=100)
    for n in range(5):
        stand.ask(f"m{n}", "M", lane="one", max_tokens=100)
    stand.ask("n", "N", lane="two", max_tokens=100)
    return run


def test_tickets_for_the_loaded_row_go_first_while_they_fit_into_what_the_head_may_wait() -> None:
    stand, _ = stand_with()
    run = waiting(stand, 2.4)
    assert order(stand, run, 2.4, 4) == "MMNM"


def test_a_ticket_that_does_not_fit_lets_the_head_go() -> None:
    stand, _ = stand_with()
    run = waiting(stand, 11.0)
    assert order(stand, run, 11.0, 2) == "NM"


def test_without_patience_the_head_always_goes() -> None:
    stand, _ = stand_with(Limits(collate_s=0.0))
    run = waiting(stand, 1.0)
    assert order(stand, run, 1.0, 2) == "NM"


def test_a_row_that_is_resident_saves_no_load_so_its_turn_is_kept() -> None:
    stand, peer = stand_with()
    stand.beat(peer, M=50, N=50)
    stand.finish(stand.run("n", "N", lane="two"))
    run = waiting(stand, 1.0)
    assert order(stand, run, 1.0, 2) == "NM"


def test_what_went_first_is_paid_for() -> None:
    stand, _ = stand_with()
    run = waiting(stand, 2.4)
    for n in range(5):
        stand.ask(f"n{n}", "N", lane="two", max_tokens=100)
    rows = order(stand, run, 2.4, 9)
    assert rows.startswith("MMN")  # lane one had 7.2 s, so lane two may catch up
    assert rows.count("M") <= 5


def test_a_lane_that_alternates_its_rows_is_not_passed_over_without_end() -> None:
    stand, _ = stand_with()
    served = {"short": 0.0, "long": 0.0}
    sizes = {"short": 0.1, "long": 1.0}
    lane_of: dict[str, str] = {}

    def ask(lane: str, row: str) -> list[fx.Dispatch]:
        rid = f"r{len(lane_of)}"
        lane_of[rid] = lane
        return of(stand.ask(rid, row, lane=lane, max_tokens=10, body=rid.encode()), fx.Dispatch)

    runs = ask("long", "M")
    for n in range(4):
        ask("long", "MN"[n % 2])
        ask("short", "MN"[n % 2])
    for n in range(200):
        run = runs.pop()
        lane = lane_of[run.body.decode()]
        stand.now += sizes[lane]
        served[lane] += sizes[lane]
        runs += of(stand.finish(run, tokens=(0, 0, 0)), fx.Dispatch)
        runs += ask(lane, "MN"[n % 2] if lane == "short" else run.model)
    assert abs(served["long"] - served["short"]) <= sum(sizes.values()) + LIMITS.collate_s


def test_alternating_rows_are_loaded_once_a_quantum() -> None:
    stand, _ = stand_with()
    teach(stand, 0.5)
    run = stand.run("first", lane="A", max_tokens=100)
    loads, asked, loaded = 0, 0, "M"
    for step in range(400):
        stand.now += 0.05
        if asked < 60:
            asked += 1
            stand.ask(f"{step}", "MN"[step % 2], lane="AB"[step % 2], max_tokens=100)
        if step % 10 == 9:
            run = next(iter(of(stand.finish(run), fx.Dispatch)), run)
            loads += run.model != loaded
            loaded = run.model
    assert loads <= 400 * 0.05 / LIMITS.collate_s + 1


# --- think time --------------------------------------------------------------------------------------


def turn(stand: Stand, rid: str, *, seconds: float = 1.0, **fields: object) -> list[fx.Effect]:
    """Run a turn of the conversation `talk`: 1,000 tokens of prompt, computed in a second."""
    run = stand.run(rid, lane="talker", conversation="talk", prompt_bytes=4000, **fields)  # type: ignore[arg-type]  # passed on
    stand.now += seconds
    return stand.finish(run, tokens=(1000, 0, 1), ttft_s=seconds)


def test_another_conversation_waits_for_the_next_turn_of_one_that_had_a_turn() -> None:
    stand, peer = stand_with(slots=1)
    turn(stand, "1", seconds=2.0, starts=False)
    assert of(stand.ask("other", lane="two"), fx.Dispatch) == []
    assert one(stand.wait(2.1, peer), fx.Dispatch).ticket == 2  # computing it again takes 2 s


def test_think_time_is_at_most_its_limit() -> None:
    stand, peer = stand_with(slots=1)
    turn(stand, "1", seconds=50.0, starts=False)
    stand.ask("other", lane="two")
    assert of(stand.wait(2.9, peer), fx.Dispatch) == []
    assert one(stand.wait(0.2, peer), fx.Dispatch).ticket == 2


def test_the_conversation_that_comes_back_goes_first_and_pays_for_the_pause() -> None:
    stand, peer = stand_with(slots=1)
    turn(stand, "1", seconds=2.0, starts=False)
    stand.ask("other", lane="two")
    stand.now += 1.5
    run = one(
        stand.ask("2", lane="talker", conversation="talk", starts=False, prompt_bytes=4400),
        fx.Dispatch,
    )
    stand.now += 1.0
    assert of(stand.finish(run), fx.Dispatch) == []  # and is waited for again
    assert one(stand.wait(3.0, peer), fx.Dispatch).conversation == "conversation of other"
    served = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]  # a view
    assert served["talker"] == pytest.approx(2.0 + 1.5 + 1.0, abs=0.05)


def test_a_first_turn_of_no_agent_is_not_waited_for() -> None:
    stand, _ = stand_with(slots=1)
    turn(stand, "1", seconds=2.0)
    assert of(stand.ask("other", lane="two"), fx.Dispatch) != []


def test_a_first_turn_of_an_agent_is() -> None:
    stand, _ = stand_with(slots=1)
    turn(stand, "1", seconds=2.0, tools=True)
    assert of(stand.ask("other", lane="two"), fx.Dispatch) == []


def test_nobody_waits_while_a_slot_is_free() -> None:
    stand, _ = stand_with(slots=2)
    turn(stand, "1", seconds=2.0, starts=False)
    assert of(stand.ask("other", lane="two"), fx.Dispatch) != []


def test_turns_that_keep_coming_back_cannot_keep_the_head_waiting_for_ever() -> None:
    stand, peer = stand_with(slots=1)
    turn(stand, "1", seconds=2.0, starts=False)
    stand.ask("other", lane="two")
    asked_at, turns = stand.now, 1
    while True:
        effects = stand.wait(1.0, peer)
        if of(effects, fx.Dispatch):
            break
        turns += 1
        got = of(
            stand.ask(f"{turns}", lane="talker", conversation="talk", starts=False), fx.Dispatch
        )
        if not got:
            break
        stand.now += 1.0
        if of(stand.finish(got[0], tokens=(1000, 900, 1), ttft_s=0.2), fx.Dispatch):
            break
    assert turns > 2
    assert stand.now - asked_at <= LIMITS.collate_s + LIMITS.think_s


def test_a_head_that_gives_up_ends_the_pause() -> None:
    stand, _ = stand_with(slots=1)
    turn(stand, "1", seconds=2.0, starts=False)
    stand.ask("other", lane="two")
    stand.now += 1.0
    stand.cancel("other")
    stand.now += 5.0
    assert of(stand.ask("third", lane="three"), fx.Dispatch) != []
    served = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]  # a view
    assert served["talker"] == pytest.approx(3.0)


# --- seats of a row ----------------------------------------------------------------------------------


def test_a_row_has_no_more_seats_than_its_slots_where_the_engine_says_so() -> None:
    stand, _ = stand_with(seats=4, by_row=True)
    stand.run("a", lane="one")
    assert of(stand.ask("b", lane="two"), fx.Dispatch) == []


def test_other_engines_have_the_seats_they_name() -> None:
    stand, _ = stand_with(seats=2)
    stand.run("a", lane="one")
    assert of(stand.ask("b", lane="two"), fx.Dispatch) != []
