"""The routes: what each path takes and which room it is handed to."""

import time
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from scheduler import asking
from scheduler.bus.aioclient import AsyncClient
from scheduler.bus.exchange import PULL_S
from scheduler.errors import BrokerUnreachable
from scheduler.gateway import doors
from scheduler.gateway.answer import Answer
from scheduler.gateway.doors import DOORS
from scheduler.gateway.feed import Feed
from scheduler.gateway.guard import REQUEST_ID, Guard
from scheduler.gateway.metrics.scrape import Scrapes
from scheduler.gateway.pulling import PullAnswer
from scheduler.gateway.shapes import (
    error_body,
    health,
    model_list,
    refusal,
    wanted_pull,
)
from scheduler.gateway.watch import Page
from scheduler.settings import Settings
from scheduler.wire.messages import Ask, Final, Refused

_PREFIXES = ("/v1", "/api/v1")
_ROUTING_PREFIXES = (*_PREFIXES, "/v0", "/api/v0")
_DRAIN_FACTOR = (
    4  # an over-long body is read to this many times the limit, so that the reply is seen
)


Call = Literal["validate", "register", "pull"]


class Gateway:
    """HTTP handlers over one bus client."""

    def __init__(self, bus: AsyncClient, settings: Settings) -> None:
        """Remember the bus and what the settings say.

        Args:
            bus: Started before the first request.
            settings: Gateway, lanes and aliases are read.
        """
        self._bus = bus
        self.feed = Feed(bus.look)  # of the live page; whoever serves it runs it
        self._settings = settings
        self._gateway = settings.gateway
        self._lane_of_key = {
            key.lower(): name for name, lane in settings.lanes.items() for key in lane.keys
        }
        self._known: dict[str, bool] = {}  # name -> whether it means a router collection

    def app(self) -> ASGIApp:
        """Return the guarded application."""
        routes = Page(self.feed).routes()
        for prefix in _PREFIXES:
            routes += [
                *(Route(f"{prefix}/{door.path}", self.ask, methods=["POST"]) for door in DOORS),
                Route(f"{prefix}/pull", self.pull, methods=["POST"]),
                Route(f"{prefix}/models/register", self.pull, methods=["POST"]),
                Route(f"{prefix}/models", self.models),
                Route(f"{prefix}/models/{{name:path}}", self.model),
                Route(f"{prefix}/queue", self.queue),
                Route(f"{prefix}/health", self.health),
                Route(f"{prefix}/live", self.live),
            ]
        for prefix in _ROUTING_PREFIXES:
            routes.append(Route(f"{prefix}/routing/validate", self.validate, methods=["POST"]))
        routes.append(Route("/tokenize", self.ask, methods=["POST"]))
        routes.append(Route("/metrics", Scrapes(self._bus, self._settings).answer))
        app = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _http_error,
                BrokerUnreachable: _no_broker,
                Exception: _our_fault,
            },
        )
        pages = CORSMiddleware(
            app,
            allow_origins=self._gateway.allowed_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "x-lemonade-route", "retry-after"],
        )
        return Guard(
            pages,
            host=self._gateway.host,
            hosts=self._gateway.allowed_hosts,
            origins=self._gateway.allowed_origins,
        )

    async def ask(self, request: Request) -> Any:
        """POST at any of the doors: a request that a row answers."""
        door = doors.at(request.url.path)
        try:
            raw = await self._body(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        if raw is None:
            return _failed(413, door.failure(413, self._too_long(), "body_too_large"))
        headers: Mapping[str, str] = request.headers
        try:
            read = asking.read(raw, door.op, headers)
        except asking.BadRequest as error:
            return _failed(400, door.failure(400, str(error), "invalid_request", error.param))
        lane = asking.lane_of(headers, _peer(request), self._lane_of_key)
        rid: str = request.scope[REQUEST_ID]
        expires_at = time.monotonic() + self._gateway.request_timeout_s
        ask = read.message(rid, door.op, lane=lane, batch=False, expires_at=expires_at)
        routed = door.may_route and await self._routes(read.name)
        flow = self._bus.open(ask, asking.with_headers(raw, door.op, headers))
        waits = (self._gateway.wait_headers_s, self._gateway.wait_space_s)
        return Answer(flow, door, routed=routed, stream=read.stream, waits=waits)

    async def validate(self, request: Request) -> Response:
        """POST /v1/routing/validate: decide with a policy that is not registered; nothing is run."""
        return await self._call(request, "validate")

    async def pull(self, request: Request) -> Any:
        """POST /v1/pull: bring a row of the table to the box, or register a router policy."""
        raw = await self._body(request)
        if raw is None:
            return _failed(413, error_body(413, self._too_long(), "body_too_large"))
        wanted = wanted_pull(raw)
        if wanted is None:
            return await self._serve(request, "register", raw)
        ask = self._request(request, "pull", wanted.model, PULL_S)  # it takes as long as it takes
        waits = (self._gateway.wait_headers_s, self._gateway.wait_space_s)
        return PullAnswer(self._bus.open(ask), wanted.model, stream=wanted.stream, waits=waits)

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

    async def queue(self, _request: Request) -> Response:
        """GET /v1/queue."""
        return _json(await self._bus.queue())

    async def health(self, _request: Request) -> Response:
        """GET /v1/health."""
        return _json(health(await self._bus.status(), await self._bus.models()))

    async def live(self, _request: Request) -> Response:
        """GET /v1/live: this process answers, whatever the others do."""
        return _json({"status": "ok"})

    async def _routes(self, name: str) -> bool:
        """Return whether a name means a router collection, so that its answer carries a decision."""
        if name not in self._known:
            view = await self._bus.models()
            rows = {row["id"]: False for row in view["rows"]}
            names = {
                c["id"]: True for c in view["collections"]
            } | rows  # a row goes first, as in the core
            aliases = {a: names[to] for a, to in view["aliases"].items() if to in names}
            self._known = names | aliases
        return self._known.get(name, False)

    async def _call(self, request: Request, op: Call) -> Response:
        """Have a helper serve a request; its reply is the client's, as it is."""
        raw = await self._body(request)
        if raw is None:
            return _failed(413, error_body(413, self._too_long(), "body_too_large"))
        return await self._serve(request, op, raw)

    def _request(self, request: Request, op: Call, name: str, timeout_s: float) -> Ask:
        lane = asking.lane_of(request.headers, _peer(request), self._lane_of_key)
        rid: str = request.scope[REQUEST_ID]
        key = asking.conversation_key(lane, op, rid)
        return Ask(rid, op, name, lane, key, time.monotonic() + timeout_s)

    async def _serve(self, request: Request, op: Call, raw: bytes) -> Response:
        ask = self._request(request, op, "", self._gateway.request_timeout_s)
        with self._bus.open(ask, raw) as flow:
            async for message, body in flow:
                if isinstance(message, Refused):
                    status, text, headers = refusal(message)
                    return Response(text, status, headers, media_type="application/json")
                if isinstance(message, Final):
                    return Response(body, message.status, media_type="application/json")
        raise BrokerUnreachable

    def _too_long(self) -> str:
        return f"The body is longer than {self._gateway.body_max_bytes} bytes."

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


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _failed(status: int, body: bytes) -> Response:
    return Response(body, status, media_type="application/json")


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "http_error")
    text = f"{request.method} {request.url.path}: {getattr(error, 'detail', error)}"
    return _failed(status, doors.at(request.url.path).failure(status, text, code))


async def _no_broker(request: Request, error: Exception) -> Response:
    body = error_body(503, str(error), "broker_unreachable", {"retryable": True})
    return _failed(503, doors.at(request.url.path).error(body, 503))


async def _our_fault(request: Request, error: Exception) -> Response:
    text = f"A fault of the gateway: {type(error).__name__}."
    return _failed(500, doors.at(request.url.path).failure(500, text, "internal_error"))
