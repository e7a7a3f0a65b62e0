"""The daemon backend with real child processes: each misbehaviour ends right, and nothing stays behind."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from scheduler.settings import Scorer
from support.daemons import asked, command, daemon, fakes
from support.wait import at_best, until
from workers.backend import Answer, BackendError, NotRunning
from workers.backends import open_backend
from workers.daemon import Daemon, command_of
from workers.question import WARM_UP

CODE, PROSE, SHORT = "Write a Rust function", "Explain how vaccines work.", "What is 17*23?"
REPLY_S = 0.6  # instead of five seconds


def label(backend: Daemon, text: str) -> str:
    """Return the class, waiting for a child that is being started again."""

    def told() -> str | None:
        try:
            return backend.classify(text).label
        except NotRunning:
            return None

    return until(told, "a daemon that answers again")


def why_not_warm(backend: Daemon) -> str:
    with pytest.raises(BackendError) as caught:
        backend.wait_until_warm()
    return str(caught.value)


def test_it_answers_as_the_daemon_says() -> None:
    with daemon(command()) as backend:
        backend.wait_until_warm()
        said = [backend.classify(text) for text in (CODE, PROSE, SHORT)]
    shares = {"code": 0.9, "prose": 0.05, "short": 0.05}
    assert said[0] == Answer("code", 0.8, shares)
    assert [one.label for one in said] == ["code", "prose", "short"]


def test_it_is_warm_when_it_has_answered_one_question_of_ours(tmp_path: Path) -> None:
    count = tmp_path / "count"
    with daemon(command("well", "--count", count)) as backend:
        backend.wait_until_warm()
        assert [json.loads(line)["state"] for line in count.read_text().splitlines()] == [WARM_UP]


def test_the_same_text_has_the_same_answer_a_hundred_times() -> None:
    with daemon(command()) as backend:
        backend.wait_until_warm()
        assert len({repr(backend.classify(CODE)) for _ in range(100)}) == 1


def test_many_callers_are_answered_one_after_the_other_each_his_own() -> None:
    texts = [CODE, PROSE, SHORT] * 20
    with daemon(command()) as backend, ThreadPoolExecutor(8) as callers:
        backend.wait_until_warm()
        labels = list(callers.map(lambda text: backend.classify(text).label, texts))
    assert labels == ["code", "prose", "short"] * 20


# --- misbehaviour: the question fails, the next is answered rightly ---


@pytest.mark.parametrize("play", ["slow", "late", "silent", "wrong-id", "garbage", "huge-line"])
def test_a_child_that_does_not_answer_in_time_is_killed_and_started_again(
    play: str, tmp_path: Path
) -> None:
    argv = command(play, "--once", tmp_path / "once", "--seconds", 3 * REPLY_S)
    with daemon(argv, reply_s=REPLY_S) as backend:
        backend.wait_until_warm()
        (first,) = fakes()
        began_at = time.monotonic()
        with pytest.raises(BackendError, match="did not answer in time"):
            backend.classify(CODE)
        took_s = time.monotonic() - began_at
        assert took_s >= REPLY_S
        assert label(backend, PROSE) == "prose"
        assert not first.is_running()
        (second,) = fakes()
        # the late answer's time comes and goes; nobody reads it
        until(lambda: time.monotonic() - began_at > 3.5 * REPLY_S, "the late answer's time")
        assert [backend.classify(t).label for t in (SHORT, CODE)] == ["short", "code"]
        assert fakes() == [second]


def test_a_child_that_dies_in_the_middle_fails_at_once_and_is_started_again(
    tmp_path: Path,
) -> None:
    patience_s = 30.0  # that it might have waited
    with daemon(command("dies", "--once", tmp_path / "once"), reply_s=patience_s) as backend:
        backend.wait_until_warm()
        began_at = time.monotonic()
        with pytest.raises(BackendError, match="it ended"):
            backend.classify(CODE)
        assert time.monotonic() - began_at < patience_s / 2
        assert label(backend, PROSE) == "prose"


@pytest.mark.parametrize("play", ["error", "nameless-error", "wrong-label", "wrong-confidence"])
def test_a_child_that_answers_wrongly_fails_at_that_text_and_lives(
    play: str, tmp_path: Path
) -> None:
    argv = command(play, "--after", 2)
    with daemon(argv) as backend:
        backend.wait_until_warm()
        children = fakes()
        assert backend.classify(CODE).label == "code"
        for _ in range(3):
            with pytest.raises(BackendError):
                backend.classify(CODE)
        assert fakes() == children


@pytest.mark.parametrize("play", ["noise", "chatty"])
def test_talk_hides_no_answer(play: str) -> None:
    with daemon(command(play, "--after", 0)) as backend:
        backend.wait_until_warm()
        assert [backend.classify(t).label for t in (CODE, PROSE, SHORT)] == [
            "code", "prose", "short",
        ]  # fmt: skip


def test_a_child_that_ends_unasked_is_started_again(tmp_path: Path) -> None:
    with daemon(command()) as backend:
        backend.wait_until_warm()
        (child,) = fakes()
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: fakes() not in ([child], []), "another child")
        assert label(backend, CODE) == "code"


def test_a_stopped_child_is_killed_after_its_time() -> None:
    with daemon(command(), reply_s=REPLY_S) as backend:
        backend.wait_until_warm()
        (child,) = fakes()
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(BackendError, match="did not answer in time"):
            backend.classify(CODE)
        assert label(backend, CODE) == "code"
        assert not child.is_running()


# --- starting ---


def test_a_child_that_ends_before_it_is_warm_says_why(tmp_path: Path) -> None:
    with daemon(command("ready-then-exits", "--once", tmp_path / "once")) as backend:
        assert "it ended" in why_not_warm(backend)
        assert label(backend, CODE) == "code"  # the next one stays


def test_a_child_that_never_gets_ready_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    argv = command("no-ready", "--once", tmp_path / "once")
    with daemon(argv, ready_s=1.5) as backend:
        assert "did not get ready in time" in why_not_warm(backend)
        assert label(backend, CODE) == "code"


def test_a_child_that_fails_at_the_first_question_is_not_warm() -> None:
    with daemon(command("wrong-label", "--after", 0)) as backend:
        assert "poem" in why_not_warm(backend)
        with pytest.raises(NotRunning):
            backend.classify(CODE)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("no-such-program-here {gguf}", "cannot start no-such-program-here"),
        ("sh -c 'echo no model in $1 >&2; exit 1' sh {gguf}", "no model in /a b/c.gguf"),
        ("true", "it ended"),
    ],
)
def test_a_program_that_cannot_serve_is_told_with_its_own_words(program: str, why: str) -> None:
    conf = Scorer(backend="laya-daemon", gguf="/a b/c.gguf", command=program)
    with pytest.raises(BackendError, match=why):
        open_backend(conf)
    assert fakes() == []


def test_the_default_command_is_the_daemons_own() -> None:
    conf = Scorer(backend="laya-daemon", gguf="/models/a b.gguf", device="hrx")
    assert command_of(conf) == [
        "laya", "daemon", "/models/a b.gguf", "--family", "typed-decisions", "--device", "hrx",
    ]  # fmt: skip


# --- ending ---


@pytest.mark.parametrize("play", ["well", "stubborn", "silent"])
def test_closing_leaves_nobody_behind_and_takes_little_over_a_second(play: str) -> None:
    def close_s() -> float:
        backend = Daemon(command(play), "a daemon")
        backend.wait_until_warm()
        assert len(fakes()) == 1
        began_at = time.monotonic()
        backend.close()
        took_s = time.monotonic() - began_at
        assert fakes() == []
        with pytest.raises(NotRunning):
            backend.classify(CODE)
        return took_s

    at_best(close_s, 3.0, "seconds to close")


def test_closing_fails_the_question_at_hand() -> None:
    with daemon(command("silent")) as backend, ThreadPoolExecutor(1) as caller:
        backend.wait_until_warm()
        asking = caller.submit(backend.classify, CODE)
        until(lambda: backend._at_hand is not None, "a question at hand")
        backend.close()
        with pytest.raises(BackendError):
            asking.result(timeout=60)


def test_closing_while_it_starts_takes_no_300_seconds() -> None:
    backend = Daemon(command("no-ready"), "a daemon")
    until(fakes, "a child")
    backend.close()
    assert fakes() == []


def test_the_child_dies_with_us_however_we_die(tmp_path: Path) -> None:
    keeping = (
        "from support.daemons import command, daemon\n"
        "with daemon(command('stubborn')) as d:\n"
        "    d.wait_until_warm()\n"
        "    print('warm', flush=True)\n"
        "    input()\n"
    )
    us = subprocess.Popen(
        [sys.executable, "-c", keeping], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])},
    )  # fmt: skip
    with us:
        assert us.stdout is not None
        assert us.stdout.readline() == b"warm\n"
        (child,) = fakes(us.pid)
        us.kill()
        us.wait()
        until(lambda: not _lives(child), "the end of the child")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_three_lives_more_leak_no_descriptor_and_no_zombie(tmp_path: Path) -> None:
    here = psutil.Process()
    others = set(here.children(recursive=True))  # a box of other tests may live in this process
    with daemon(command(), reply_s=REPLY_S) as backend:
        backend.wait_until_warm()
        before = here.num_fds()
        for _ in range(3):
            (child,) = fakes()
            child.kill()
            until(lambda: fakes() not in ([child], []), "another child")  # noqa: B023  # at once
            assert label(backend, CODE) == "code"
        until(lambda: here.num_fds() <= before, "no descriptor more than before")
        until(lambda: len(set(here.children(recursive=True)) - others) == 1, "one child")


def test_the_fake_counts_what_it_is_asked(tmp_path: Path) -> None:
    count = tmp_path / "count"
    with daemon(command("well", "--count", count)) as backend:
        backend.wait_until_warm()
        for text in (CODE, PROSE):
            backend.classify(text)
    assert asked(count) == 3
