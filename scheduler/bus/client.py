"""The synchronous client other programs use.

with Client(endpoint) as client:
print(client.chat([{"role": "user", "content": "Hi"}]).text)
"""

import contextlib
import time
import uuid
from collections.abc import Generator
from typing import Any, Self

import msgspec
import zmq

from scheduler import asking
from scheduler.bus.exchange import HELLO_S, Answer, Calling, Messages, Reader, drain, whole
from scheduler.bus.pending import Exchange, Pending, Piece, Request
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable
from scheduler.wire import messages as wire
from scheduler.wire.codec import encode


class Client:
    """A synchronous client. One thread uses it at a time."""

    def __init__(
        self,
        endpoint: str,
        *,
        lane: str = "default",
        timeout_s: float = 600.0,
        for_ticket: int = 0,
    ) -> None:
        """Connect.

        Args:
            endpoint: The broker's client endpoint.
            lane: Whose work this is.
            timeout_s: How long a request may take in all.
            for_ticket: The ticket whose decision needs what is asked here; 0: none's.
        """
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._pending = Pending()
        self._call = Calling(lane, timeout_s, for_ticket)
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
    ) -> Generator[dict[str, Any], None, None]:
        """Yield an answer's chunks; leaving the loop cancels the rest.

        Raises:
            Refused, BrokerUnreachable: As `chat`.
        """
        reader = Reader()
        body = {"model": model, "messages": messages, **fields, "stream": True}
        with contextlib.closing(self._pieces(*self._call.ask(body, "chat"))) as pieces:
            for piece in pieces:
                chunk = reader.take(piece)
                if chunk is not None:
                    yield chunk

    def pull(self, name: str) -> Generator[tuple[str, int, int | None], None, None]:
        """Have a row, or a class's row, brought to the box; yield what is said of it on the way.

        Leaving early leaves the pull under way.

        Args:
            name: A row or class of the table.

        Yields:
            The row, the bytes of it that are here, and those it has in all, None where that is not known.
            Nothing where it is here already.

        Raises:
            Refused, BrokerUnreachable: As `chat`.
        """
        with contextlib.closing(self._pieces(self._call.pull(name), b"")) as pieces:
            for message, _ in pieces:
                if isinstance(message, wire.Refused):
                    Calling.raise_refused(message)
                if isinstance(message, wire.Note):
                    yield message.model, message.done_bytes, message.total_bytes

    def decide(self, messages: Messages, *, model: str = "auto") -> dict[str, Any]:
        """Return the Decision a request would get; nothing is loaded, bound or run.

        Empty for an explicit model name, which takes no routing.
        """
        reader = Reader()
        body = {"model": model, "messages": messages}
        for piece in self._pieces(*self._call.ask(body, "decide")):
            reader.take(piece)
        decided = whole(reader).route
        return decided or {}

    def status(self) -> dict[str, Any]:
        """Return the broker's view of the box."""
        view: dict[str, Any] = self._query("status")
        return view

    def live(self) -> dict[str, Any]:
        """Return all that is shown of one instant; `gateway/LIVE.md`."""
        view: dict[str, Any] = self._query("live")
        return view

    def models(self) -> dict[str, Any]:
        """Return rows, collections and aliases."""
        view: dict[str, Any] = self._query("models")
        return view

    def queue(self) -> dict[str, Any]:
        """Return who holds each device, who waits for it and how long still, and whose share is what."""
        view: dict[str, Any] = self._query("queue")
        return view

    def story(self, rid: str) -> list[tuple[float, str, str]] | None:
        """Return what happened to a request, or None if it is not known any more."""
        view: list[tuple[float, str, str]] | None = self._query("story", rid)
        return view

    def explain(self, rid: str) -> dict[str, Any]:
        """Return why a request waited and where it landed; `known` is false if it is not known any more."""
        view: dict[str, Any] = self._query("explain", rid)
        return view

    def outside(self) -> dict[str, Any]:
        """Return who holds each device and who waits for it, outside lanes and workers alike."""
        view: dict[str, Any] = self._query("outside")
        return view

    def release(self, hold: str, lease: int) -> bool:
        """End the hold of an outside lane; return whether that lease was good until now."""
        for message, _ in self._pieces(wire.Release(hold, lease), b""):
            if isinstance(message, wire.Final):
                return True
            if isinstance(message, wire.Refused):
                raise BrokerUnreachable
        return False

    def drain(self, *, on: bool = True) -> None:
        """Have the box take no new work, or take it again. A status asked next shows it."""
        self._line.send(encode(wire.Drain(on)), b"")

    def report_exit(self, pid: int) -> None:
        """Tell the broker that a worker process ended."""
        self._line.send(encode(wire.Exited(pid)), b"")

    def cancel(self, rid: str) -> None:
        """Withdraw a request of this client by its id."""
        self._line.send(encode(wire.Cancel(rid)), b"")

    def _answer(
        self, body: dict[str, Any], endpoint: asking.Endpoint, timeout_s: float | None
    ) -> Answer:
        reader = Reader()
        ask, raw = self._call.ask(body, endpoint, timeout_s)
        with contextlib.closing(self._pieces(ask, raw)) as pieces:
            for piece in pieces:
                reader.take(piece)
        return whole(reader)

    def _query(self, what: str, about: str = "") -> Any:
        query = msgspec.convert({"id": uuid.uuid4().hex, "what": what, "about": about}, wire.Query)
        for message, body in self._pieces(query, b""):
            if isinstance(message, wire.Refused):
                raise BrokerUnreachable
            return msgspec.json.decode(body)
        raise BrokerUnreachable

    def _pieces(self, request: Request, body: bytes) -> Generator[Piece, None, None]:
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
        if now - self._hello_at >= HELLO_S:
            self._hello_at = now
            self._line.send(encode(wire.Hello()), b"")
        for late in self._pending.overdue(now):
            self._withdraw(late)
        if self._line.socket.poll(200):
            for exchange in drain(self._line, self._pending):
                self._line.send(encode(exchange.request), exchange.body)
