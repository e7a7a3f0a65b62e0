"""A web page must not be able to use the box: foreign Host and Origin."""

from collections.abc import Iterator

import pytest

from support.box import Box
from support.http import CHAT, call, chat, raw

FOREIGN = [
    {"host": "evil.example"},
    {"host": "127.0.0.1.evil.example"},
    {"host": ""},
    {"host": "[::1"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost.evil.example"},
    {"origin": "http://[evil"},
    {"origin": "file://"},
]


@pytest.mark.parametrize("path", [CHAT, "/v1/models"])
@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_foreign_page_gets_403(box: Box, path: str, headers: dict[str, str]) -> None:
    reply = call(box.url, path, chat() if path == CHAT else None, headers)
    assert reply.status == 403
    assert reply.error["type"] == "permission_error"


def test_a_request_of_http_1_0_without_a_host_gets_403(box: Box) -> None:
    assert b" 403 " in raw(box.url, b"GET /v1/models HTTP/1.0\r\n\r\n").split(b"\r\n", 1)[0]


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_every_name_of_loopback_is_ours(box: Box, name: str) -> None:
    port = box.url.rpartition(":")[2]
    assert call(box.url, "/v1/models", headers={"host": f"{name}:{port}"}).status == 200


def test_a_page_of_our_own_may_ask(box: Box) -> None:
    assert call(box.url, "/v1/models", headers={"origin": box.url}).status == 200


FRIEND = "http://localhost:3000"


@pytest.fixture(scope="module")
def open_box() -> Iterator[Box]:
    """A box that one page and one further name may use."""
    friends = {"gateway__allowed_origins": FRIEND, "gateway__allowed_hosts": "box.lan"}
    with Box(workers__engine="null", **friends) as box:
        yield box


def test_a_further_name_of_the_box_may_be_allowed(open_box: Box) -> None:
    assert call(open_box.url, "/v1/models", headers={"host": "Box.lan:8000"}).status == 200


def test_an_allowed_page_may_read_the_reply(open_box: Box) -> None:
    reply = call(open_box.url, CHAT, chat(), {"origin": FRIEND})
    assert (reply.status, reply.headers.get("access-control-allow-origin")) == (200, FRIEND)


def test_an_allowed_page_may_post_json(open_box: Box) -> None:
    asked = {
        "origin": FRIEND,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    reply = call(open_box.url, CHAT, headers=asked, method="OPTIONS")
    assert reply.status in {200, 204}
    assert reply.headers["access-control-allow-origin"] == FRIEND
    assert "content-type" in reply.headers["access-control-allow-headers"].lower()


def test_another_page_is_still_refused(open_box: Box) -> None:
    reply = call(open_box.url, CHAT, chat(), {"origin": "http://localhost:3001"})
    assert (reply.status, "access-control-allow-origin" in reply.headers) == (403, False)
