"""A small HTTP client for the commands: JSON in, JSON or SSE out. The standard library suffices."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from scheduler.errors import BrokerUnreachable, FairlaneError


class HttpError(FairlaneError):
    """The gateway answered with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            message = str(json.loads(body)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            message = body.decode(errors="replace")[:200]
        super().__init__(f"{status}: {message}")


def get(url: str, path: str) -> dict[str, Any]:
    """Return the JSON object at a path.

    Raises:
        BrokerUnreachable, HttpError: As `post`.
    """
    with _ask(url, "GET", path, None, {}) as response:
        found: dict[str, Any] = json.loads(response.read())
    return found


def post(
    url: str, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    """Post JSON and return the open response.

    Raises:
        BrokerUnreachable: Nobody listens there.
        HttpError: The status is no 2xx.
    """
    return _ask(url, "POST", path, json.dumps(body), headers or {})


def _ask(
    url: str, method: str, path: str, body: str | None, headers: dict[str, str]
) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    line = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=660)
    sent = {"content-type": "application/json", "user-agent": "fairlane-cli", **headers}
    try:
        line.request(method, path, body, sent)
        response = line.getresponse()
    except OSError as error:
        raise BrokerUnreachable(f"nobody answers at {url}; is `fairlane up` running?") from error
    if response.status >= 300:
        raise HttpError(response.status, response.read())
    return response


def events(response: http.client.HTTPResponse) -> Iterator[str]:
    """Yield the lines of an event stream: `data: ...` and `: comment`."""
    for raw in response:
        line = raw.decode().rstrip("\r\n")
        if line:
            yield line
