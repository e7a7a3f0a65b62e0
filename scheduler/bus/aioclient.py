"""The asyncio client: many requests at once on one socket. The gateway and the supervisor use it.

    async with AsyncClient(endpoint) as client:
        async for chunk in client.stream(messages): ...

It watches the socket's descriptor itself: `zmq.asyncio` costs a future and two tasks a message. The
descriptor is edge-triggered, so after every send the socket is read as well.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

import msgspec
import zmq

from scheduler.bus.exchange import HELLO_S, Answer, Calling, Messages, Reader, drain, whole
from scheduler.bus.pending import Exchange, Pending, Piece
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable
from scheduler.wire import messages as wire
from scheduler.wire.codec import encode


class AsyncClient:
    """An asyncio client; many requests at once on one socket."""

    def __init__(
        self,
        endpoint: str,
        *,
        lane: str = "default",
        timeout_s: float = 600.0,
        heed: Callable[[wire.Message], None] | None = None,
    ) -> None:
        """Remember where to connect; `async with` connects.

        Args:
            endpoint: The broker's client endpoint.
            lane: Whose work this is.
            timeout_s: How long a request may take in all.
            heed: Is shown every message of the broker, those that belong to no request among them.
        """
        self._endpoint = endpoint
        self._call = Calling(lane, timeout_s)
        self._pending = Pending()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._heed = heed
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

    def give_up(self, code: str, message: str) -> None:
        """End all that is open with a 503, and tell the broker that nobody waits for it any more."""
        for exchange in self._pending.close(code, message):
            self._withdraw(exchange)

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
        reader = Reader()
        body = {"model": model, "messages": messages, **fields}
        with self.open(*self._call.ask(body, "chat")) as flow:
            async for piece in flow:
                reader.take(piece)
        return whole(reader)

    async def stream(
        self, messages: Messages, *, model: str = "auto", **fields: object
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield an answer's chunks; closing the iterator cancels the rest."""
        reader = Reader()
        body = {"model": model, "messages": messages, **fields, "stream": True}
        with self.open(*self._call.ask(body, "chat")) as flow:
            async for piece in flow:
                chunk = reader.take(piece)
                if chunk is not None:
                    yield chunk

    async def decide(self, messages: Messages, *, model: str = "auto") -> dict[str, Any]:
        """Return the Decision a request would get; see `Client.decide`."""
        reader = Reader()
        with self.open(*self._call.ask({"model": model, "messages": messages}, "decide")) as flow:
            async for piece in flow:
                reader.take(piece)
        decided = whole(reader).route
        return decided or {}

    async def status(self) -> dict[str, Any]:
        """Return the broker's view of the box."""
        view: dict[str, Any] = await self.query("status")
        return view

    async def models(self) -> dict[str, Any]:
        """Return rows, collections and aliases."""
        view: dict[str, Any] = await self.query("models")
        return view

    async def queue(self) -> dict[str, Any]:
        """Return who holds each device and who waits for it; see `Client.queue`."""
        view: dict[str, Any] = await self.query("queue")
        return view

    def cancel(self, rid: str) -> None:
        """Withdraw a request of this client by its id."""
        self.send(wire.Cancel(rid))

    async def query(self, what: str, about: str = "") -> Any:
        """Return one of the broker's views.

        Raises:
            BrokerUnreachable: No broker answers.
        """
        return msgspec.json.decode(await self.look(what, about))

    async def look(self, what: str, about: str = "") -> bytes:
        """Return one of the broker's views as its JSON.

        Raises:
            BrokerUnreachable: No broker answers.
        """
        query = msgspec.convert({"id": uuid.uuid4().hex, "what": what, "about": about}, wire.Query)
        with self.open(query) as flow:
            async for message, body in flow:
                if isinstance(message, wire.Reply):
                    return body
        raise BrokerUnreachable

    def _withdraw(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, wire.Ask):
            self.send(wire.Cancel(exchange.request.id))

    def _readable(self) -> None:
        if self._loop is None:
            return
        for exchange in drain(self._line, self._pending, self._heed):
            self.send(exchange.request, exchange.body)

    def _hello(self) -> None:
        if self._loop is None:
            return
        self.send(wire.Hello())
        for late in self._pending.overdue(time.monotonic()):
            self._withdraw(late)
        self._beat = self._loop.call_later(HELLO_S, self._hello)


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
