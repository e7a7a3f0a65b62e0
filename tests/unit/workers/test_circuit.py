"""A backend behind its breaker: nobody waits past his deadline, nor at all for what is known to be down."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from scheduler.settings import Scorer
from support.wait import until
from workers.backend import Answer, BackendError, NotRunning
from workers.breaker import Rules
from workers.circuit import MARGIN_S, Circuit, InPlace, open_classifier
from workers.question import WARM_UP

SOON = Rules(failures=2, pause_s=0.05, longest_s=0.4, steady_s=60.0)
NEVER = Rules(failures=2, pause_s=3600.0, longest_s=3600.0)
AT_ONCE_S = 5.0  # far less than anybody waits, and far more than nothing takes
PACE = 20  # answers after which the pace is known


class Scripted:
    """A backend that does what the test says: answer, fail, or wait for `go`."""

    def __init__(self, name: str = "scripted") -> None:
        self.name = name
        self.asked: list[str] = []
        self.most_at_once = 0
        self.behave: Callable[[], None] = lambda: None
        self.go = threading.Event()
        self.is_closed = False
        self.answered = 0
        self._inside = 0

    def classify(self, text: str) -> Answer:
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        self.asked.append(text)
        try:
            self.behave()
        finally:
            self._inside -= 1
            self.answered += 1
        return Answer("code", 0.5, {})

    def close(self) -> None:
        self.is_closed = True
        self.go.set()

    def fail(self) -> None:
        raise BackendError("scripted")

    def hang(self) -> None:
        assert self.go.wait(20)


class Rig:
    """A circuit around a scripted backend."""

    def __init__(self) -> None:
        self.backend = Scripted()
        self.stand_in = Scripted("builtin")
        self.circuits: list[Circuit] = []

    def circuit(self, *, slow_ms: float = 0.0, rules: Rules = NEVER) -> Circuit:
        made = Circuit(self.backend, self.stand_in, slow_ms=slow_ms, rules=rules)
        self.circuits.append(made)
        return made


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    for circuit in rig.circuits:
        circuit.close()


def ask(circuit: Circuit, within_s: float = 10.0, text: str = "x") -> str:
    return circuit.classify(text, time.monotonic() + within_s).label


def fails(circuit: Circuit, within_s: float = 30.0) -> float:
    """Ask what fails and return how long that took."""
    began_at = time.monotonic()
    with pytest.raises(BackendError):
        ask(circuit, within_s)
    return time.monotonic() - began_at


def test_it_asks_the_backend_and_says_its_name(rig: Rig) -> None:
    circuit = rig.circuit()
    assert ask(circuit, text="hello") == "code"
    assert (rig.backend.asked, rig.stand_in.asked) == (["hello"], [])
    assert (circuit.name, circuit.may_wait()) == ("scripted", True)


def test_one_text_at_a_time_is_asked(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = lambda: time.sleep(0.002)
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda _: ask(circuit), range(40)))
    assert rig.backend.most_at_once == 1
    assert len(rig.backend.asked) == 40


def test_who_waits_gives_up_before_his_deadline_not_at_it(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = rig.backend.hang
    due_at = time.monotonic() + 0.3
    with pytest.raises(BackendError, match="in time"):
        circuit.classify("x", due_at)
    assert due_at - MARGIN_S <= time.monotonic() < due_at + 5.0


def test_while_one_answer_is_overdue_the_others_fail_at_once(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = rig.backend.hang
    fails(circuit, 0.1)
    assert not circuit.may_wait()
    assert fails(circuit) < AT_ONCE_S
    assert rig.backend.asked == ["x"]
    rig.backend.go.set()
    until(circuit.may_wait, "the end of the overdue answer")


def test_two_failures_open_it_and_then_nobody_is_asked(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = rig.backend.fail
    fails(circuit)
    assert circuit.may_wait()
    fails(circuit)
    assert not circuit.may_wait()
    assert fails(circuit) < AT_ONCE_S
    assert rig.backend.asked == ["x"] * 2
    assert circuit.name == "scripted (not asked: it fails)"
    assert rig.stand_in.asked == []  # it fails open to the default model, which says so


def test_a_bug_of_the_backends_is_a_failure_like_any_other(rig: Rig) -> None:
    circuit = rig.circuit(rules=SOON)

    def stumble() -> None:
        raise ZeroDivisionError

    rig.backend.behave = stumble
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            ask(circuit)
    until(lambda: WARM_UP in rig.backend.asked, "a probe that stumbles, too")
    assert not circuit.may_wait()
    rig.backend.behave = lambda: None
    until(circuit.may_wait, "a closed circuit")


def test_two_late_answers_open_it(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = rig.backend.hang
    for _ in range(2):
        rig.backend.go.clear()
        asked = len(rig.backend.asked)
        fails(circuit, 0.1)
        time.sleep(0.3)  # what it takes to be the backend's own fault
        rig.backend.go.set()
        until(lambda: rig.backend.answered > asked, "the late answer")  # noqa: B023  # at once
        until(lambda: circuit.may_wait() or "fails" in circuit.name, "its consequence")
    until(lambda: circuit.name.endswith("(not asked: it fails)"), "an open circuit")


@pytest.mark.parametrize(("took_s", "stays"), [(0.2, True), (0.4, False)])
def test_late_for_want_of_a_turn_is_no_fault_of_the_backend(
    rig: Rig, took_s: float, *, stays: bool
) -> None:
    now = 100.0

    def pass_time() -> None:
        nonlocal now
        now += took_s

    circuit = Circuit(rig.backend, rig.stand_in, slow_ms=0.0, rules=NEVER, clock=lambda: now)
    rig.circuits.append(circuit)
    rig.backend.behave = pass_time
    for _ in range(3):
        with suppress(BackendError):
            circuit.classify("x", now + 0.15)  # what is left after the wait for its turn
    assert circuit.may_wait() is stays


def test_one_that_is_not_running_is_no_failure_of_its_answers(rig: Rig) -> None:
    circuit = rig.circuit()

    def down() -> None:
        raise NotRunning("it starts")

    rig.backend.behave = down
    for _ in range(5):
        fails(circuit)
    rig.backend.behave = lambda: None
    assert ask(circuit) == "code"


def test_a_probe_of_our_own_closes_it_and_no_request_pays(rig: Rig) -> None:
    circuit = rig.circuit(rules=SOON)
    rig.backend.behave = rig.backend.fail
    fails(circuit)
    fails(circuit)
    until(lambda: len(rig.backend.asked) >= 4, "two probes that fail")
    assert not circuit.may_wait()
    rig.backend.behave = lambda: None
    until(circuit.may_wait, "a closed circuit")
    assert set(rig.backend.asked[2:]) == {WARM_UP}
    assert rig.backend.most_at_once == 1
    assert (ask(circuit), circuit.name) == ("code", "scripted")


def test_a_probe_that_hangs_lets_nobody_wait(rig: Rig) -> None:
    circuit = rig.circuit(rules=SOON)
    rig.backend.behave = rig.backend.fail
    fails(circuit)
    fails(circuit)
    rig.backend.behave = rig.backend.hang
    until(lambda: WARM_UP in rig.backend.asked, "a probe")
    assert not circuit.may_wait()
    assert fails(circuit) < AT_ONCE_S


# --- too slow ---


def slow_down(rig: Rig, circuit: Circuit) -> None:
    rig.backend.behave = lambda: time.sleep(0.02)
    for _ in range(PACE):
        ask(circuit)


def test_a_slow_backend_gives_way_to_builtin_and_that_is_named(rig: Rig) -> None:
    circuit = rig.circuit(slow_ms=10.0)
    slow_down(rig, circuit)
    assert circuit.name == "builtin (instead of scripted, too slow)"
    assert not circuit.may_wait()
    assert ask(circuit, text="mine") == "code"
    assert rig.stand_in.asked == ["mine"]


def test_it_comes_back_when_a_probe_is_fast_again(rig: Rig) -> None:
    circuit = rig.circuit(slow_ms=10.0, rules=SOON)
    slow_down(rig, circuit)
    until(lambda: len(rig.backend.asked) >= PACE + 2, "two probes that are slow")
    assert circuit.name.startswith("builtin")
    rig.backend.behave = lambda: None
    until(lambda: circuit.name == "scripted", "a backend that is asked again")
    assert set(rig.backend.asked[PACE:]) == {WARM_UP}


def test_a_slow_backend_that_fails_its_probes_leaves_builtin_deciding(rig: Rig) -> None:
    circuit = rig.circuit(slow_ms=10.0, rules=SOON)
    slow_down(rig, circuit)
    rig.backend.behave = rig.backend.fail
    until(lambda: len(rig.backend.asked) >= PACE + 2, "two probes that fail")
    assert ask(circuit) == "code"
    assert circuit.name.startswith("builtin")


def test_a_bound_of_nothing_never_moves(rig: Rig) -> None:
    circuit = rig.circuit(slow_ms=0.0)
    slow_down(rig, circuit)
    assert circuit.name == "scripted"


# --- ending, and the backend that needs none of this ---


def test_closing_frees_who_waits_and_ends_the_backend(rig: Rig) -> None:
    circuit = rig.circuit()
    rig.backend.behave = rig.backend.hang
    with ThreadPoolExecutor(1) as caller:
        asking = caller.submit(ask, circuit)
        until(lambda: rig.backend.asked, "a question at hand")
        circuit.close()
        assert asking.result(timeout=10) == "code"
    assert rig.backend.is_closed


def test_the_builtin_backend_is_asked_in_place() -> None:
    classifier = open_classifier(Scorer())
    assert isinstance(classifier, InPlace)
    assert (classifier.name, classifier.may_wait()) == ("builtin", False)
    assert classifier.classify("What is 2+2?", 0.0).label == "short"
    classifier.close()
