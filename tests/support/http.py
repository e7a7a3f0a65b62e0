"""HTTP as a plain program speaks it: what openai's client hides (headers, comments, raw bytes)."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from msgspec import Struct

CHAT = "/v1/chat/completions"
ROW = "SmolLM2-135M-Instruct"
NPU_ROW = "SmolLM2-135M-Instruct-npu"
COUNTING = "1 2 3 4 5 6 7 8 9 10 11 12"  # the model counts on from here for as long as it may
TIMEOUT_S = 60.0


class Reply(Struct):
    """A whole reply."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.raw)

    @property
    def error(self) -> dict[str, Any]:
        """The error object; fails where the reply is no error in OpenAI's shape."""
        error: dict[str, Any] = self.json["error"]
        assert {"message", "type", "param", "code"} <= error.keys()
        assert isinstance(error["message"], str)
        return error

    @property
    def outputs(self) -> dict[str, Any]:
        """The decision's outputs."""
        outputs: dict[str, Any] = self.json["x_lemonade_route"]["outputs"]
        return outputs


def chat(text: str = "Hi", *, model: str = "auto", **fields: object) -> dict[str, object]:
    """Return a small chat request."""
    messages = [{"role": "user", "content": text}]
    return {"model": model, "messages": messages, "max_tokens": 2, "temperature": 0, **fields}


def counting(tokens: int, *, model: str = ROW, **fields: object) -> dict[str, object]:
    """Return a completion that goes on for exactly so many tokens."""
    return {"model": model, "prompt": COUNTING, "max_tokens": tokens, "temperature": 0, **fields}


def call(
    url: str,
    path: str = CHAT,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "",
    timeout_s: float = TIMEOUT_S,
) -> Reply:
    """Send one request and return its whole reply. A body of bytes is sent as it is."""
    line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout_s)
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        verb = method or ("GET" if raw is None else "POST")
        line.request(verb, path, raw, {"content-type": "application/json", **(headers or {})})
        response = line.getresponse()
        return Reply(response.status, _lower(response), response.read())
    finally:
        line.close()


class Stream:
    """A streamed reply that is being read. Leaving its `with` block hangs up."""

    def __init__(
        self, url: str, path: str, body: dict[str, object], headers: Mapping[str, str] | None = None
    ) -> None:
        self._line = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        self._line.request("POST", path, json.dumps({**body, "stream": True}), dict(headers or {}))
        self._response: http.client.HTTPResponse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        if self._response is not None:
            self._response.close()
        self._line.close()

    @property
    def response(self) -> http.client.HTTPResponse:
        """The response, as soon as its head is there."""
        if self._response is None:
            self._response = self._line.getresponse()
        return self._response

    @property
    def headers(self) -> dict[str, str]:
        """The response's headers."""
        return _lower(self.response)

    def lines(self) -> Iterator[str]:
        """Yield the non-empty lines, comments included."""
        for line in self.response:
            text = line.decode().rstrip("\r\n")
            if text:
                yield text

    def data(self) -> Iterator[str]:
        """Yield what each data event holds."""
        for line in self.lines():
            if line.startswith("data: "):
                yield line.removeprefix("data: ")

    def first(self) -> str:
        """Return the next data event."""
        return next(self.data())


def raw(url: str, sent: bytes) -> bytes:
    """Send bytes as they are and return all that comes back until the box hangs up."""
    with _connect(url) as line:
        line.sendall(sent)
        got = b""
        while piece := line.recv(65536):
            got += piece
        return got


def hang_up(url: str, sent: bytes) -> None:
    """Send bytes as they are and close at once."""
    with _connect(url) as line:
        line.sendall(sent)


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=TIMEOUT_S)


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}
