"""What the fake does with its connection, below any answer's shape."""

import json
import os
import select
import socket
import sys
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler

_TICK_S = 0.005  # how often a client that has left is looked for, as llama-server looks


class Gone(Exception):
    """The client has left."""


class Wire(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        """Say nothing of each request."""

    def work(self, seconds: float) -> None:
        """Compute for so long, as long as the client is there."""
        ends_at = time.monotonic() + seconds
        while (left_s := ends_at - time.monotonic()) > 0:
            if self.client_left(min(left_s, _TICK_S)):
                raise Gone

    def client_left(self, wait_s: float) -> bool:
        """Return whether the client has closed its side, after waiting so long for that."""
        ready, _, _ = select.select([self.connection], [], [], wait_s)
        if not ready:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def wait_for_the_client(self) -> None:
        """Do nothing until the client leaves."""
        while not self.client_left(1.0):
            pass
        raise Gone

    def reply(self, status: int, told: object, play: str = "") -> None:
        """Answer with JSON."""
        raw = json.dumps(told).encode()
        if play == "huge-reply":
            raw = raw[:-1] + b', "x": "' + b"x" * 128 * 1024 * 1024 + b'"}'
        self.send(status, "application/json; charset=utf-8", raw)

    def send(self, status: int, kind: str, raw: bytes) -> None:
        """Answer with bytes."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def begin(self, kind: str) -> None:
        """Begin a reply that comes in chunks."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, raw: bytes) -> None:
        """Send a chunk; an empty one ends the reply."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))


def say(lines: Iterable[str]) -> None:
    """Say something on stderr."""
    for line in lines:
        sys.stderr.write(f"[fake] {line}\n")
    sys.stderr.flush()


def die() -> None:
    """End as a server does that fails."""
    say(["GGML_ASSERT failed: the fake dies now"])
    os._exit(3)
