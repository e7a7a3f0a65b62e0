"""Sockets made the one way this project uses them, and the typed verbs on them.

What ZeroMQ does silently, and what stands against it here:
- a ROUTER drops a message to a peer it does not know: ROUTER_MANDATORY makes that `Unroutable`;
- a ROUTER past its high-water mark drops too: with MANDATORY it is EAGAIN, here `Unroutable` as well;
- two peers under one identity make the second mute: the ROUTER assigns identities, nobody sets one;
- options set after bind or connect are ignored: all are set before, here;
- a DEALER queues while nobody listens: deadlines are in the messages, and the broker drops the expired.

The verbs call pyzmq's compiled socket class directly. `send_multipart` of the Python class costs 8 us
for three frames and the compiled `send` 1.9 us (same machine, same run): its checks of frame types are
not needed for frames that were just encoded. Asking RCVMORE costs 1.9 us a frame, a Frame's own `more`
0.3 us, which is why the last two frames are received as Frames.
"""

import contextlib
import stat
from pathlib import Path
from typing import Final

import zmq
from zmq.backend import Socket as Compiled

from scheduler.errors import BusError, ProtocolError
from scheduler.wire.codec import BODY_MAX

_NOBLOCK: Final = int(zmq.NOBLOCK)
_SNDMORE: Final = int(zmq.NOBLOCK) | int(zmq.SNDMORE)
_HIGH_WATER = 100_000  # messages a peer may leave unread before it counts as gone
_PATH_MAX = 107  # bytes of a unix socket path, sun_path less its final NUL

_recv = Compiled.recv
_send = Compiled.send


class Unroutable(BusError):
    """The peer is gone, or reads nothing any more."""


class Port:
    """A ROUTER whose messages are [route, header, body]."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        """Bind; an ipc endpoint becomes a socket that only this user may open."""
        path = ipc_path(endpoint)  # before there is a socket that would have to be closed
        self.socket = context.socket(zmq.ROUTER)
        _configure(self.socket)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            self.socket.close()
            raise BusError(f"cannot bind {endpoint}: {error.strerror}") from error
        if path is not None:
            path.chmod(stat.S_IRUSR | stat.S_IWUSR)

    def receive(self) -> tuple[bytes, bytes, bytes] | None:
        """Return the next (route, header, body), or None when nothing waits.

        Raises:
            ProtocolError: A message of another number of frames; all of it is taken off the socket.
                Its `route` names the peer.
        """
        socket = self.socket
        try:
            route: bytes = _recv(socket, _NOBLOCK)
        except zmq.Again:
            return None
        header = _recv(socket, _NOBLOCK, False)  # copy: positional in the compiled class
        if not header.more:
            raise _WrongFrames(route, "one frame")
        body = _recv(socket, _NOBLOCK, False)
        if body.more:
            while body.more:
                body = _recv(socket, _NOBLOCK, False)
            raise _WrongFrames(route, "more than two frames")
        return route, header.bytes, body.bytes

    def send(self, route: bytes, header: bytes, body: bytes) -> None:
        """Send one message without waiting.

        Raises:
            Unroutable: Nobody is there, or the peer's queue is full.
        """
        socket = self.socket
        try:
            _send(socket, route, _SNDMORE)
        except zmq.ZMQError as error:
            raise Unroutable(str(error)) from error
        _send(socket, header, _SNDMORE)
        _send(socket, body, _NOBLOCK)

    def close(self) -> None:
        """Close; what was sent has half a second to leave."""
        self.socket.close(linger=500)


class Line:
    """A DEALER to the broker; its messages are [header, body]."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> None:
        """Connect; nobody has to listen yet.

        Raises:
            BusError: The endpoint's path is too long.
        """
        ipc_path(endpoint)
        self.socket = context.socket(zmq.DEALER)
        _configure(self.socket)
        self.socket.connect(endpoint)

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return the next (header, body), or None when nothing waits."""
        socket = self.socket
        try:
            header = _recv(socket, _NOBLOCK, False)
        except zmq.Again:
            return None
        frames = [header]
        while frames[-1].more:
            frames.append(_recv(socket, _NOBLOCK, False))
        if len(frames) != 2:
            return b"", b""
        return header.bytes, frames[1].bytes

    def send(self, header: bytes, body: bytes) -> bool:
        """Send one message without waiting; False when the queue is full or the line is closed."""
        try:
            _send(self.socket, header, _SNDMORE)
        except zmq.ZMQError:
            return False
        _send(self.socket, body, _NOBLOCK)
        return True

    def close(self) -> None:
        """Close; what was sent has half a second to leave."""
        with contextlib.suppress(zmq.ZMQError):
            self.socket.close(linger=500)


class _WrongFrames(ProtocolError):
    """A message of another number of frames."""

    def __init__(self, route: bytes, what: str) -> None:
        super().__init__(f"{what}; a message has a header and a body")
        self.route = route


def ipc_path(endpoint: str) -> Path | None:
    """Return the file of an ipc endpoint, or None for another transport.

    Raises:
        BusError: The path is longer than a unix socket's may be.
    """
    if not endpoint.startswith("ipc://"):
        return None
    path = endpoint.removeprefix("ipc://")
    if len(path.encode()) > _PATH_MAX:
        raise BusError(
            f"the socket path {path} is longer than {_PATH_MAX} bytes; set a shorter run directory"
        )
    return Path(path)


def _configure(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
    socket.setsockopt(zmq.RCVHWM, _HIGH_WATER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, BODY_MAX + 65536)
    socket.setsockopt(zmq.RECONNECT_IVL, 50)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 250)
