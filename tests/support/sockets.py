"""Waiting on real sockets: always with a deadline, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

import zmq

from scheduler.bus.sockets import Line, Port
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import Message
from support.wait import PATIENCE_S, seen

T = TypeVar("T")


class Ends:
    """Ports and lines of one test, closed at its end."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._made: list[Port | Line] = []

    def port(self, endpoint: str) -> Port:
        """Bind."""
        port = Port(self.context, endpoint)
        self._made.append(port)
        return port

    def line(self, endpoint: str) -> Line:
        """Connect."""
        line = Line(self.context, endpoint)
        self._made.append(line)
        return line

    def close(self) -> None:
        """Close them all; what was not read is forgotten."""
        for made in self._made:
            made.socket.close(linger=0)
        self.context.destroy(linger=0)


def wait_for(what: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """Return what comes, as soon as it comes."""
    until = time.monotonic() + patience_s
    while True:
        got = seen(what)
        if got is not None:
            return got
        assert time.monotonic() < until, "nothing came"
        time.sleep(0.001)


def receive(end: Line) -> tuple[Message, bytes]:
    """Return the next message at the peer's end."""
    header, body = wait_for(end.receive)
    return decode(header), body


def arrives(port: Port) -> tuple[bytes, Message, bytes]:
    """Return the next message at the broker's end."""
    route, header, body = wait_for(port.receive)
    return route, decode(header), body


def say(line: Line, message: Message, body: bytes = b"") -> None:
    """Send from the peer's end."""
    assert line.send(encode(message), body)


def nothing_comes(what: Callable[[], T | None], for_s: float = 0.1) -> None:
    """Hold that nothing comes for a while."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        assert what() is None
        time.sleep(0.001)
