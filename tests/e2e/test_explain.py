"""`fairlane explain`: why a request waited and where it landed, while it waits and after it ended."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from support.front import Front, holding
from support.wait import until


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """A box with one seat that remembers three requests, and in which two of a lane may wait."""
    with Front(limits__stories=3, limits__queue_per_lane=2) as front:
        yield front


def test_a_request_is_explained_while_it_waits_and_after_it_ended(front: Front) -> None:
    short = holding() | {"prompt": "Hi"}
    with ExitStack() as stack:
        holder = stack.enter_context(front.ask("one"))
        holder.first()
        first = stack.enter_context(front.ask("two", short))
        until(lambda: front.waiting() == 1, "one that waits")
        second = stack.enter_context(front.ask("two", short))
        rid = second.headers["x-request-id"]
        told = front.cli("explain", rid)
        assert told.returncode == 0
        assert f"held by lane 'one' ({holder.headers['x-request-id']}" in told.stdout
        assert "position 2 now, behind 1 ticket of lane 'two'" in told.stdout
        holder.close()
        assert list(second.data())[-1] == "[DONE]"
        assert list(first.data())[-1] == "[DONE]"
    seen = json.loads(front.cli("explain", rid, "--json").stdout)
    assert (seen["lane"], seen["outcome"]) == ("two", "answered")
    waited, ran = seen["passages"]
    assert [held["lane"] for held in waited["held_by"]] == ["one"]
    assert waited["ran_before"] == {"two": 1}
    assert ran["device"] == "hrx0"


def test_a_refused_request_is_explained_with_the_bound_it_met(front: Front) -> None:
    with ExitStack() as stack:
        stack.enter_context(front.ask("one")).first()
        for _ in range(2):
            stack.enter_context(front.ask("two"))
        until(lambda: front.waiting() == 2, "a full lane")
        refused = stack.enter_context(front.ask("two"))
        assert refused.response.status == 429
        told = front.cli("explain", refused.headers["x-request-id"])
    assert "lane 'two' has 2 requests waiting, of at most 2" in told.stdout
    until(lambda: not front.status()["devices"]["hrx0"]["holders"], "an empty box")


def test_a_request_of_long_ago_is_unknown_and_the_error_says_what_is_kept(front: Front) -> None:
    ids: list[str] = []
    for _ in range(4):
        with front.ask("one", holding() | {"prompt": "Hi"}) as stream:
            assert list(stream.data())[-1] == "[DONE]"
            ids.append(stream.headers["x-request-id"])
    told = front.cli("explain", ids[0])
    assert (told.returncode, told.stdout) == (1, "")
    assert f"no request '{ids[0]}' is known" in told.stderr
    assert "the last 3 that ended" in told.stderr
    assert front.cli("explain", ids[1]).returncode == 0
    assert json.loads(front.cli("explain", ids[0], "--json").stdout)["known"] is False


def test_an_id_longer_than_any_is_refused_by_that_reason(front: Front) -> None:
    told = front.cli("explain", "x" * 257)
    assert (told.returncode, told.stdout) == (1, "")
    assert "no request has an id of more than 256 characters" in told.stderr
