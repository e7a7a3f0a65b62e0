"""What became of a request, in sentences."""

import pytest

from ops.sentences import duration, sentences, unknown
from scheduler.core import effects as fx
from support.stand import Stand, of


def said(stand: Stand, rid: str = "r") -> str:
    """Return all that is said of a request."""
    return "\n".join(sentences(stand.core.explain(rid, stand.now)))


def crowded() -> Stand:
    """Return a box on which `r` waits behind one of its own and one of another lane."""
    stand = Stand()
    worker = stand.worker()
    stand.run("holder", "N", lane="one", max_tokens=1530)
    stand.wait(4.0, worker)
    stand.ask("b", lane="two")
    stand.ask("c", lane="mine")
    stand.ask("r", lane="mine")
    stand.wait(6.0, worker)
    return stand


def test_one_that_waits_is_told_for_whom_and_where_it_stands() -> None:
    text = said(crowded())
    assert "r is of lane 'mine' and asked for 'M'." in text
    assert "It waited 6.0 s for hrx0 to take up M." in text
    assert (
        "When it came, hrx0 was held by lane 'one' (holder, N) for 4.0 s already and 6.0 s more."
        in text
    )
    assert "position 3 now, behind 2 tickets (1 of lane 'mine', 1 of lane 'two')" in text
    assert "has not ended yet, 6.0 s after" in text


def test_one_that_ran_at_once_is_told_so() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run()
    stand.wait(2.0, worker)
    stand.finish(run)
    assert said(stand).splitlines()[1:] == [
        "A seat of hrx0 was free at once.",
        "It ran on hrx0 as M for 2.0 s.",
        "It ended after 2.0 s: answered.",
    ]


def test_one_whose_worker_was_lost_is_told_that_it_went_back() -> None:
    stand = Stand()
    stand.worker()
    stand.run()
    stand.lose(b"hrx")
    stand.now += 1.0
    text = said(stand)
    assert "It went back to the head of its lane: hrx-1 was lost." in text
    assert "No worker serves hrx0 now." in text
    assert "Nobody held hrx0 when it came." in text
    assert "expected to start in ?" in text


def test_one_that_was_passed_over_or_kept_waiting_is_told_for_whom() -> None:
    stand = Stand()
    stand.ask("r")
    ticket = stand.core._box.tickets[1]
    ticket.tell(stand.now, "passed over", "other")
    ticket.tell(stand.now, "kept waiting", "thinker")
    text = said(stand)
    assert "1 ticket of lane 'other' for the loaded row went past it" in text
    assert "hrx0 was kept from it for a conversation of lane 'thinker'" in text


def test_one_that_was_placed_and_whose_row_failed_is_told_of_the_stand_in() -> None:
    stand = Stand()
    stand.worker()
    stand.scorer()
    asked = stand.question()
    (run,) = (e for e in stand.decided(asked) if type(e).__name__ == "Dispatch")
    (again,) = of(stand.fail(run, code="model_not_usable"), fx.Dispatch)  # type: ignore[arg-type]  # a dispatch
    stand.fail(again, code="model_not_usable")
    text = said(stand)
    assert "It went back to the head of its lane: its load failed." in text
    assert "The policy placed it after 0 ms: laya-code." in text
    assert "Its row could not be used (load_failed), so another one stands in." in text


def test_one_that_waits_for_files_is_told_how_far_they_are() -> None:
    stand = Stand()
    stand.worker()
    store = stand.store()
    stand.stocked(store, N="missing")
    stand.ask("r", "N")
    stand.now += 2.0
    stand.moved(store, "N", 1_500_000, 6_000_000)
    text = said(stand)
    assert "It has waited 2.0 s for the files of N to be pulled." in text
    assert "So far 1.5 of 6.0 MB are here." in text
    (run,) = of(stand.pulled(store, "N"), fx.Dispatch)
    stand.finish(run)
    text = said(stand)
    assert "It waited 2.0 s for the files of N to be pulled." in text
    assert text.endswith("It ended after 2.0 s: answered.")


def test_a_hold_of_an_outside_lane_is_told_of_its_device() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run(lane="one")
    stand.hold("h", max_hold_s=60.0)
    stand.wait(2.0, worker)
    assert "It waited 2.0 s for hrx0." in said(stand, "h")
    grant = next(e for e in stand.finish(run) if type(e).__name__ == "Grant")
    stand.now += 1.0
    stand.release(grant)  # type: ignore[arg-type]  # a grant
    assert "It had hrx0 to itself for 1.0 s." in said(stand, "h")
    assert said(stand, "h").endswith("It ended after 3.0 s: released.")


def test_one_whose_client_left_is_told_so() -> None:
    stand = Stand()
    stand.worker()
    run = stand.run(stream=True)
    stand.stage(run, "load")
    stand.produce(run)
    stand.cancel("r")
    stand.finish(run, cancelled=True)
    text = said(stand)
    assert "first token came after 0 ms" in text
    assert "Its client left while it ran" in text
    assert text.endswith("its client left.")


def test_one_that_was_refused_is_told_why_and_nothing_of_an_end() -> None:
    stand = Stand()
    stand.ask("r", "nope")
    assert (
        said(stand)
        .splitlines()[1]
        .startswith("It was refused at once: Model 'nope' was not found.")
    )
    assert len(said(stand).splitlines()) == 2


def test_one_that_expired_is_told_by_its_code() -> None:
    stand = Stand()
    stand.ask("r", expires_in=2.0)
    stand.wait(4.0)
    assert said(stand).endswith("without its answer, deadline_exceeded.")


def test_an_unknown_one_is_told_how_much_is_kept() -> None:
    stand = Stand()
    text = unknown(stand.core.explain("r", stand.now + 90.0))
    assert "no request 'r' is known" in text
    assert "the last 1000 that ended" in text
    assert "back to 90.0 s ago" in text


def test_an_entry_nobody_foresaw_is_told_as_it_stands() -> None:
    stand = Stand()
    stand.ask("r")
    stand.core._box.tickets[1].tell(stand.now, "held back", "for lane x")
    assert "Held back, after 0 ms: for lane x." in said(stand)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "?"),
        (0.0, "0 ms"),
        (0.0314, "31 ms"),
        (99.9, "99.9 s"),
        (300.4, "5 min 00 s"),
        (7260, "2 h 01 min"),
    ],
)
def test_times_are_said_as_people_say_them(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said
