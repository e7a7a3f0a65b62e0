"""The laya-daemon backend behind the real gateway: counted, slow, frozen, dying, never there."""

import json
import shlex
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.box import Box, lives
from support.daemons import asked, command, fakes
from support.http import CHAT, Reply, Stream, call, chat
from support.wait import at_best, until

DEADLINE_MS = 627.0
LATE_MS, AT_ONCE_MS = 25.0, 300.0  # what may be added to it, and what takes no deadline at all
CODE = "Write a Rust function that reverses a list."
_numbers = count()
NewBox = Callable[..., Box]


def settings(play: str = "well", *more: object, **other: object) -> dict[str, object]:
    """Return the settings of a box whose scorer asks a fake daemon."""
    argv = command(play, *more)
    return {
        "workers__engine": "null",
        "scorer__backend": "laya-daemon",
        "scorer__device": "cpu",
        "scorer__command": shlex.join(argv),
        **other,
    }


def ask(box: Box, text: str = CODE, key: str = "", turns: int = 1) -> Reply:
    """Ask in a conversation, a new one unless `key` names it."""
    own = {"x-fairlane-conversation": key or f"daemon-{next(_numbers)}"}
    messages = [{"role": "user", "content": text}]
    for _ in range(turns - 1):
        messages += [{"role": "assistant", "content": "x"}, {"role": "user", "content": "more"}]
    return call(box.url, CHAT, chat(messages=messages), own)


def decide_ms(reply: Reply) -> float:
    return float(reply.outputs["timings"]["decide_ms"])


def cost_over_ms(first: Reply, second: Reply) -> float:
    """Return how much more two requests cost than they may: the deadline once, and then next to nothing."""
    return max(decide_ms(first) - DEADLINE_MS - LATE_MS, decide_ms(second) - AT_ONCE_MS)


def backend(box: Box) -> str:
    """Return who decides, as status shows it."""
    scorers = box.status()["scorers"]
    return str(scorers[0]["backend"]) if scorers else ""


def decides(box: Box) -> bool:
    return ask(box).outputs.get("class") == "code"


@pytest.fixture(scope="module")
def count_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("daemon") / "count"


@pytest.fixture(scope="module")
def counted(count_file: Path) -> Iterator[Box]:
    """A box whose daemon behaves and counts."""
    with Box(**settings("well", "--count", count_file)) as box:
        yield box


# --- a daemon that is well ---


def test_the_daemons_word_is_the_decision(counted: Box) -> None:
    reply = ask(counted)
    assert reply.headers["x-lemonade-route"] == "laya-code"
    assert (reply.outputs["class"], reply.outputs["confidence"]) == ("code", 0.8)
    assert backend(counted) == "laya-daemon cpu"


def test_a_conversation_is_decided_once_counted_at_the_daemon(
    counted: Box, count_file: Path
) -> None:
    before = asked(count_file)
    key = f"daemon-{next(_numbers)}"
    replies = [ask(counted, key=key, turns=n) for n in (1, 1, 2, 3, 4)]
    assert asked(count_file) == before + 1
    assert {r.headers["x-lemonade-route"] for r in replies} == {"laya-code"}
    assert ["decide_ms" in r.outputs["timings"] for r in replies] == [True] + [False] * 4


def test_a_stream_of_a_bound_conversation_asks_nothing_either(
    counted: Box, count_file: Path
) -> None:
    own = {"x-fairlane-conversation": f"daemon-{next(_numbers)}"}
    call(counted.url, CHAT, chat(), own)
    before = asked(count_file)
    with Stream(counted.url, CHAT, chat(), own) as stream:
        assert stream.headers["x-lemonade-route"]
    assert asked(count_file) == before


def test_what_needs_no_model_does_not_reach_the_daemon(counted: Box, count_file: Path) -> None:
    before = asked(count_file)
    assert ask(counted, "é" * 512).outputs["class"] == "long_doc"
    assert asked(count_file) == before
    assert ask(counted, "e" * 1023).outputs["class"] == "short"
    assert asked(count_file) == before + 1


def test_the_daemon_is_asked_about_the_first_user_message_alone(
    counted: Box, count_file: Path
) -> None:
    ask(counted, "Explain the tides.", turns=3)
    last = json.loads(count_file.read_text().splitlines()[-1])
    assert last["state"] == "Explain the tides."
    assert list(last["questions"]["cls"]["criteria"]) == ["code", "prose", "short"]


def test_the_same_request_has_the_same_decision_a_hundred_times(counted: Box) -> None:
    replies = [ask(counted) for _ in range(100)]
    assert {(r.outputs["class"], r.outputs["confidence"]) for r in replies} == {("code", 0.8)}


def test_a_stopped_box_leaves_no_daemon(new_box: NewBox) -> None:
    box = new_box(**settings("stubborn"))
    (daemon,) = fakes(box.pids()["scorer"])
    status, _ = box.stop()
    assert status == 0
    until(lambda: not lives(daemon), "the end of the daemon")


# --- a daemon that misbehaves ---


@pytest.mark.parametrize("play", ["dies", "error", "wrong-label"])
def test_a_daemon_that_fails_leaves_the_default_model_at_once(
    play: str, new_box: NewBox, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    box = new_box(**settings(play, "--once", once))

    def failed_ms() -> float:
        reply = ask(box)
        assert reply.status == 200
        assert reply.headers["x-lemonade-route"] == "default; why=scorer_down"
        if play == "dies":
            until(lambda: decides(box), "a daemon that answers again")
            once.unlink()
        return decide_ms(reply)

    at_best(failed_ms, DEADLINE_MS - 100, "ms until a failure leaves the default model")


@pytest.mark.parametrize("play", ["silent", "late", "huge-line"])
def test_a_daemon_that_does_not_answer_costs_the_deadline_once(
    play: str, new_box: NewBox, tmp_path: Path
) -> None:
    once = tmp_path / "once"
    box = new_box(**settings(play, "--once", once, "--seconds", 8))

    def over_ms() -> float:
        once.unlink(missing_ok=True)
        (daemon,) = fakes(box.pids()["scorer"])
        first, second = ask(box), ask(box)
        for reply in (first, second):
            assert reply.headers["x-lemonade-route"] == "default; why=scorer_down"
        assert decide_ms(first) >= DEADLINE_MS - 100
        assert not box.status()["scorers"][0]["suspect"]  # it still beats
        until(lambda: not lives(daemon), "the end of the daemon that is stuck")
        until(lambda: decides(box), "a daemon that answers again")
        assert ask(box, "Explain tides.").outputs["class"] == "prose"
        assert len(fakes(box.pids()["scorer"])) == 1
        return cost_over_ms(first, second)

    at_best(over_ms, 0.0, "ms over what it may cost")


def test_a_frozen_daemon_is_replaced_and_its_scorer_is_not(new_box: NewBox) -> None:
    box = new_box(**settings())
    scorer = box.pids()["scorer"]

    def over_ms() -> float:
        (daemon,) = fakes(scorer)
        daemon.send_signal(signal.SIGSTOP)
        cost_ms = cost_over_ms(ask(box), ask(box))
        until(lambda: not lives(daemon), "the end of the frozen daemon")
        until(lambda: decides(box), "a daemon that answers again")
        assert box.pids()["scorer"] == scorer
        return cost_ms

    at_best(over_ms, 0.0, "ms over what it may cost")


def test_a_daemon_that_keeps_failing_is_not_asked_for_a_while_and_status_says_so(
    new_box: NewBox,
) -> None:
    box = new_box(**settings("error"))
    for _ in range(2):
        ask(box)
    until(lambda: backend(box) == "laya-daemon cpu (not asked: it fails)", "an open circuit")
    at_best(lambda: decide_ms(ask(box)), AT_ONCE_MS, "ms that nobody is asked")
    opened = [record for record in box.log() if record["action"] == "circuit_open"]
    assert opened[0]["instead"] == "the default model"


def test_a_slow_daemon_gives_way_to_builtin_and_status_names_it(new_box: NewBox) -> None:
    box = new_box(**settings("slow", "--seconds", 0.03, scorer__slow_ms=20))
    replies = [ask(box) for _ in range(21)]
    assert {reply.outputs["class"] for reply in replies} == {"code"}
    assert replies[-1].outputs["confidence"] != 0.8  # builtin's own
    named = "builtin (instead of laya-daemon cpu, too slow)"
    until(lambda: backend(box) == named, "builtin in the status")
    assert "builtin (instead of laya-daemon cpu" in box.cli("status").stdout


# --- a scorer that is frozen or killed ---


def test_a_frozen_scorer_costs_the_deadline_once_until_another_takes_its_place(
    new_box: NewBox,
) -> None:
    box = new_box(**settings())

    def over_ms() -> float:
        box.kill("scorer", signal.SIGSTOP)
        first_ms = decide_ms(ask(box))
        until(lambda: not box.status()["scorers"], "the loss of the silent scorer")
        others_ms = [decide_ms(ask(box)) for _ in range(5)]
        until(lambda: decides(box), "a scorer that decides again")
        assert first_ms >= DEADLINE_MS - 5
        return max(first_ms - DEADLINE_MS - LATE_MS, max(others_ms) - 50)

    at_best(over_ms, 0.0, "ms over what it may cost")


def test_a_killed_scorer_takes_its_daemon_along_and_both_come_back(new_box: NewBox) -> None:
    box = new_box(**settings("stubborn"))

    def waited_ms() -> float:
        (daemon,) = fakes(box.pids()["scorer"])
        old = box.kill("scorer")
        reply = ask(box)
        assert reply.status == 200
        until(lambda: not lives(daemon), "the end of its daemon")
        scorer = box.wait_for_new("scorer", old)
        until(lambda: decides(box), "a scorer that decides again")
        assert len(fakes(scorer)) == 1
        return decide_ms(reply)

    at_best(waited_ms, DEADLINE_MS + LATE_MS, "ms without a scorer")


# --- a daemon that is never there ---


def test_a_box_whose_daemon_cannot_start_serves_and_says_why(
    prepared: Callable[..., Box],
) -> None:
    given: dict[str, Any] = {**settings(), "scorer__command": "no-such-program"}
    box = prepared(**given)
    box.start()
    first, second = ask(box), ask(box)
    assert [r.headers["x-lemonade-route"] for r in (first, second)] == [
        "default; why=scorer_down"
    ] * 2
    assert decide_ms(first) <= DEADLINE_MS + 250  # nothing is to be waited for
    at_best(lambda: decide_ms(ask(box)), 50, "ms without a daemon")
    said = next(r for r in box.log() if r["action"] == "backend_down")
    assert "cannot start no-such-program" in said["reason"]
    assert psutil.pid_exists(box.pids()["scorer"])
