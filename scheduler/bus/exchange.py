"""What the two clients share: building requests, collecting answers, reading the line."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from scheduler import asking, route
from scheduler.bus.pending import Exchange, Pending, Piece
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable, ProtocolError, Refused
from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.codec import decode

Messages = list[dict[str, Any]]
PULL_S = 86_400.0  # a pull asked for by itself waits this long
HELLO_S = 1.0  # how often the broker is asked whether it is still the same one


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


class Calling:
    """Builds requests: whose they are, and how long each may take."""

    def __init__(self, lane: str, timeout_s: float, for_ticket: int = 0) -> None:
        self._lane = lane
        self._timeout_s = timeout_s
        self._for_ticket = for_ticket

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
        ask = read.message(rid, endpoint, lane=self._lane, batch=False, expires_at=expires_at)
        return msgspec.structs.replace(ask, for_ticket=self._for_ticket), raw

    def pull(self, name: str) -> wire.Ask:
        """Return the request for a row to be on disk; it may take as long as it takes."""
        rid = uuid.uuid4().hex
        return wire.Ask(rid, "pull", name, self._lane, rid, time.monotonic() + PULL_S)

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


class Reader:
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
            Calling.raise_refused(message)
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

    def _route(self, timings: words.Timings | None) -> dict[str, Any] | None:
        if self._placed is None:
            return None
        placed, decided = self._placed
        return route.decision(placed, decided, timings)


def drain(
    line: Line, pending: Pending, heed: Callable[[wire.Message], None] | None = None
) -> list[Exchange]:
    """Read all that waits on a line; return what must be sent again.

    Args:
        line: To the broker.
        pending: What came is handed to the request it belongs to.
        heed: Is shown every message beside.
    """
    again: list[Exchange] = []
    while (received := line.receive()) is not None:
        header, body = received
        try:
            message = decode(header)
        except ProtocolError:
            continue  # a broker of another version; what it means is lost, the time-outs stay
        if heed is not None:
            heed(message)
        if isinstance(message, wire.Here):
            again += pending.here(message.boot, time.monotonic())
        else:
            pending.take(message, body)
    return again


def whole(reader: Reader) -> Answer:
    """Return the answer a reader has collected.

    Raises:
        BrokerUnreachable: There is none: the client was closed before it came.
    """
    if reader.answer is None:
        raise BrokerUnreachable
    return reader.answer
