"""`fairlane gpu run` on a terminal: the command has it, and the keys that send signals reach the command."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from support.box import TREE, Box

# what a shell does for its jobs: a group of their own in the foreground, and a prompt when one is suspended
SHELL = """
import os, signal, subprocess, sys

signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)

def job():
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)

started = subprocess.Popen(sys.argv[1:], process_group=0, preexec_fn=job)
while True:
    _, status = os.waitpid(started.pid, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    print("prompt", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, started.pid)
    os.killpg(started.pid, signal.SIGCONT)
print("status", os.waitstatus_to_exitcode(status), flush=True)
"""
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Terminal:
    """A small shell on a terminal of its own, and `fairlane gpu run` as its job."""

    def __init__(self, box: Box, *command: str) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:  # pragma: no cover  # another process
            os.chdir(TREE)
            run = [sys.executable, "-m", "ops.cli", "gpu", "run", "--lane", "tty", "--", *command]
            os.execve(sys.executable, [sys.executable, "-c", SHELL, *run], box.environ)  # noqa: S606
        self.seen = b""

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._master, keys)

    def expect(self, text: str, within_s: float = 30.0) -> None:
        """Wait until the terminal has shown a text, and forget all up to it."""
        ends_at = time.monotonic() + within_s
        while text.encode() not in self.seen:
            left_s = ends_at - time.monotonic()
            assert left_s > 0, f"no {text!r} in {self.seen!r}"
            if select.select([self._master], [], [], left_s)[0]:
                try:
                    self.seen += os.read(self._master, 4096)
                except OSError:
                    pytest.fail(f"no {text!r} in {self.seen!r}")
        self.seen = self.seen.partition(text.encode())[2]

    def close(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._master)
        os.waitpid(self.pid, 0)


Start = Callable[..., Terminal]


@pytest.fixture
def terminal(null_box: Box) -> Iterator[Start]:
    """Run commands on terminals."""
    opened: list[Terminal] = []

    def start(*command: str) -> Terminal:
        opened.append(Terminal(null_box, *command))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_the_command_reads_from_the_terminal(terminal: Start) -> None:
    shown = terminal("sh", "-c", "echo ready; read x; echo got $x; exit 4")
    shown.expect("ready")
    shown.press(b"word\n")
    shown.expect("got word")
    shown.expect("status 4")


def test_ctrl_c_reaches_the_command_alone(terminal: Start) -> None:
    script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    shown = terminal("sh", "-c", script)
    shown.expect("ready")
    shown.press(CTRL_C)
    shown.expect("caught")
    shown.expect("status 5")


def test_ctrl_z_gives_the_shell_its_prompt_and_the_command_goes_on_after_it(
    terminal: Start,
) -> None:
    shown = terminal("sh", "-c", "echo ready; read x; echo got $x; exit 6")
    shown.expect("ready")
    shown.press(CTRL_Z)
    shown.expect("suspended")
    shown.expect("prompt")
    shown.press(b"\n")  # the shell's `fg`
    shown.expect("continued")
    shown.press(b"word\n")
    shown.expect("got word")
    shown.expect("status 6")


def test_a_wait_for_the_device_shows_its_place_and_ends_with_ctrl_c(
    terminal: Start, null_box: Box
) -> None:
    held = subprocess.run(
        [sys.executable, "-m", "ops.cli", "gpu", "hold", "--lane", "first", "--background"],
        env=null_box.environ, cwd=TREE, capture_output=True, text=True, timeout=60, check=True,
    ).stdout.strip()  # fmt: skip
    shown = terminal("true")
    shown.expect("waiting: position 1")
    shown.press(CTRL_C)
    shown.expect("status 130")
    assert null_box.cli("gpu", "release", held).returncode == 0
