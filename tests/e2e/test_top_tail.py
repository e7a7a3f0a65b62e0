"""`fairlane top` and `fairlane tail` beside a running box."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from support.box import TREE, Box
from support.front import Front
from support.http import ROW, call, chat
from support.wait import until


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """A box with one seat."""
    with Front() as front:
        yield front


@contextmanager
def held(front: Front) -> Iterator[None]:
    """Let one lane hold the seat and another wait for as long as the block runs."""
    with front.ask("one") as first, front.ask("two"):
        first.first()
        until(lambda: front.waiting() == 1, "a request that waits")
        yield
    until(lambda: not front.status()["devices"]["hrx0"]["holders"], "an empty box")


def test_without_a_terminal_top_prints_once(front: Front) -> None:
    with held(front):
        shown = front.cli("top")
        assert (shown.returncode, shown.stderr) == (0, "")
        lines = shown.stdout.splitlines()
        assert lines[0].startswith("one has held hrx0 for ")
        assert "1 waits" in lines[0]
        (occupied,) = [line for line in lines if line.startswith("hrx0 held")]
        assert "100%" in occupied
        assert front.cli("top", "--once").stdout.startswith("one has held hrx0 for ")


def test_top_json_is_the_snapshot(front: Front) -> None:
    with held(front):
        seen = json.loads(front.cli("top", "--json").stdout)
    assert [one["lane"] for one in seen["devices"]["hrx0"]["holders"]] == ["one"]
    assert {"curves", "readings", "recent", "workers", "models"} <= seen.keys()


def test_on_a_terminal_top_goes_on_until_q_and_leaves_the_terminal_as_it_was(front: Front) -> None:
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environ = {**front.environ, "TERM": "xterm-256color", "LINES": "50"}
    with held(front), subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "top", "--every", "0.2"],
        env=environ, cwd=TREE, stdin=slave, stdout=slave, stderr=slave,
    ) as process:  # fmt: skip
        said = bytearray()

        def reads() -> bytearray:
            while select.select([master], [], [], 0.05)[0]:
                said.extend(os.read(master, 65536))
            return said

        until(lambda: reads().count(b"has held hrx0") >= 3, "three looks", within_s=60.0)
        os.write(master, b"xq")
        until(lambda: (reads(), process.poll() is not None)[1], "the end", within_s=20.0)
        assert process.returncode == 0
    assert termios.tcgetattr(slave) == before
    assert b"\x1b[?1049l" in said  # the screen from before is back
    os.close(master)
    os.close(slave)


def test_on_a_terminal_that_cannot_move_its_cursor_top_prints_once(front: Front) -> None:
    master, slave = pty.openpty()
    environ = {**front.environ, "TERM": "dumb"}
    said = bytearray()
    with subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "top"],
        env=environ, cwd=TREE, stdin=slave, stdout=slave, stderr=slave,
    ) as process:  # fmt: skip

        def has_ended() -> bool:
            while select.select([master], [], [], 0.05)[0]:
                said.extend(os.read(master, 65536))
            return process.poll() is not None

        until(has_ended, "its end", within_s=60.0)
    assert has_ended()
    assert process.returncode == 0
    assert said.startswith(b"Nobody holds hrx0.")
    assert b"\x1b" not in said
    os.close(master)
    os.close(slave)


class Following:
    """A `fairlane tail` that runs."""

    def __init__(self, box: Box, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", "tail", *arguments],
            env={**box.environ, "PYTHONUNBUFFERED": "1"}, cwd=TREE, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._reader.join(timeout=60)
        self.process.communicate()

    def end(self) -> int:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=60)


def test_tail_follows_landings_and_endings_as_json_lines(null_box: Box) -> None:
    with Following(null_box, "--json", "--last", "0") as tail:

        def ended() -> dict[str, object]:
            call(null_box.url, body=chat("Write a regex."), headers={"x-fairlane-lane": "tailed"})
            told = [json.loads(line) for line in tail.lines]
            mine = [one for one in told if one["what"] == "ended" and one["lane"] == "tailed"]
            return mine[0] if mine else {}

        told = until(ended, "its ending", within_s=30.0)
        assert (told["rule"], told["device"], told["outcome"]) == ("laya-code", "hrx", "answered")
        assert "regex" not in json.dumps(told)
        assert tail.end() == 0


def test_tail_once_prints_what_there_is(null_box: Box) -> None:
    reply = call(null_box.url, body=chat(model=ROW), headers={"x-fairlane-lane": "line"})
    shown = null_box.cli("tail", "--once", "--last", "1")
    assert shown.returncode == 0
    (line,) = shown.stdout.splitlines()
    assert "ended   line: answered, " in line
    assert line.endswith(reply.headers["x-request-id"])


def told_of(box: Box, tail: Following, lane: str) -> list[str]:
    """Let a lane ask, and return what was told of its endings so far."""
    call(box.url, body=chat(model=ROW), headers={"x-fairlane-lane": lane})
    return [line for line in tail.lines if f" ended   {lane}: " in line]


def test_tail_waits_for_a_broker_that_was_restarted(new_box: Callable[..., Box]) -> None:
    box = new_box(workers__engine="null", sensors__enabled="false")
    with Following(box, "--last", "0") as tail:
        seen = until(lambda: told_of(box, tail, "before"), "a first ending", within_s=60.0)
        assert "before: answered" in seen[0]
        old = box.kill("broker")
        box.wait_for_new("broker", old)
        until(lambda: box.status()["ready"], "a ready box", within_s=30.0)
        until(lambda: told_of(box, tail, "after"), "an ending after it", within_s=60.0)
        assert tail.end() == 0


@pytest.mark.parametrize("command", ["top", "tail"])
def test_without_a_box_both_say_so(front: Front, command: str) -> None:
    own = front.environ
    try:
        front.environ = {**own, "FAIRLANE__RUN_DIR": f"{front.home}/nowhere"}
        shown = front.cli(command)
        assert (shown.returncode, shown.stdout) == (4, "")
        assert "fairlane up" in shown.stderr
    finally:
        front.environ = own
