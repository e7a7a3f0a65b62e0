"""The routes: what each path takes and which room it is handed to."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from scheduler import asking
from scheduler.bus.client import AsyncClient
from scheduler.errors import BrokerUnreachable
from scheduler.gateway.answer import Answer, failure
from scheduler.gateway.guard import REQUEST_ID, Guard
from scheduler.gateway.shapes import error_body, health, model_list
from scheduler.settings import Settings

_PREFIXES = ("/v1", "/api/v1")
_DRAIN_FACTOR = (
    4  # an over-long body is read to this many times the limit, so that the reply is seen
)


class Gateway:
    """HTTP handlers over one bus client."""

    def __init__(self, bus: AsyncClient, settings: Settings) -> None:
        """Remember the bus and what the settings say.

        Args:
            bus: Started before the first request.
            settings: Gateway, lanes and aliases are read.
        """
        self._bus = bus
        self._gateway = settings.gateway
        self._lane_of_key = {
            key.lower(): name for name, lane in settings.lanes.items() for key in lane.keys
        }
        self._routers: frozenset[str] | None = None

    def app(self) -> ASGIApp:
        """Return the guarded application."""
        routes: list[Route] = []
        for prefix in _PREFIXES:
            routes += [
                Route(f"{prefix}/chat/completions", self.chat, methods=["POST"]),
                Route(f"{prefix}/completions", self.completion, methods=["POST"]),
                Route(f"{prefix}/models", self.models),
                Route(f"{prefix}/models/{{name:path}}", self.model),
                Route(f"{prefix}/health", self.health),
                Route(f"{prefix}/live", self.live),
            ]
        app = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _http_error,
                BrokerUnreachable: _no_broker,
                Exception: _our_fault,
            },
        )
        return Guard(
            app,
            host=self._gateway.host,
            hosts=self._gateway.allowed_hosts,
            origins=self._gateway.allowed_origins,
        )

    async def chat(self, request: Request) -> Any:
        """POST /v1/chat/completions."""
        return await self._ask(request, "chat")

    async def completion(self, request: Request) -> Any:
        """POST /v1/completions."""
        return await self._ask(request, "completion")

    async def models(self, _request: Request) -> Response:
        """GET /v1/models."""
        return _json(model_list(await self._bus.models()))

    async def model(self, request: Request) -> Response:
        """GET /v1/models/{name}."""
        name = request.path_params["name"]
        listed: list[dict[str, Any]] = model_list(await self._bus.models())["data"]
        for one in listed:
            if one["id"] == name:
                return _json(one)
        facts = {"param": "model", "requested_model": name}
        body = error_body(404, f"Model '{name}' was not found.", "model_not_found", facts)
        return Response(body, 404, media_type="application/json")

    async def health(self, _request: Request) -> Response:
        """GET /v1/health."""
        return _json(health(await self._bus.status(), await self._bus.models()))

    async def live(self, _request: Request) -> Response:
        """GET /v1/live: this process answers, whatever the others do."""
        return _json({"status": "ok"})

    async def _ask(self, request: Request, endpoint: asking.Endpoint) -> Any:
        try:
            raw = await self._body(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        if raw is None:
            limit = self._gateway.body_max_bytes
            text = f"The body is longer than {limit} bytes."
            return _failed(*failure(413, text, "body_too_large"))
        headers: Mapping[str, str] = request.headers
        try:
            read = asking.read(raw, endpoint, headers)
        except asking.BadRequest as error:
            return _failed(*failure(400, str(error), "invalid_request", error.param))
        peer = request.client.host if request.client else ""
        lane = asking.lane_of(headers, peer, self._lane_of_key)
        rid: str = request.scope[REQUEST_ID]
        expires_at = time.monotonic() + self._gateway.request_timeout_s
        ask = read.message(rid, endpoint, lane=lane, batch=False, expires_at=expires_at)
        routed = await self._routes(read.name)
        flow = self._bus.open(ask, raw)
        return Answer(flow, routed=routed, stream=read.stream)

    async def _routes(self, name: str) -> bool:
        """Return whether a name means a router collection, so that its answer carries a decision."""
        if self._routers is None:
            view = await self._bus.models()
            collections = {c["id"] for c in view["collections"]}
            aliases = {a for a, to in view["aliases"].items() if to in collections}
            self._routers = frozenset(collections | aliases)
        return name in self._routers

    async def _body(self, request: Request) -> bytes | None:
        """Return the body, or None when it is too long; then most of it is still read away."""
        limit = self._gateway.body_max_bytes
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                parts.append(part)
            elif size > limit * _DRAIN_FACTOR:
                break
        return b"".join(parts) if size <= limit else None


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _failed(status: int, body: bytes) -> Response:
    return Response(body, status, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "http_error")
    text = f"{request.method} {request.url.path}: {getattr(error, 'detail', error)}"
    return Response(error_body(status, text, code), status, media_type="application/json")


async def _no_broker(_request: Request, error: Exception) -> Response:
    body = error_body(503, str(error), "broker_unreachable", {"retryable": True})
    return Response(body, 503, media_type="application/json")


async def _our_fault(_request: Request, error: Exception) -> Response:
    body = error_body(500, f"A fault of the gateway: {type(error).__name__}.", "internal_error")
    return Response(body, 500, media_type="application/json")
