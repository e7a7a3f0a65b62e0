"""The queue as people ask for it: `GET /v1/queue`, `fairlane queue`, and comments in a stream."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.front import Front, holding
from support.http import Stream, call
from support.wait import until

SECRET = "hold this secret"


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """A box with one seat."""
    with Front() as front:
        yield front


@pytest.fixture
def streams(front: Front) -> Iterator[list[Stream]]:
    """One request that holds the seat for 300 s by all the box knows, and two of another lane that wait."""
    body = holding(300.0) | {"prompt": SECRET}
    with ExitStack() as stack:
        open_ = [stack.enter_context(front.ask("one", body))]
        open_[0].first()
        for n in (1, 2):
            open_.append(stack.enter_context(front.ask("two", body | {"service_tier": "flex"})))
            until(lambda n=n: front.waiting() == n, "a request that waits")  # type: ignore[misc]  # a test's shorthand
        yield open_
    until(lambda: not front.status()["devices"]["hrx0"]["holders"], "an empty box")


def test_http_shows_holders_places_times_lanes_and_bounds(
    front: Front, streams: list[Stream]
) -> None:
    reply = call(front.url, "/v1/queue")
    assert reply.status == 200
    hrx = reply.json["devices"]["hrx0"]
    holder, waiting = hrx["holders"][0], hrx["waiting"]
    assert (holder["lane"], holder["request"]) == ("one", streams[0].headers["x-request-id"])
    assert holder["left_s"] == pytest.approx(300.0, abs=30.0)
    assert [t["request"] for t in waiting] == [s.headers["x-request-id"] for s in streams[1:]]
    assert [(t["position"], t["lane"], t["priority"]) for t in waiting] == [
        (1, "two", "batch"),
        (2, "two", "batch"),
    ]
    assert [t["eta_s"] for t in waiting] == [
        pytest.approx(300.0, abs=30.0),
        pytest.approx(600.0, abs=30.0),
    ]
    assert reply.json["lanes"]["two"]["waiting"] == 2
    assert reply.json["totals"] == {"waiting": 2, "deciding": 0, "running": 1}
    assert reply.json["bounds"]["queue_per_lane"] == 64
    assert b"secret" not in reply.raw


@pytest.mark.usefixtures("streams")
def test_the_command_shows_the_same(front: Front) -> None:
    seen = json.loads(front.cli("queue", "--json").stdout)
    assert seen.keys() == call(front.url, "/v1/queue").json.keys()
    shown = front.cli("queue")
    assert shown.returncode == 0
    assert "2 of at most 256 waiting" in shown.stdout
    assert "secret" not in shown.stdout


@pytest.mark.usefixtures("streams")
def test_a_watch_looks_again(front: Front) -> None:
    shown = front.cli("queue", "--watch", "--every", "0.1", "--times", "3")
    assert (shown.returncode, shown.stdout.count("2 of at most 256 waiting")) == (0, 3)
    lines = front.cli("queue", "--watch", "--every", "0.1", "--times", "2", "--json").stdout
    assert [json.loads(line)["totals"]["waiting"] for line in lines.splitlines()] == [2, 2]


def test_a_queue_nobody_serves_any_more_is_unreachable(front: Front) -> None:
    own = front.environ
    try:
        front.environ = {**own, "FAIRLANE__RUN_DIR": f"{front.home}/nowhere"}
        assert front.cli("queue").returncode == 4
    finally:
        front.environ = own


def test_a_stream_that_waits_is_told_its_place_and_time(streams: list[Stream]) -> None:
    for place, stream in ((1, streams[1]), (2, streams[2])):
        comment = next(line for line in stream.lines() if line.startswith(": queue"))
        said = re.fullmatch(r": queue (\d+) (\d+)", comment)
        assert said is not None, comment
        assert int(said[1]) == place
        assert int(said[2]) == pytest.approx(300 * place, abs=30)
