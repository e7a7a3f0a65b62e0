"""The requests a client has open: what came for each, what to send again, what to give up.

Rules of this file: pure; time is an argument. The sync and the asyncio client are two shells around it.
After a broker's restart a request that has not begun to answer is sent again under the same id, and one
that has begun ends with an error, so each ends exactly once.
"""

from collections import deque
from collections.abc import Callable

from scheduler.wire.messages import (
    Ack,
    Ask,
    Final,
    Message,
    Note,
    Partial,
    Placed,
    Query,
    Refused,
    Release,
    Reply,
    Revoked,
)

ACK_S = 5.0  # a broker that said nothing at all for this long is not there
SILENT_S = 15.0  # a broker that went silent for this long will not come back for what is open
BACKLOG = 20_000  # pieces a reader may leave unread before its request is given up

Arrived = Placed | Note | Partial | Final | Refused | Reply | Revoked
Request = Ask | Query | Release
Piece = tuple[Arrived, bytes]


class Exchange:
    """One open request and what has come for it."""

    __slots__ = ("arrived", "began", "body", "done", "heard", "opened_at", "request", "wake")

    def __init__(self, request: Request, body: bytes, at: float) -> None:
        self.request = request
        self.body = body
        self.opened_at = at
        self.heard = False  # the broker said anything about it
        self.began = False  # part of the answer came
        self.done = False
        self.arrived: deque[Piece] = deque()
        self.wake: Callable[[], None] | None = None  # called whenever `arrived` grew


class Pending:
    """All open requests of one client."""

    def __init__(self) -> None:
        self._open: dict[str, Exchange] = {}
        self._boot: int | None = None
        self._here_at: float | None = None

    def __len__(self) -> int:
        return len(self._open)

    def open(self, request: Request, body: bytes, at: float) -> Exchange:
        """Begin a request."""
        exchange = Exchange(request, body, at)
        self._open[request.id] = exchange
        return exchange

    def drop(self, exchange: Exchange) -> bool:
        """Forget a request; return whether it was still open, so that the broker must be told."""
        exchange.done = True
        return self._open.pop(exchange.request.id, None) is not None

    def take(self, message: Message, body: bytes) -> Exchange | None:
        """Hand a message to its request; return the request, or None if nobody waits for it."""
        if isinstance(message, Ack):
            exchange = self._open.get(message.id)
            if exchange is not None:
                exchange.heard = True
            return None
        if not isinstance(message, Arrived):
            return None
        exchange = self._open.get(message.id)
        if exchange is None:
            return None
        exchange.heard = True
        if isinstance(message, Partial):
            exchange.began = True
        self._deliver(exchange, message, body)
        return exchange

    def here(self, boot: int, at: float) -> list[Exchange]:
        """The broker said which start of it this is; return what must be sent again."""
        restarted = self._boot is not None and boot != self._boot
        self._boot, self._here_at = boot, at
        if not restarted:
            return []
        again: list[Exchange] = []
        for exchange in list(self._open.values()):
            if exchange.began:
                self._give_up(exchange, "broker_restarted", "The broker was restarted.")
            else:
                exchange.opened_at, exchange.heard = at, False
                again.append(exchange)
        return again

    def overdue(self, at: float) -> list[Exchange]:
        """Give up what nobody answers; return what was given up."""
        late = [e for e in self._open.values() if self._is_late(e, at)]
        for exchange in late:
            if len(exchange.arrived) > BACKLOG:
                self._give_up(exchange, "slow_reader", "The reader does not read.")
            elif _is_expired(exchange, at):
                self._give_up(exchange, "deadline_exceeded", "The request's deadline passed.", 504)
            else:
                self._give_up(exchange, "broker_unreachable", "The broker does not answer.")
        return late

    def close(
        self, code: str = "client_closed", message: str = "The client was closed."
    ) -> list[Exchange]:
        """Give up everything, because the client leaves; return what was given up."""
        given_up = list(self._open.values())
        for exchange in given_up:
            self._give_up(exchange, code, message)
        return given_up

    def _is_late(self, exchange: Exchange, at: float) -> bool:
        # silence counts from the request's own start: an idle client says no HELLO and hears nothing
        since = max(exchange.opened_at, self._here_at or 0.0)
        unheard = not exchange.heard and at - exchange.opened_at > ACK_S
        is_silent = unheard or at - since > SILENT_S
        return is_silent or _is_expired(exchange, at) or len(exchange.arrived) > BACKLOG

    def _give_up(self, exchange: Exchange, code: str, message: str, status: int = 503) -> None:
        refused = Refused(
            exchange.request.id, status, code, message, {"retryable": True}, began=exchange.began
        )
        self._deliver(exchange, refused, b"")

    def _deliver(self, exchange: Exchange, message: Arrived, body: bytes) -> None:
        exchange.arrived.append((message, body))
        if isinstance(message, Final | Refused | Reply | Revoked):
            self.drop(exchange)
        if exchange.wake is not None:
            exchange.wake()


def _is_expired(exchange: Exchange, at: float) -> bool:
    return isinstance(exchange.request, Ask) and exchange.request.expires_at <= at
