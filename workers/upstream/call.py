"""One HTTP request to an engine, which another thread may end at any moment.

HTTP/1.1 is h11's; the socket is ours, so that closing it ends the wait at once, and a long silence can be
looked at without ending anything.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

CONNECT_S = 5.0  # to a server on this machine
_TICK_S = 0.25  # how often a silence is looked at
_CHUNK = 64 * 1024


class CallFailed(Exception):
    """The server cannot be reached, went away, or speaks no HTTP; the text says which."""


class CallEnded(Exception):
    """`end` was called."""


class Target(NamedTuple):
    """Where a server is."""

    host: str
    port: int
    path: str = ""  # what all its paths begin with
    is_tls: bool = False
    key: str = ""  # of its API; empty: none

    def __str__(self) -> str:
        """Return its address."""
        return f"http{'s' if self.is_tls else ''}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Its host and port as a URL has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def target_of(url: str, key: str = "") -> Target:
    """Return where a URL leads; one that ends in `/v1`, as OpenAI's clients have it, is that without.

    Raises:
        ValueError: It is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{url} is no http address")
    is_tls = parts.scheme == "https"
    port = parts.port or (443 if is_tls else 80)
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return Target(parts.hostname, port, path, is_tls, key)


class Reply(NamedTuple):
    """The head of a reply."""

    status: int
    kind: str  # of its content, without parameters, lower case


class Call:
    """One request. Belongs to the thread that makes it; `end` is for any."""

    def __init__(self, target: Target) -> None:
        """Remember whom to ask."""
        self._target = target
        self._http = h11.Connection(our_role=h11.CLIENT)
        self._socket: socket.socket | None = None
        self._ended = False
        self._is_over = False  # the server has closed its side
        self._lock = threading.Lock()
        self.on_silence: Callable[[float], None] | None = None  # told how long it lasts; may raise

    def end(self) -> None:
        """End it now, from any thread; also before it began, and after it ended."""
        with self._lock:
            self._ended = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the connection; by the thread that made it."""
        with self._lock:
            self._ended = True
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        more: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        """Send the request and return the head of the reply.

        Args:
            method: Of the request.
            path: Below the target's.
            body: JSON; empty: none.
            more: Further headers.

        Raises:
            CallFailed: There is none.
            CallEnded: It was ended.
        """
        target = self._target
        self._connect()
        headers = [("host", target.authority), ("connection", "close")]
        if body:
            headers += [("content-type", "application/json"), ("content-length", str(len(body)))]
        if target.key:
            headers.append(("authorization", f"Bearer {target.key}"))
        headers += more
        try:
            request = h11.Request(method=method, target=target.path + path, headers=headers)
        except h11.LocalProtocolError:  # its text quotes what does not fit, a key among it
            raise CallFailed("a header of the request holds what no header may") from None
        self._send(self._http.send(request) or b"")
        if body:
            self._send(self._http.send(h11.Data(data=body)) or b"")
        self._send(self._http.send(h11.EndOfMessage()) or b"")
        event = self._next()
        while isinstance(event, h11.InformationalResponse):
            event = self._next()
        if not isinstance(event, h11.Response):
            raise CallFailed("it closed the connection without an answer")
        named = dict(event.headers.raw_items())
        kind = next((v for k, v in named.items() if k.lower() == b"content-type"), b"")
        return Reply(event.status_code, kind.decode("latin-1").partition(";")[0].strip().lower())

    def read(self) -> bytes | None:
        """Return the next bytes of the reply's body, or None at its end.

        Raises:
            CallFailed: It broke off.
            CallEnded: It was ended.
        """
        event = self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def read_all(self, longest: int, on_part: Callable[[], None] = lambda: None) -> bytes:
        """Return the reply's whole body.

        Args:
            longest: Bytes that it may have.
            on_part: Called after each part that comes; may raise.

        Raises:
            CallFailed: It broke off, or is longer than `longest` bytes.
            CallEnded: It was ended.
        """
        parts: list[bytes] = []
        size = 0
        while (part := self.read()) is not None:
            parts.append(part)
            size += len(part)
            on_part()
            if size > longest:
                raise CallFailed(f"its reply is longer than {longest} bytes")
        return b"".join(parts)

    def _connect(self) -> None:
        target = self._target
        try:
            made = socket.create_connection((target.host, target.port), timeout=CONNECT_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if target.is_tls:
                made = ssl.create_default_context().wrap_socket(made, server_hostname=target.host)
        except OSError as error:
            raise CallFailed(f"no connection: {error.strerror or error}") from error
        made.settimeout(_TICK_S)
        with self._lock:
            self._socket = made
            if self._ended:
                made.shutdown(socket.SHUT_RDWR)

    def _send(self, data: bytes) -> None:
        left, moved_at = memoryview(data), time.monotonic()
        while left:
            try:
                left = left[self._open().send(left) :]
                moved_at = time.monotonic()
            except TimeoutError:
                if self.on_silence is not None:
                    self.on_silence(time.monotonic() - moved_at)
            except OSError as error:
                # it may have answered before it closed: a refusal is read, not lost
                if self._ended or not isinstance(error, ConnectionError):
                    raise self._lost(error) from error
                return

    def _next(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                if self._ended:
                    raise CallEnded from error
                said = "it closed the connection before its answer was complete"
                raise CallFailed(said if self._is_over else str(error)) from error
            if event is h11.NEED_DATA:
                data = self._receive()
                self._is_over = not data
                self._http.receive_data(data)
            elif isinstance(event, h11.ConnectionClosed):
                raise CallFailed("it closed the connection without an answer")
            else:
                return event  # type: ignore[return-value]  # what is left

    def _receive(self) -> bytes:
        silent_since = time.monotonic()
        while True:
            try:
                data = self._open().recv(_CHUNK)
            except TimeoutError:
                if self.on_silence is not None:
                    self.on_silence(time.monotonic() - silent_since)
                continue
            except OSError as error:
                raise self._lost(error) from error
            if self._ended:
                raise CallEnded
            return data

    def _open(self) -> socket.socket:
        if self._socket is None or self._ended:
            raise CallEnded
        return self._socket

    def _lost(self, error: OSError) -> Exception:
        if self._ended:
            return CallEnded()
        return CallFailed(f"the connection broke: {error.strerror or error}")


def get(
    target: Target, path: str, timeout_s: float, longest: int = 1024 * 1024
) -> tuple[int, bytes]:
    """Return status and body of a GET.

    Raises:
        CallFailed: There is none within `timeout_s`.
    """
    call = Call(target)
    began_at = time.monotonic()

    def look(_silent_s: float = 0.0) -> None:
        if time.monotonic() - began_at > timeout_s:
            raise CallFailed(f"no answer within {timeout_s:g} s")

    call.on_silence = look
    try:
        reply = call.ask("GET", path)
        return reply.status, call.read_all(longest, look)  # it may trickle for ever
    finally:
        call.close()
