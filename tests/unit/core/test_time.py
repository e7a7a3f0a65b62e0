"""What the clock alone makes happen: acknowledgements, notes, deadlines."""

import pytest

from scheduler.core import Limits
from scheduler.core import effects as fx
from support.stand import CLIENT, Stand, kinds, of, one


def test_a_request_that_heard_nothing_for_250_ms_is_acknowledged_once() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run()
    assert stand.wait(0.24, worker) == []
    assert stand.wait(0.02, worker) == [fx.Acknowledge(CLIENT, "r")]
    assert of(stand.wait(5.0, worker), fx.Acknowledge) == []


@pytest.mark.parametrize("word", ["answer", "piece", "stage"])
def test_a_request_that_heard_something_is_not_acknowledged(word: str) -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run(stream=True)
    if word == "answer":
        stand.finish(run)
    elif word == "piece":
        stand.produce(run)
    else:
        stand.stage(run)
    assert of(stand.wait(1.0, worker), fx.Acknowledge) == []


def test_a_placed_request_is_not_acknowledged() -> None:
    stand = Stand()
    scorer = stand.scorer()
    stand.decided(stand.question())
    assert of(stand.wait(1.0, scorer), fx.Acknowledge) == []


def test_a_request_without_a_scorer_is_acknowledged_while_it_waits() -> None:
    stand = Stand()
    stand.ask("r", "auto")
    assert kinds(stand.wait(0.3)) == ["Acknowledge"]


def test_a_queued_stream_is_told_its_place_each_second() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a")
    stand.ask("b")
    stand.ask("c", stream=True)
    told = of(stand.wait(3.0, worker), fx.Tell)
    assert [(t.rid, t.stage, t.position) for t in told] == [("c", "queue", 2)] * 3


def test_the_time_told_is_what_is_left_of_those_before() -> None:
    stand = Stand()
    worker = stand.worker()
    run = stand.run("a")
    stand.wait(10.0, worker)
    stand.finish(run)
    stand.run("b")
    stand.ask("c")
    stand.ask("d", stream=True)
    before = [t.cost_s for t in stand.core._box.tickets.values() if t.asked.rid in {"b", "c"}]
    assert one(stand.wait(1.0, worker), fx.Tell).eta_s == pytest.approx(sum(before) - 1.0)


def test_without_a_worker_the_time_is_unknown_not_zero() -> None:
    stand = Stand()
    stand.ask("a", stream=True)
    assert one(stand.wait(1.0), fx.Tell).eta_s is None


def test_a_request_that_is_not_streamed_is_told_nothing_while_it_waits() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a")
    stand.ask("b")
    assert of(stand.wait(3.0, worker), fx.Tell) == []


def test_places_are_told_in_the_order_of_service() -> None:
    stand = Stand()
    worker = stand.worker()
    stand.run("a", lane="one")
    stand.ask("b", lane="one", stream=True)
    stand.ask("c", lane="one", stream=True)
    stand.ask("d", lane="two", stream=True)
    told = of(stand.wait(1.0, worker), fx.Tell)
    assert [t.rid for t in told] == ["d", "b", "c"]
    assert [t.position for t in told] == [1, 2, 3]


def test_the_next_deadline_is_a_beat_away_when_nothing_is_due() -> None:
    stand = Stand(Limits(beat_s=0.5))
    assert stand.core.next_deadline() == stand.now + 0.5


def test_the_next_deadline_is_the_first_of_ack_decision_and_beat() -> None:
    stand = Stand(Limits(beat_s=2.0, decide_s=0.6))
    stand.ask("r", "auto")
    asked_at = stand.now
    dues = []
    for _ in range(3):
        stand.now = stand.core.next_deadline()
        dues.append(stand.now - asked_at)
        stand.tick()
    assert dues == pytest.approx([0.25, 0.6, 2.0])


def test_a_tick_at_the_deadline_moves_the_deadline_on() -> None:
    stand = Stand()
    stand.ask("a", "auto")
    stand.ask("b")
    for _ in range(50):
        before = stand.core.next_deadline()
        stand.now = before
        stand.tick()
        assert stand.core.next_deadline() > before


def test_a_tick_before_the_deadline_does_nothing() -> None:
    stand = Stand()
    stand.ask("a", "auto")
    assert stand.tick() == []


def test_a_long_pause_of_the_broker_is_caught_up_in_one_tick() -> None:
    stand = Stand()
    stand.worker()
    stand.ask("a", "auto")
    stand.now += 1000.0
    effects = stand.tick()
    assert [p.why for p in of(effects, fx.Place)] == ["scorer_down"]
    assert stand.core.next_deadline() > stand.now


def test_clients_that_wait_are_looked_for_each_second_and_others_are_not() -> None:
    stand = Stand()
    worker = stand.worker(seats=2)
    first, second = stand.run("a"), stand.run("b")
    stand.ask("c", client=b"other")
    probed = of(stand.wait(2.0, worker), fx.Probe)
    assert probed == [fx.Probe(CLIENT), fx.Probe(b"other")] * 2
    stand.finish(first)
    stand.finish(second)
    assert of(stand.wait(1.0, worker), fx.Probe) == [fx.Probe(b"other")]
