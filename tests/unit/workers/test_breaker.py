"""The circuit breaker: when it opens, how long, and that only one probe at a time closes it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workers.breaker import Breaker, Pace, Rules

RULES = Rules(failures=2, pause_s=1.0, longest_s=8.0, steady_s=100.0)


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(RULES)
    breaker.failed(at)
    breaker.failed(at)
    return breaker


def test_one_failure_or_two_with_a_success_between_leave_it_closed() -> None:
    breaker = Breaker(RULES)
    breaker.failed(0.0)
    assert breaker.is_closed
    breaker.succeeded(1.0)
    breaker.failed(2.0)
    assert breaker.is_closed
    breaker.failed(3.0)
    assert not breaker.is_closed


def test_a_probe_comes_after_the_pause_and_only_one_at_a_time() -> None:
    breaker = opened(10.0)
    assert breaker.probe_at == 11.0
    assert not breaker.probe(10.9)
    assert breaker.probe(11.0)
    assert not breaker.probe(11.0)
    assert not breaker.probe(1e6)
    assert not breaker.is_closed  # half-open is not closed


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    assert breaker.probe(1.0)
    breaker.succeeded(1.5)
    assert breaker.is_closed
    assert breaker.probe_at is None
    breaker.failed(2.0)
    assert breaker.is_closed  # it counts from nothing again


def test_each_probe_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    breaker = opened(0.0)
    now, pauses = 0.0, []
    for _ in range(6):
        assert breaker.probe_at is not None
        pauses.append(breaker.probe_at - now)
        now = breaker.probe_at
        assert breaker.probe(now)
        breaker.failed(now)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


@pytest.mark.parametrize("way", ["succeeded", "failed"])
def test_a_straggler_from_before_it_opened_changes_nothing(way: str) -> None:
    breaker = opened(0.0)
    getattr(breaker, way)(0.5)
    assert breaker.probe_at == 1.0


@pytest.mark.parametrize(("closed_for_s", "pause_s"), [(99.0, 2.0), (100.0, 1.0)])
def test_the_first_pause_must_be_earned_again(closed_for_s: float, pause_s: float) -> None:
    breaker = opened(0.0)
    assert breaker.probe(1.0)
    breaker.succeeded(2.0)
    breaker.trip(2.0 + closed_for_s)
    assert breaker.probe_at == 2.0 + closed_for_s + pause_s


def test_tripping_an_open_circuit_does_not_prolong_it() -> None:
    breaker = opened(0.0)
    breaker.trip(0.9)
    assert breaker.probe_at == 1.0


# --- the pace ---


def pace(*slow: bool) -> Pace:
    counted = Pace()
    for each in slow:
        counted.add(slow=each)
    return counted


def test_a_few_answers_say_nothing_however_slow() -> None:
    assert not pace(*[True] * 19).is_slow
    assert pace(*[True] * 20).is_slow


def test_one_slow_answer_is_none_and_two_of_a_hundred_are_a_slow_p99() -> None:
    assert not pace(*[False] * 99, True).is_slow
    assert pace(*[False] * 98, True, True).is_slow
    assert not pace(*[False] * 198, True, True).is_slow
    assert pace(*[False] * 197, True, True, True).is_slow


def test_what_is_long_ago_does_not_count() -> None:
    assert not pace(*[True] * 5, *[False] * 200).is_slow


def test_a_cleared_pace_knows_nothing() -> None:
    counted = pace(*[True] * 50)
    counted.clear()
    assert not counted.is_slow


# --- whatever happens in whatever order ---


class AnyLife(RuleBasedStateMachine):
    """Any calls, at any instants: an open circuit stays open until one probe in its time succeeds."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(RULES)
        self.now = 0.0
        self.in_a_row = 0
        self.probing = False

    @rule(seconds=st.floats(0.0, 20.0))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.breaker.is_closed)
    @rule()
    def answer(self) -> None:
        self.breaker.succeeded(self.now)
        self.in_a_row = 0
        assert self.breaker.is_closed

    @precondition(lambda self: self.breaker.is_closed)
    @rule()
    def fail(self) -> None:
        self.breaker.failed(self.now)
        self.in_a_row += 1
        assert self.breaker.is_closed == (self.in_a_row < RULES.failures)

    @rule()
    def trip(self) -> None:
        before = self.breaker.probe_at
        self.breaker.trip(self.now)
        assert not self.breaker.is_closed
        assert before is None or self.breaker.probe_at == before

    @precondition(lambda self: not self.breaker.is_closed)
    @rule()
    def probe(self) -> None:
        due = self.breaker.probe_at
        assert due is not None
        begun = self.breaker.probe(self.now)
        assert begun == (self.now >= due and not self.probing)
        self.probing = self.probing or begun

    @precondition(lambda self: not self.breaker.is_closed and not self.probing)
    @rule(good=st.booleans())
    def straggle(self, *, good: bool) -> None:
        before = self.breaker.probe_at
        (self.breaker.succeeded if good else self.breaker.failed)(self.now)
        assert self.breaker.probe_at == before

    @precondition(lambda self: self.probing)
    @rule(good=st.booleans())
    def probed(self, *, good: bool) -> None:
        (self.breaker.succeeded if good else self.breaker.failed)(self.now)
        self.probing = False
        assert self.breaker.is_closed == good
        self.in_a_row = 0

    @invariant()
    def pauses_are_bounded(self) -> None:
        if self.breaker.is_closed:
            assert not self.probing
            return
        self.in_a_row = 0
        assert self.breaker.probe_at is not None
        assert self.breaker.probe_at <= self.now + RULES.longest_s


AnyLife.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyLife = AnyLife.TestCase
