"""Quarantine: ten minutes, doubling, one probe at a time, and no loops."""

from hypothesis import given
from hypothesis import strategies as st

from policies.quarantine import FIRST_S, LONGEST_S, PROBE_S, STEADY_S, Quarantine


def shut(at: float = 0.0) -> Quarantine:
    quarantine = Quarantine()
    quarantine.crashed(at, 1)
    return quarantine


def test_a_crash_shuts_the_device_for_ten_minutes() -> None:
    quarantine = Quarantine()
    assert not quarantine.bars(0.0)
    quarantine.crashed(100.0, 1)
    assert (quarantine.bars(100.0), quarantine.bars(699.9)) == (True, True)
    assert not quarantine.bars(700.0)


def test_the_other_requests_of_a_dead_worker_shut_it_no_longer() -> None:
    quarantine = shut()
    quarantine.crashed(0.1, 2)
    quarantine.crashed(0.2)
    assert (quarantine.crashes, quarantine.pause_s) == (1, FIRST_S)


def test_one_request_tries_and_opens_it() -> None:
    quarantine = shut()
    quarantine.enter(600.0, 7)
    assert quarantine.bars(601.0)
    quarantine.served(640.0, 8)  # was never the probe
    assert quarantine.bars(640.0)
    quarantine.served(641.0, 7)
    assert not quarantine.bars(641.0)
    quarantine.enter(642.0, 9)
    assert not quarantine.bars(642.0)


def test_a_probe_that_crashes_doubles_the_pause_up_to_a_bound() -> None:
    quarantine, at, pauses = shut(), 0.0, list[float]()
    for ticket in range(10):
        assert quarantine.until is not None
        at = quarantine.until
        quarantine.enter(at, ticket)
        quarantine.crashed(at + 5.0, ticket)
        pauses.append(quarantine.pause_s)
    assert pauses[:5] == [1200.0, 2400.0, 4800.0, 9600.0, 19200.0]
    assert set(pauses[5:]) == {LONGEST_S}


def test_a_crash_soon_after_an_opening_doubles_on_and_a_late_one_does_not() -> None:
    for after_s, pause_s in ((1.0, 1200.0), (STEADY_S, FIRST_S)):
        quarantine = shut()
        quarantine.enter(600.0, 7)
        quarantine.served(610.0, 7)
        quarantine.crashed(610.0 + after_s, 8)
        assert quarantine.pause_s == pause_s


def test_a_probe_that_left_or_fell_silent_makes_room_for_the_next() -> None:
    quarantine = shut()
    quarantine.enter(600.0, 7)
    quarantine.left(6)
    assert quarantine.bars(600.0)
    quarantine.left(7)
    assert not quarantine.bars(600.0)
    quarantine.enter(600.0, 8)
    assert not quarantine.bars(600.0 + PROBE_S)
    quarantine.enter(600.0 + PROBE_S, 9)
    assert quarantine.bars(600.0 + PROBE_S)


def test_a_crash_without_a_probe_in_hand_leaves_the_device_half_open() -> None:
    quarantine = shut()
    quarantine.crashed(700.0)
    assert not quarantine.bars(700.0)
    quarantine.enter(700.0, 7)
    quarantine.crashed(701.0, 3)  # a request from before the crash
    assert quarantine.pause_s == FIRST_S
    quarantine.crashed(702.0)
    assert quarantine.pause_s == 2 * FIRST_S


steps = st.tuples(
    st.floats(0.0, 2000.0), st.sampled_from(["ask", "ask", "served", "crashed", "died", "left"])
)


@given(st.lists(steps, max_size=80))
def test_a_shut_device_meets_one_request_after_its_whole_pause(
    moves: list[tuple[float, str]],
) -> None:
    quarantine, at, ticket, shut_at = Quarantine(), 0.0, 0, -LONGEST_S
    for gap, move in moves:
        at, crashes = at + gap, quarantine.crashes
        if move == "ask" and not quarantine.bars(at):
            ticket += 1
            if quarantine.until is not None:
                assert at - shut_at >= quarantine.pause_s
                quarantine.enter(at, ticket)
                assert quarantine.bars(at)
        elif move == "served":
            quarantine.served(at, ticket)
        elif move == "left":
            quarantine.left(ticket)
        elif move != "ask":
            quarantine.crashed(at, ticket if move == "crashed" else None)
        if quarantine.crashes > crashes:
            assert quarantine.bars(at)
            assert at - shut_at >= FIRST_S
            assert FIRST_S <= quarantine.pause_s <= LONGEST_S
            shut_at = at
