"""Which requests reach the gateway: foreign hosts and web pages do not."""

import asyncio
from typing import Any

import msgspec
import pytest
from starlette.types import Message, Receive, Scope, Send

from scheduler.gateway.guard import REQUEST_ID, Guard


async def app(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer with the id the request got."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": str(scope.get(REQUEST_ID, "")).encode()})


def guard(host: str = "127.0.0.1", **names: list[str]) -> Guard:
    return Guard(app, host=host, hosts=names.get("hosts", []), origins=names.get("origins", []))


def call(
    headers: list[tuple[bytes, bytes]], kind: str = "http"
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Send a request through; return status, headers and body."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    asyncio.run(guard()({"type": kind, "headers": headers}, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:13305", "localhost", "LOCALHOST:1", "[::1]", "[::1]:13305"]
)
def test_loopback_names_are_this_box(host: str) -> None:
    assert guard().fault(host, None) is None


@pytest.mark.parametrize(
    "host",
    ["", ":80", "evil.example", "evil.example:13305", "127.0.0.1.evil.example", "10.0.0.1",
     "localhost.evil.example", "[::2]", "[", "evil\x00", "127.0.0.1@evil.example"],
)  # fmt: skip
def test_another_name_is_not(host: str) -> None:
    assert "gateway.allowed_hosts" in (guard().fault(host, None) or "")


def test_the_address_it_is_bound_to_and_names_of_the_settings_are_this_box() -> None:
    assert guard("10.0.0.5").fault("10.0.0.5:80", None) is None
    assert guard(hosts=["Box.lan"]).fault("box.LAN:80", None) is None


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])  # noqa: S104  # compared, not bound
def test_bound_to_every_address_any_address_is_this_box_but_no_name(bound: str) -> None:
    assert guard(bound).fault("192.168.1.7:80", None) is None
    assert guard(bound).fault("[fe80::1]:80", None) is None
    assert guard(bound).fault("evil.example", None) is not None


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://evil.example", "null", "", "file://", "http://127.0.0.1:1",
     "http://127.0.0.1:13305.evil.example", "chrome-extension://x", "http://user@127.0.0.1:13305"],
)  # fmt: skip
def test_a_page_of_another_origin_may_not_call(origin: str) -> None:
    assert "gateway.allowed_origins" in (guard().fault("127.0.0.1:13305", origin) or "")


@pytest.mark.parametrize("origin", ["http://127.0.0.1:13305", "https://127.0.0.1:13305"])
def test_a_page_of_our_own_may(origin: str) -> None:
    assert guard().fault("127.0.0.1:13305", origin) is None


def test_an_origin_of_the_settings_may() -> None:
    allowed = guard(origins=["http://Localhost:3000/"])
    assert allowed.fault("localhost", "http://localhost:3000") is None
    assert allowed.fault("localhost", "http://localhost:3001") is not None


def test_an_allowed_origin_does_not_make_a_foreign_host_ours() -> None:
    assert guard(origins=["http://a"]).fault("evil.example", "http://a") is not None


def test_a_refusal_is_openais_error_with_a_request_id() -> None:
    status, headers, body = call([(b"host", b"evil.example")])
    error: dict[str, Any] = msgspec.json.decode(body)["error"]
    assert (status, error["type"], error["code"]) == (403, "permission_error", "forbidden_origin")
    assert headers[b"x-request-id"].startswith(b"req-")
    assert headers[b"content-length"] == b"%d" % len(body)


def test_what_passes_gets_the_id_that_its_answer_carries() -> None:
    status, headers, body = call([(b"host", b"localhost")])
    assert (status, headers[b"x-own"]) == (200, b"1")
    assert headers[b"x-request-id"] == body


def test_two_requests_have_two_ids() -> None:
    assert call([(b"host", b"localhost")])[2] != call([(b"host", b"localhost")])[2]


def test_what_is_no_http_request_passes_untouched() -> None:
    status, headers, body = call([], "lifespan")
    assert (status, headers, body) == (200, {b"x-own": b"1"}, b"")
