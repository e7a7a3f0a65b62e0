"""A web page must not be able to use the box: foreign Host and Origin."""

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
