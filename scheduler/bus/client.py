"""The client other programs use: synchronous and asyncio, one behaviour.

    with Client(endpoint) as client:
        print(client.chat([{"role": "user", "content": "Hi"}]).text)

    async with AsyncClient(endpoint) as client:
        async for piece in client.stream(messages): ...

An asyncio client watches the socket's descriptor itself: `zmq.asyncio` costs a future and two tasks a
message. The descriptor is edge-triggered, so after every send the socket is read as well.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from types import TracebackType
from typing import Any, Self

import msgspec
import zmq
from msgspec import Struct

from scheduler import asking, route
from scheduler.bus.pending import Exchange, Pending, Piece
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable, ProtocolError, Refused
from scheduler.wire import messages as wire
from scheduler.wire.codec import decode, encode

Messages = list[dict[str, Any]]
_HELLO_S = 1.0  # how often the broker is asked whether it is still the same one


class Answer(Struct, frozen=True):
    """A whole answer.

    Attributes:
        body: The reply as the worker gave it, OpenAI's shape.
        route: The Decision with what the server adds, or None for an explicit model name.
    """

    body: dict[str, Any]
    route: dict[str, Any] | None

    @property
    def text(self) -> str:
        """The answer's text."""
        choice = self.body["choices"][0]
        return str(choice["message"]["content"] if "message" in choice else choice["text"])


class _Call:
    """What the two clients share: building requests and reading replies."""

    def __init__(self, lane: str, timeout_s: float) -> None:
        self._lane = lane
        self._timeout_s = timeout_s

    def ask(
        self, body: dict[str, Any], endpoint: asking.Endpoint, timeout_s: float | None = None
    ) -> tuple[wire.Ask, bytes]:
        """Return the message and body of a request.

        Raises:
            asking.BadRequest: The body is malformed.
        """
        raw = msgspec.json.encode(body)
        read = asking.read(raw, endpoint, {})
        allowed_s = self._timeout_s if timeout_s is None else timeout_s
        expires_at = time.monotonic() + allowed_s
        rid = uuid.uuid4().hex
        return read.message(rid, endpoint, lane=self._lane, batch=False, expires_at=expires_at), raw

    @staticmethod
    def raise_refused(message: wire.Refused) -> None:
        """Raise what the broker declined."""
        raise Refused(
            message.status,
            message.code,
            message.message,
            facts=message.facts,
            retry_after_s=message.retry_after_s,
            began=message.began,
        )


class _Reader:
    """Collects one request's pieces into an answer."""

    def __init__(self) -> None:
        self._placed: tuple[wire.Placed, bytes] | None = None
        self.answer: Answer | None = None

    def take(self, piece: Piece) -> dict[str, Any] | None:
        """Take a piece; return a streamed chunk's object if it is one.

        Raises:
            Refused: The request was declined.
        """
        message, body = piece
        if isinstance(message, wire.Refused):
            _Call.raise_refused(message)
        if isinstance(message, wire.Placed):
            self._placed = (message, body)
        elif isinstance(message, wire.Partial):
            chunk: dict[str, Any] = msgspec.json.decode(body)
            decided = self._route(message.timings) if message.timings else None
            return {**chunk, route.FIELD: decided} if decided else chunk
        elif isinstance(message, wire.Final):
            reply: dict[str, Any] = msgspec.json.decode(body) if body else {}
            self.answer = Answer(reply, self._route(message.timings))
        return None

    def _route(self, timings: wire.Timings | None) -> dict[str, Any] | None:
        if self._placed is None:
            return None
        placed, decided = self._placed
        return route.decision(placed, decided, timings)


class Client:
    """A synchronous client. One thread uses it at a time."""

    def __init__(self, endpoint: str, *, lane: str = "default", timeout_s: float = 600.0) -> None:
        """Connect.

        Args:
            endpoint: The broker's client endpoint.
            lane: Whose work this is.
            timeout_s: How long a request may take in all.
        """
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._pending = Pending()
        self._call = _Call(lane, timeout_s)
        self._hello_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave."""
        self._line.close()
        self._context.term()

    def chat(
        self,
        messages: Messages,
        *,
        model: str = "auto",
        timeout_s: float | None = None,
        **fields: object,
    ) -> Answer:
        """Return a whole answer.

        Args:
            messages: OpenAI's messages.
            model: A model's name, or `auto`.
            timeout_s: How long this request may take in all; the client's by default.
            fields: Further fields of the request, such as `max_tokens`.

        Raises:
            Refused: The request was declined; holds status, code and facts.
            BrokerUnreachable: No broker answers.
        """
        return self._answer({"model": model, "messages": messages, **fields}, "chat", timeout_s)

    def embed(self, text: str, *, model: str, timeout_s: float | None = None) -> list[float]:
        """Return the embedding of a text.

        Raises:
            Refused, BrokerUnreachable: As `chat`.
        """
        body = self._answer({"model": model, "input": text}, "embed", timeout_s).body
        vector: list[float] = body["data"][0]["embedding"]
        return vector

    def stream(
        self, messages: Messages, *, model: str = "auto", **fields: object
    ) -> Iterator[dict[str, Any]]:
        """Yield an answer's chunks; leaving the loop cancels the rest.

        Raises:
            Refused, BrokerUnreachable: As `chat`.
        """
        reader = _Reader()
        body = {"model": model, "messages": messages, **fields, "stream": True}
        with contextlib.closing(self._pieces(*self._call.ask(body, "chat"))) as pieces:
            for piece in pieces:
                chunk = reader.take(piece)
                if chunk is not None:
                    yield chunk

    def decide(self, messages: Messages, *, model: str = "auto") -> dict[str, Any]:
        """Return the Decision a request would get; nothing is loaded, bound or run.

        Empty for an explicit model name, which takes no routing.
        """
        reader = _Reader()
        body = {"model": model, "messages": messages}
        for piece in self._pieces(*self._call.ask(body, "decide")):
            reader.take(piece)
        decided = _whole(reader).route
        return decided or {}

    def status(self) -> dict[str, Any]:
        """Return the broker's view of the box."""
        view: dict[str, Any] = self._query("status")
        return view

    def models(self) -> dict[str, Any]:
        """Return rows, collections and aliases."""
        view: dict[str, Any] = self._query("models")
        return view

    def story(self, rid: str) -> list[tuple[float, str, str]] | None:
        """Return what happened to a request, or None if it is not known any more."""
        view: list[tuple[float, str, str]] | None = self._query("story", rid)
        return view

    def report_exit(self, pid: int) -> None:
        """Tell the broker that a worker process ended."""
        self._line.send(encode(wire.Exited(pid)), b"")

    def cancel(self, rid: str) -> None:
        """Withdraw a request of this client by its id."""
        self._line.send(encode(wire.Cancel(rid)), b"")

    def _answer(
        self, body: dict[str, Any], endpoint: asking.Endpoint, timeout_s: float | None
    ) -> Answer:
        reader = _Reader()
        ask, raw = self._call.ask(body, endpoint, timeout_s)
        with contextlib.closing(self._pieces(ask, raw)) as pieces:
            for piece in pieces:
                reader.take(piece)
        return _whole(reader)

    def _query(self, what: str, about: str = "") -> Any:
        query = msgspec.convert({"id": uuid.uuid4().hex, "what": what, "about": about}, wire.Query)
        for message, body in self._pieces(query, b""):
            if isinstance(message, wire.Refused):
                raise BrokerUnreachable
            return msgspec.json.decode(body)
        raise BrokerUnreachable

    def _pieces(self, request: wire.Ask | wire.Query, body: bytes) -> Generator[Piece, None, None]:
        """Yield what comes for a request, the end included; leaving early cancels it."""
        exchange = self._pending.open(request, body, time.monotonic())
        self._line.send(encode(request), body)
        try:
            while exchange.arrived or not exchange.done:
                if exchange.arrived:
                    yield exchange.arrived.popleft()
                else:
                    self._turn()
        finally:
            if self._pending.drop(exchange):
                self._withdraw(exchange)

    def _withdraw(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, wire.Ask):
            self._line.send(encode(wire.Cancel(exchange.request.id)), b"")

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._hello_at >= _HELLO_S:
            self._hello_at = now
            self._line.send(encode(wire.Hello()), b"")
            for late in self._pending.overdue(now):
                self._withdraw(late)
        if self._line.socket.poll(200):
            for exchange in _drain(self._line, self._pending):
                self._line.send(encode(exchange.request), exchange.body)


class AsyncClient:
    """An asyncio client; many requests at once on one socket."""

    def __init__(self, endpoint: str, *, lane: str = "default", timeout_s: float = 600.0) -> None:
        """Remember where to connect; `async with` connects."""
        self._endpoint = endpoint
        self._call = _Call(lane, timeout_s)
        self._pending = Pending()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._descriptor = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Watch the socket in the running loop."""
        self._loop = asyncio.get_running_loop()
        descriptor = self._line.socket.getsockopt(zmq.FD)
        self._descriptor = int(descriptor) if isinstance(descriptor, int) else 0
        self._loop.add_reader(self._descriptor, self._readable)
        self._hello()

    def close(self) -> None:
        """Leave; what is still open ends with an error."""
        self._pending.close()
        if self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            self._loop = None
        if self._beat is not None:
            self._beat.cancel()
        self._line.close()
        self._context.term()

    def open(self, request: wire.Ask | wire.Query, body: bytes = b"") -> "Flow":
        """Send a request and return the flow of what comes for it."""
        exchange = self._pending.open(request, body, time.monotonic())
        flow = Flow(self, exchange)
        self.send(request, body)
        return flow

    def send(self, message: wire.Message, body: bytes = b"") -> None:
        """Send one message."""
        self._line.send(encode(message), body)
        if self._loop is not None:
            self._loop.call_soon(self._readable)

    def leave(self, exchange: Exchange) -> None:
        """Give a request up; the broker is told if it was still open."""
        if self._pending.drop(exchange):
            self._withdraw(exchange)

    async def chat(self, messages: Messages, *, model: str = "auto", **fields: object) -> Answer:
        """Return a whole answer; see `Client.chat`."""
        reader = _Reader()
        body = {"model": model, "messages": messages, **fields}
        with self.open(*self._call.ask(body, "chat")) as flow:
            async for piece in flow:
                reader.take(piece)
        return _whole(reader)

    async def stream(
        self, messages: Messages, *, model: str = "auto", **fields: object
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield an answer's chunks; closing the iterator cancels the rest."""
        reader = _Reader()
        body = {"model": model, "messages": messages, **fields, "stream": True}
        with self.open(*self._call.ask(body, "chat")) as flow:
            async for piece in flow:
                chunk = reader.take(piece)
                if chunk is not None:
                    yield chunk

    async def decide(self, messages: Messages, *, model: str = "auto") -> dict[str, Any]:
        """Return the Decision a request would get; see `Client.decide`."""
        reader = _Reader()
        with self.open(*self._call.ask({"model": model, "messages": messages}, "decide")) as flow:
            async for piece in flow:
                reader.take(piece)
        decided = _whole(reader).route
        return decided or {}

    async def status(self) -> dict[str, Any]:
        """Return the broker's view of the box."""
        view: dict[str, Any] = await self.query("status")
        return view

    async def models(self) -> dict[str, Any]:
        """Return rows, collections and aliases."""
        view: dict[str, Any] = await self.query("models")
        return view

    def cancel(self, rid: str) -> None:
        """Withdraw a request of this client by its id."""
        self.send(wire.Cancel(rid))

    async def query(self, what: str, about: str = "") -> Any:
        """Return one of the broker's views.

        Raises:
            BrokerUnreachable: No broker answers.
        """
        query = msgspec.convert({"id": uuid.uuid4().hex, "what": what, "about": about}, wire.Query)
        with self.open(query) as flow:
            async for message, body in flow:
                if isinstance(message, wire.Reply):
                    return msgspec.json.decode(body)
        raise BrokerUnreachable

    def _withdraw(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, wire.Ask):
            self.send(wire.Cancel(exchange.request.id))

    def _readable(self) -> None:
        if self._loop is None:
            return
        for exchange in _drain(self._line, self._pending):
            self.send(exchange.request, exchange.body)

    def _hello(self) -> None:
        if self._loop is None:
            return
        self.send(wire.Hello())
        for late in self._pending.overdue(time.monotonic()):
            self._withdraw(late)
        self._beat = self._loop.call_later(_HELLO_S, self._hello)


class Flow:
    """What comes for one request. Leaving its `with` block cancels what is still open."""

    def __init__(self, client: AsyncClient, exchange: Exchange) -> None:
        self._client = client
        self._exchange = exchange
        self._waiter: asyncio.Future[None] | None = None
        exchange.wake = self._wake

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.leave(self._exchange)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        piece = await self.next()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def next(self) -> Piece | None:
        """Return the next piece, or None after the last."""
        exchange = self._exchange
        while not exchange.arrived:
            if exchange.done:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return exchange.arrived.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _drain(line: Line, pending: Pending) -> list[Exchange]:
    """Read all that waits on a line; return what must be sent again."""
    again: list[Exchange] = []
    while (received := line.receive()) is not None:
        header, body = received
        try:
            message = decode(header)
        except ProtocolError:
            continue  # a broker of another version; what it means is lost, the time-outs stay
        if isinstance(message, wire.Here):
            again += pending.here(message.boot, time.monotonic())
        else:
            pending.take(message, body)
    return again


def _whole(reader: _Reader) -> Answer:
    if reader.answer is None:
        raise BrokerUnreachable
    return reader.answer
