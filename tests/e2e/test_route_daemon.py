"""A daemon behind `fairlane route`: who is asked, counted where the question arrives."""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import ops
from support.asking import QUESTIONS, Daemon
from support.box import Box
from support.shared import labelled_cases
from support.wait import until

CODE = "Write a Rust function that reverses a linked list."
SCRIPT = Path(ops.__file__).parents[1] / "tests" / "support" / "counting_daemon.py"


class Counter:
    """A counting daemon's file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "count"
        self.environ = {
            "FAIRLANE__SCORER__BACKEND": "laya-daemon",
            "FAIRLANE__SCORER__COMMAND": f"{sys.executable} {SCRIPT} {self._file}",
        }

    def count(self) -> int:
        """Return how often a daemon was asked."""
        return self._file.stat().st_size


@pytest.fixture
def counter(tmp_path: Path) -> Counter:
    return Counter(tmp_path)


@pytest.fixture
def home() -> Iterator[Box]:
    """Directories and an environment; no box is started."""
    box = Box()
    yield box
    box.close()


def test_a_backend_that_cannot_be_loaded_ends_it_before_the_ready_line(home: Box) -> None:
    environ = {**home.environ, "FAIRLANE__SCORER__COMMAND": "/nobody/laya"}
    with Daemon(environ, "--backend", "laya-daemon") as daemon:
        assert daemon.process.wait(timeout=60) == 1
        assert daemon.stdout.read() == b""
        assert "/nobody/laya" in daemon.errors()


def test_another_fairlane_can_be_the_daemon_behind_it(home: Box) -> None:
    command = f"{sys.executable} -m ops.cli route --serve"
    environ = {**home.environ, "FAIRLANE__SCORER__COMMAND": command}
    with Daemon(environ, "--backend", "laya-daemon") as daemon:
        assert daemon.read()["status"] == "ready"
        children = psutil.Process(daemon.process.pid).children(recursive=True)
        reply = daemon.ask({"id": "a", "text": CODE})
        assert (reply["class"], reply["id"]) == ("code", "a")
        assert daemon.end() == 0
    until(lambda: not any(child.is_running() for child in children), "the end of the child")


def test_no_document_reaches_the_model_and_everything_else_does_once(
    home: Box, counter: Counter
) -> None:
    cases = labelled_cases()
    short = [case for case in cases if case["class"] != "long_doc"]
    long = [case for case in cases if case["class"] == "long_doc"]
    with Daemon({**home.environ, **counter.environ}) as daemon:
        daemon.read()
        before = counter.count()  # it was warmed up
        for form in ({}, {"questions": QUESTIONS}):
            replies = daemon.ask_all({"text": case["text"], **form} for case in long)
            assert [reply["class"] for reply in replies] == ["long_doc"] * 25
        assert counter.count() == before
        for case in short:
            daemon.ask({"text": case["text"]})
        assert counter.count() == before + len(short)
