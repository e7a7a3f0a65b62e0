"""A hundred thousand decisions by one process: its memory stays where it was, and so do its descriptors."""

import time
from collections.abc import Callable, Iterator
from itertools import count

import psutil
import pytest

from support.asking import QUESTIONS, Daemon
from support.box import Box
from support.scored import Scored

DECISIONS, WARM = 100_000, 10_000
GROWTH_MAX_BYTES = 5_000_000
STEP = 2_000
_TEXTS = (
    "Write a Python function that sorts list number {}.",
    "Explain in detail what happened in the year {}.",
    "What is {} + 1?",
    "é{}" * 20,
    "Line {} of a log that is pasted as it is.\n" * 30,
)


def texts(number: int) -> list[str]:
    """Return the next texts, none of which was there before."""
    return [_TEXTS[n % len(_TEXTS)].format(*[n] * 200) for n in range(number, number + STEP)]


def soak(process: psutil.Process, decide: Callable[[list[str]], list[str]]) -> None:
    """Have all decided, and compare the process after the first tenth and at the end."""
    began_at = time.monotonic()
    seen: dict[int, tuple[int, int]] = {}
    for number in range(0, DECISIONS, STEP):
        classes = decide(texts(number))
        assert classes.count("long_doc") == STEP // len(_TEXTS)
        assert "" not in classes
        seen[number + STEP] = process.memory_info().rss, process.num_fds()
    grown = seen[DECISIONS][0] - seen[WARM][0]
    took_s = time.monotonic() - began_at
    used_s = sum(process.cpu_times()[:2])
    print(f"{DECISIONS} decisions in {took_s:.1f} s, {used_s:.1f} s of them computing")
    print(f"{seen[DECISIONS][0] / 1e6:.1f} MB, {grown / 1e3:.0f} kB more than after {WARM}")
    assert grown <= GROWTH_MAX_BYTES
    assert seen[DECISIONS][1] == seen[WARM][1]


@pytest.mark.slow
def test_the_scorer_worker_stays_as_large_as_it_was() -> None:
    with Scored() as scorer:
        soak(scorer.process, scorer.decide)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    home = Box()
    with Daemon(home.environ) as daemon:
        daemon.read()
        yield daemon
    home.close()


@pytest.mark.slow
def test_route_serve_stays_as_large_as_it_was(daemon: Daemon) -> None:
    ids = count()

    def decide(asked: list[str]) -> list[str]:
        lines = ({"id": next(ids), "state": text, "questions": QUESTIONS} for text in asked)
        return [str(reply["class"]) for reply in daemon.ask_all(lines)]

    soak(psutil.Process(daemon.process.pid), decide)
