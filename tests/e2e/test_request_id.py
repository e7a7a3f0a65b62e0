"""x-request-id: on every reply, and `fairlane explain` knows it."""

import pytest

from support.box import Box
from support.http import CHAT, NPU_ROW, Reply, Stream, call, chat


def replies(url: str) -> dict[str, Reply]:
    return {
        "answer": call(url, CHAT, chat()),
        "unknown model": call(url, CHAT, chat(model="nobody")),
        "unsupported field": call(url, CHAT, chat(n=2)),
        "bad JSON": call(url, CHAT, b"{"),
        "no messages": call(url, CHAT, {"model": "auto"}),
        "too large": call(url, CHAT, b" " * (20 * 2**20)),
        "foreign host": call(url, CHAT, chat(), {"host": "evil.example"}),
        "foreign origin": call(url, CHAT, chat(), {"origin": "https://evil.example"}),
        "no such path": call(url, "/v1/nothing"),
        "no such method": call(url, CHAT),
        "models": call(url, "/v1/models"),
        "no such model": call(url, "/v1/models/nobody"),
        "health": call(url, "/v1/health"),
        "live": call(url, "/v1/live"),
    }


def test_every_reply_has_an_id_of_its_own(box: Box) -> None:
    ids = {what: reply.headers.get("x-request-id", "") for what, reply in replies(box.url).items()}
    assert [what for what, rid in ids.items() if not rid] == []
    assert len(set(ids.values())) == len(ids)


def test_explain_tells_the_whole_way_of_an_answer(box: Box) -> None:
    rid = call(box.url, CHAT, chat()).headers["x-request-id"]
    told = box.cli("explain", rid)
    assert told.returncode == 0
    assert "asked" in told.stdout
    assert "answered" in told.stdout


def test_explain_knows_a_stream(box: Box) -> None:
    with Stream(box.url, CHAT, chat()) as stream:
        assert list(stream.data())[-1] == "[DONE]"
        rid = stream.headers["x-request-id"]
    assert box.cli("explain", rid).returncode == 0


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"model": "nobody"}, "'nobody' was not found"), ({"n": 2}, "unsupported_field")],
)
def test_explain_says_why_a_request_was_refused(
    box: Box, fields: dict[str, object], why: str
) -> None:
    rid = call(box.url, CHAT, chat() | fields).headers["x-request-id"]
    told = box.cli("explain", rid)
    assert (told.returncode, why in told.stdout) == (0, True)


def test_explain_follows_a_request_that_still_runs(box: Box) -> None:
    with Stream(box.url, "/v1/completions", {"model": NPU_ROW, "prompt": "1 2 3 4 5 6"}) as stream:
        stream.first()
        told = box.cli("explain", stream.headers["x-request-id"])
    assert "first token" in told.stdout
    assert "answered" not in told.stdout


def test_explain_of_an_unknown_id_fails_and_says_so(box: Box) -> None:
    told = box.cli("explain", "req-nobody")
    assert told.returncode == 1
    assert "req-nobody" in told.stderr
