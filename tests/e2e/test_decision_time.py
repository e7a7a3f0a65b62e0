"""How long a decision takes, end to end and by the box's own clock, once the box is warm."""

import math
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import count
from statistics import quantiles
from urllib.parse import urlsplit

import msgspec
import pytest

from support.box import Box
from support.http import CHAT, ROW, chat
from support.wait import at_best

CONVERSATIONS = 400
TEXTS = (
    "Write a Python function that sorts list number {}.",
    "Explain in detail what happened in the year {}.",
    "What is {} + 1?",
    "Line {} of a log that is pasted as it is. " * 30,
)
P50_MS, P99_MS = 5.0, 100.0
_numbers = count()


class Asked(msgspec.Struct):
    """One request: how long its client waited, and what the box says of the decision."""

    took_ms: float
    decide_ms: float | None


def ask(line: HTTPConnection, conversation: str, model: str = "auto") -> Asked:
    """Ask over a connection that is kept, as agents do."""
    number = next(_numbers)
    text = TEXTS[number % len(TEXTS)].format(*[number] * 30)
    body = msgspec.json.encode(chat(text, model=model))
    headers = {"content-type": "application/json", "x-fairlane-conversation": conversation}
    began_at = time.perf_counter()
    line.request("POST", CHAT, body, headers)
    response = line.getresponse()
    reply = msgspec.json.decode(response.read())
    took_ms = (time.perf_counter() - began_at) * 1e3
    assert response.status == 200, reply
    route = reply.get("x_lemonade_route", {"outputs": {"timings": {}}})
    return Asked(took_ms, route["outputs"]["timings"].get("decide_ms"))


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return p50 and p99."""
    cut = quantiles(values, n=100)
    return cut[49], cut[98]


@pytest.fixture
def line(null_box: Box) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection(urlsplit(null_box.url).netloc, timeout=60)) as connection:
        for _ in range(20):  # warm
            ask(connection, f"time {next(_numbers)}")
        yield connection


@pytest.mark.slow
def test_a_warm_decision_takes_5_ms_at_the_median_and_100_at_most(line: HTTPConnection) -> None:
    """By the box's clock, and by its client's: what a fresh conversation takes beyond an explicit name."""
    best = [math.inf] * 3
    for _ in range(3):  # the best of three: others compute on this machine too
        fresh, named = [], []
        for _ in range(CONVERSATIONS):  # alternating, so that both meet the same load
            fresh.append(ask(line, f"time {next(_numbers)}"))
            named.append(ask(line, "named", ROW))
        decided = [one.decide_ms for one in fresh if one.decide_ms is not None]
        assert len(decided) == CONVERSATIONS
        own, whole = percentiles(decided), percentiles([one.took_ms for one in fresh])
        added = whole[0] - percentiles([one.took_ms for one in named])[0]
        print(
            f"decide_ms p50 {own[0]:.2f}, p99 {own[1]:.2f}; the whole request {whole[0]:.2f} and "
        )
        print(f"{whole[1]:.2f}, at the median {added:.2f} more than with an explicit name")
        best = [
            min(b, f) for b, f in zip(best, (max(own[0], added), own[1], whole[1]), strict=True)
        ]
        if best[0] <= P50_MS and max(best) <= P99_MS:
            break
    assert best[0] <= P50_MS
    assert max(best) <= P99_MS


@pytest.mark.slow
def test_a_bound_conversation_is_as_quick_as_an_explicit_name(line: HTTPConnection) -> None:
    ask(line, "bound")

    def more_ms() -> float:
        bound, named = [], []
        for _ in range(CONVERSATIONS):  # alternating, so that both meet the same load
            bound.append(ask(line, "bound"))
            named.append(ask(line, "named", ROW))
        assert {one.decide_ms for one in bound} == {None}
        ours, theirs = (percentiles([one.took_ms for one in some])[0] for some in (bound, named))
        print(f"a bound turn {ours:.2f} ms, an explicit name {theirs:.2f} ms, at the median")
        return ours - theirs

    at_best(more_ms, 1.0, "ms at the median that a bound turn takes more")


def test_a_second_request_makes_no_decision(null_box: Box, line: HTTPConnection) -> None:
    ask(line, "second")
    before = null_box.count("decisions")
    assert [ask(line, "second").decide_ms for _ in range(20)] == [None] * 20
    assert null_box.count("decisions") == before
