"""One answer on its way to an HTTP client: whole or streamed, with the decision on it.

A client that leaves is noticed in every stage, streamed or not, and its ticket is cancelled at once.
A stream's status waits until its prompt is accepted or its place in the queue is known, it is refused, or
2 s have passed, so that what can be refused is refused with a status, not inside a 200.
A whole answer that is long in coming sends its status first and white space then, which JSON allows, because
proxies and clients give up on a silent connection.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
from starlette.types import Receive, Scope, Send

from scheduler import route
from scheduler.bus.aioclient import Flow
from scheduler.bus.pending import Piece
from scheduler.gateway.doors import Door
from scheduler.gateway.shapes import refusal
from scheduler.wire import messages as wire
from scheduler.wire import words

HOLD_S = 2.0  # a stream's headers leave after this long at the latest
PING_S = 1.0  # a silent stream says it is alive this often
_JSON = (b"content-type", b"application/json")


class ClientGone(Exception):
    """The HTTP client left before its answer was complete."""


class Answer:
    """An ASGI response made of what comes for one request."""

    def __init__(
        self, flow: Flow, door: Door, *, routed: bool, stream: bool, waits: tuple[float, float]
    ) -> None:
        """Remember what to send.

        Args:
            flow: What comes for the request.
            door: Where it was asked.
            routed: Whether the name means a router collection, so that a decision is due.
            stream: Whether the client asked for a stream.
            waits: Seconds after which a whole answer's status leaves before it, and from one white space
                to the next; 0: never.
        """
        self._flow = flow
        self._door = door
        self._waits = waits
        self._routed = routed
        self._stream = stream
        self._placed: wire.Placed | None = None
        self._decided = b""
        self._noted: wire.Note | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; cancel the ticket if the client leaves first."""
        with self._flow:
            gone = asyncio.ensure_future(_gone(receive))
            sending = asyncio.ensure_future(self._send(send))
            try:
                await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                for task in (gone, sending):
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ClientGone, OSError):
                    await sending

    async def _send(self, send: Send) -> None:
        if self._stream:
            await self._send_stream(send)
        else:
            await self._send_whole(send)

    async def _send_whole(self, send: Send) -> None:
        pause_s, has_begun = self._waits[0], False
        while True:
            try:
                async with asyncio.timeout(pause_s or None):
                    piece = await self._next_of_whole()
            except TimeoutError:
                if not has_begun:  # its row may still be pulled, loaded, or stood in for
                    await self._start(send, 200, _JSON, None, pending=True)
                pause_s, has_begun = self._waits[1], True
                await send(_body(b" ", more=True))
                continue
            if piece is None:
                return
            message, body = piece
            if has_begun:
                await send(_body(self._late(message, body)))
            elif isinstance(message, wire.Refused):
                await self._refuse(send, message)
            elif isinstance(message, wire.Final):
                whole = self._whole(message, body)
                await self._start(send, 200, _JSON, len(whole))
                await send(_body(whole))

    async def _next_of_whole(self) -> Piece | None:
        """Return what ends the answer; on the way it is seen where the request was placed."""
        async for message, body in self._flow:
            if isinstance(message, wire.Placed):
                self._placed, self._decided = message, body
            elif isinstance(message, wire.Refused | wire.Final):
                return message, body
        return None

    def _late(self, message: object, body: bytes) -> bytes:
        """Return the end of an answer whose status has left as 200: an error can only say so itself."""
        if isinstance(message, wire.Refused):
            return self._door.refusal(message)
        return self._whole(message, body) if isinstance(message, wire.Final) else body

    def _whole(self, message: wire.Final, body: bytes) -> bytes:
        """Return the body of an answer that is not streamed."""
        return self._with_route(body, message.timings)

    def _standing(self, note: wire.Note) -> bytes:
        """Return what a stream says of where its request stands."""
        return comment(note)

    async def _send_stream(self, send: Send) -> None:
        first = await self._hold()
        if first is not None and isinstance(first[0], wire.Refused):
            await self._refuse(send, first[0])
            return
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        await self._start(send, 200, kind, None, pending=self._routed and not _is_final(first))
        if first is None and self._noted is not None:  # what was heard while the headers were held
            await send(_body(self._standing(self._noted), more=True))
        async for event in self._events(first):
            await send(_body(event, more=True))
        await send(_body(b""))

    async def _hold(self) -> Piece | None:
        """Return the first piece that decides the status, or None after 2 s."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                async for piece in self._flow:
                    message, body = piece
                    if isinstance(message, wire.Placed):
                        self._placed, self._decided = message, body
                    elif isinstance(message, wire.Note) and self._leaves_open(message.stage):
                        self._noted = message
                    else:
                        return piece
        return None

    def _leaves_open(self, stage: str) -> bool:
        """Return whether a stage says nothing yet of who answers, and with which status."""
        # A row that is pulled may not come, and a model being loaded may not fit the prompt. A prompt that is
        # read where the rule sent it is read again on the GPU if the NPU is lost, and then the header would
        # have named the wrong one. And where the placement itself is open, its place in this queue may not be
        # its last.
        if self._placed is not None and self._placed.is_open:
            return True
        return stage in {"pull", "load"} or (stage == "prefill" and route.may_return(self._placed))

    async def _events(self, first: Piece | None) -> AsyncIterator[bytes]:
        """Yield SSE events and comments; an error inside ends the stream without [DONE]."""
        piece = first
        is_first_data = True
        while True:
            if piece is None:
                try:
                    async with asyncio.timeout(PING_S):
                        piece = await self._flow.next()
                except TimeoutError:
                    yield b": ping\n\n"
                    continue
                if piece is None:
                    return
            message, body = piece
            piece = None
            if isinstance(message, wire.Placed):
                self._placed, self._decided = message, body
            elif isinstance(message, wire.Note):
                yield self._standing(message)
            elif isinstance(message, wire.Partial):
                data = self._with_route(body, message.timings) if is_first_data else body
                is_first_data = False
                yield self._door.event(data)
            elif isinstance(message, wire.Refused):
                yield self._door.broken(message)
                return
            elif isinstance(message, wire.Final):
                yield self._door.ending
                return

    async def _refuse(self, send: Send, message: wire.Refused) -> None:
        status, _, headers = refusal(message)
        body = self._door.refusal(message)
        extra = [(k.encode(), v.encode()) for k, v in headers.items()]
        await self._start(send, status, _JSON, len(body), extra=extra, answered=False)
        await send(_body(body))

    async def _start(
        self,
        send: Send,
        status: int,
        kind: tuple[bytes, bytes],
        length: int | None,
        *,
        extra: list[tuple[bytes, bytes]] | None = None,
        pending: bool = False,
        answered: bool = True,
    ) -> None:
        headers = [kind, *(extra or [])]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        else:
            headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        if self._routed and answered:
            value = route.header(self._placed, pending=pending)
            headers.append((route.HEADER.encode(), value.encode("latin-1", "replace")))
        await send({"type": "http.response.start", "status": status, "headers": headers})

    def _with_route(self, body: bytes, timings: words.Timings | None) -> bytes:
        """Return a JSON object with the decision added, its other bytes untouched."""
        if self._placed is None or not (body.startswith(b"{") and body.endswith(b"}")):
            return body
        decided = msgspec.json.encode(route.decision(self._placed, self._decided, timings))
        comma = b"," if body[1:-1].strip() else b""
        return body[:-1] + comma + b'"' + route.FIELD.encode() + b'":' + decided + b"}"


def _is_final(first: Piece | None) -> bool:
    """Return whether nothing can change the placement any more: the row is loaded and works."""
    if first is None:
        return False
    message = first[0]
    return not isinstance(message, wire.Note) or message.stage == "prefill"


def comment(note: wire.Note) -> bytes:
    """Return the SSE comment that tells where a request stands."""
    if note.stage == "queue":
        eta = "?" if note.eta_s is None else f"{note.eta_s:.0f}"
        return b": queue %d %s\n\n" % (note.position, eta.encode())
    if note.stage == "pull":
        share = "?" if not note.total_bytes else f"{100 * note.done_bytes // note.total_bytes}"
        return b": pull %s\n\n" % share.encode()
    return b": %s\n\n" % note.stage.encode()


async def _gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


def _body(content: bytes, *, more: bool = False) -> dict[str, object]:
    return {"type": "http.response.body", "body": content, "more_body": more}
