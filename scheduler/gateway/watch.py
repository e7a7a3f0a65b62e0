"""The live page and what feeds it: a few files of this package, and server-sent events.

The page takes nothing from anywhere else, and its policy says so to the browser: scripts and styles from
their own paths only, no frame around it, no form. Names on it are their users' words, written as text.
"""

import asyncio
import contextlib
import hashlib
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from scheduler.gateway.feed import VIEWERS, Feed
from scheduler.gateway.shapes import error_body

_STALL_S = 30.0  # who takes nothing for so long is sent away
_FILES = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "curves.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_SAFE = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


class Page:
    """Serves the page's files and its feed."""

    def __init__(self, feed: Feed) -> None:
        """Read the files once.

        Args:
            feed: Runs as long as the page is served.
        """
        self._feed = feed
        room = resources.files("scheduler.gateway") / "page"
        self._files = {name: room.joinpath(name).read_bytes() for name in _FILES}

    def routes(self) -> list[Route]:
        """Return the page's routes."""
        return [
            Route("/", self.page),
            Route("/page/{name}", self.file),
            Route("/v1/live/events", self.events),
        ]

    async def page(self, request: Request) -> Response:
        """GET /."""
        return self._file(request, "page.html")

    async def file(self, request: Request) -> Response:
        """GET /page/NAME."""
        return self._file(request, request.path_params["name"])

    async def events(self, _request: Request) -> Any:
        """GET /v1/live/events."""
        if self._feed.is_full:
            text = f"{VIEWERS} viewers watch already, of at most {VIEWERS}. Try again later."
            body = error_body(503, text, "too_many_viewers", {"retryable": True})
            return Response(body, 503, {"retry-after": "10"}, media_type="application/json")
        return _Watching(self._feed)

    def _file(self, request: Request, name: str) -> Response:
        content = self._files.get(name)
        if content is None:
            body = error_body(404, f"GET {request.url.path}: no such file.", "not_found")
            return Response(body, 404, media_type="application/json")
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {**_SAFE, "etag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(None, 304, headers)
        return Response(content, 200, {**headers, "content-type": _FILES[name]})


class _Watching(StreamingResponse):
    """One who watches, for as long as they take what they are sent."""

    def __init__(self, feed: Feed) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(feed.events(), headers=headers, media_type="text/event-stream")
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until they leave, or stall."""

        async def sending(message: Message) -> None:
            async with asyncio.timeout(_STALL_S):
                await send(message)

        with self._feed.seat(), contextlib.suppress(TimeoutError):
            await super().__call__(scope, receive, sending)
