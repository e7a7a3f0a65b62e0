"""When a waiting ticket will start: forecast beside what then happens."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from scheduler.core.device import Device
from scheduler.core.forecast import ends_in_s, left_s, place_in_s, starts
from support.stand import Peer, Stand, of, row

TOKENS_A_SECOND = 15.3  # of the first guess


def device(stand: Stand, kind: str = "hrx") -> Device:
    """Return a device of the box under test."""
    return stand.core._box.devices[kind]


def lasts(seconds: float) -> int:
    """Return the max_tokens whose first guess is so many seconds; exact for multiples of ten."""
    return round(seconds * TOKENS_A_SECOND)


def warm(stand: Stand, *, seats: int = 1) -> Peer:
    """Register a worker that has all rows loaded, so that none needs a load."""
    worker = stand.worker(seats=seats)
    stand.beat(worker, ["M", "N"])
    return worker


def etas(stand: Stand) -> dict[str, float | None]:
    """Return the forecast by request."""
    return {
        ticket.asked.rid: eta for ticket, eta in starts(stand.core._box, device(stand), stand.now)
    }


def serve(
    stand: Stand, running: dict[str, fx.Dispatch], needs: dict[str, float]
) -> dict[str, float]:
    """Play a processor-sharing device to the end; return when each request started, from now."""
    began_at, left = stand.now, dict(needs)
    started: dict[str, float] = {}
    while running:
        first = min(running, key=lambda rid: left[rid])
        passed = left[first] * len(running)
        for rid in running:
            left[rid] -= passed / len(running)
        stand.now += passed
        for run in of(stand.finish(running.pop(first)), fx.Dispatch):
            rid = stand.core._box.tickets[run.ticket].asked.rid
            running[rid], started[rid] = run, stand.now - began_at
    return started


def test_one_seat_is_waited_for_as_long_as_those_before_take() -> None:
    stand = Stand()
    warm(stand)
    stand.run("a", max_tokens=lasts(100))
    stand.ask("b", max_tokens=lasts(20))
    stand.ask("c", max_tokens=lasts(10))
    stand.now += 30.0
    assert etas(stand) == pytest.approx({"b": 70.0, "c": 90.0})


@pytest.mark.parametrize("seats", [1, 2, 3])
def test_the_forecast_is_what_happens_where_the_estimates_are_true(seats: int) -> None:
    stand = Stand(Limits(collate_s=0.0))
    warm(stand, seats=seats)
    needs = {f"r{n}": float(10 * s) for n, s in enumerate((3, 1, 4, 1, 5, 9, 2, 6))}
    running: dict[str, fx.Dispatch] = {}
    for n, (rid, seconds) in enumerate(needs.items()):
        model = "N" if n in {4, 5} else "M"
        effects = stand.ask(rid, model, max_tokens=lasts(seconds), lane=f"lane{n % 3}")
        for run in of(effects, fx.Dispatch):
            running[rid] = run
    told = etas(stand)
    assert serve(stand, running, needs) == pytest.approx(told)


def test_a_load_is_counted_once_for_all_who_wait_for_its_row() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a", max_tokens=lasts(100))  # and 5 s of loading, by the first guess
    for rid in ("b", "c", "d"):
        stand.ask(rid, "N", max_tokens=lasts(10))
    assert etas(stand) == pytest.approx({"b": 105.0, "c": 120.0, "d": 130.0})


def test_a_row_has_the_seats_of_its_own_slots() -> None:
    stand = Stand(rows=[row("M", slots=1), row("N", slots=2)])
    stand.ready(seats=4)
    hrx = device(stand)
    assert hrx.worker is not None
    hrx.worker.by_row = True
    stand.beat(Peer(b"hrx", stand.epochs[b"hrx"]), ["M", "N"])
    stand.run("a", max_tokens=lasts(10))
    for rid in ("b", "c", "d"):
        stand.ask(rid, "N", max_tokens=lasts(10))
    assert etas(stand) == pytest.approx({"b": 10.0, "c": 10.0, "d": 30.0})


def test_a_head_that_is_kept_waiting_for_a_conversation_waits_for_its_think_time() -> None:
    stand = Stand()
    warm(stand)
    hrx = device(stand)
    stand.run("a", max_tokens=lasts(10))
    stand.ask("b", max_tokens=lasts(10))
    stand.ask("c", max_tokens=lasts(10))
    hrx.active.clear()
    hrx.wake_at = stand.now + 2.5
    assert etas(stand) == pytest.approx({"b": 2.5, "c": 12.5})


def test_a_hold_is_foreseen_by_its_longest_time_and_needs_no_worker() -> None:
    stand = Stand()
    stand.hold("a", max_hold_s=60.0)
    stand.hold("b", max_hold_s=30.0, pid=71, pgid=71)
    stand.ask("r")
    stand.hold("c", max_hold_s=30.0, pid=72, pgid=72)
    assert etas(stand) == {"b": 60.0, "r": None, "c": 90.0}


def test_a_ticket_past_its_estimate_is_not_expected_to_end_at_once() -> None:
    stand = Stand()
    warm(stand)
    stand.run("a", max_tokens=lasts(10))
    stand.ask("b")
    stand.now += 80.0
    assert etas(stand) == pytest.approx({"b": 10.0})


def test_a_ticket_that_drains_is_not_waited_for() -> None:
    stand = Stand()
    warm(stand)
    stand.run("a", max_tokens=lasts(100))
    stand.ask("b")
    stand.cancel("a")
    assert etas(stand) == {"b": 0.0}


def test_what_is_left_is_split_among_the_active() -> None:
    stand = Stand()
    warm(stand, seats=2)
    stand.run("a", max_tokens=lasts(20))
    stand.run("b", max_tokens=lasts(100))
    stand.now += 10.0
    hrx = device(stand)
    a, b = hrx.active.values()
    assert [left_s(hrx, t, stand.now) for t in (a, b)] == pytest.approx([15.0, 95.0])
    assert [ends_in_s(hrx, t, stand.now) for t in (a, b)] == pytest.approx([30.0, 110.0])


def place(stand: Stand, lane: str | None) -> float:
    """Return the expected seconds until the queue has a place."""
    return place_in_s(stand.core._box, device(stand), lane, stand.now)


def measured(held_s: float, *, seats: int = 1) -> Stand:
    """Return a box on which one ticket was served, in so many seconds."""
    stand = Stand(Limits(queue_total=10, queue_per_lane=5))
    warm(stand, seats=seats)
    run = stand.run("before")
    stand.now += held_s
    stand.finish(run)
    return stand


def test_a_lane_has_a_place_when_its_first_ticket_starts() -> None:
    stand = measured(10.0)
    stand.run("a", lane="one")
    for n in range(3):
        stand.ask(f"b{n}", lane="two")
        stand.ask(f"c{n}", lane="three")
    assert place(stand, None) == pytest.approx(10.0)
    assert place(stand, "two") == pytest.approx(10.0)
    assert place(stand, "three") == pytest.approx(20.0)


def test_more_seats_come_free_more_often() -> None:
    stand = measured(10.0, seats=4)
    for n in range(5):
        stand.ask(f"r{n}", max_tokens=1)
    assert place(stand, "lane") == pytest.approx(10.0 / 4)


def test_a_long_ticket_on_the_seat_is_not_hidden_by_short_ones_before_it() -> None:
    stand = measured(100 / TOKENS_A_SECOND)  # as the first guess said, so the ratio is one
    stand.run("long", max_tokens=lasts(300))
    stand.ask("waits")
    assert place(stand, "lane") == pytest.approx(300.0)


def test_a_lane_that_is_only_being_decided_waits_for_the_whole_queue() -> None:
    stand = measured(10.0)
    stand.scorer()
    stand.run("a")
    stand.ask("b")
    stand.ask("c", "auto", lane="undecided")
    assert place(stand, "undecided") == pytest.approx(20.0)


def test_the_device_that_has_a_place_first_counts() -> None:
    stand = measured(50.0)
    stand.ready(b"npu", "npu", "npu0", pid=3)
    stand.run("a", max_tokens=100)
    stand.run("b", "P", max_tokens=lasts(10))
    stand.ask("c", max_tokens=100)
    stand.ask("d", "P", max_tokens=lasts(10))
    assert place(stand, "lane") == pytest.approx(15.0)  # five of them to load


def test_a_forecast_changes_nothing() -> None:
    stand = measured(10.0)
    stand.run("a")
    stand.ask("b")
    before = stand.core.snapshot(stand.now)
    first = etas(stand)
    assert (etas(stand), place(stand, None)) == (first, place(stand, None))
    assert stand.core.snapshot(stand.now) == before
