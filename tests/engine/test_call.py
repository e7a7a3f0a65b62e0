"""One HTTP request to a server that gives little, takes nothing, or gets what no header may hold."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from workers.upstream.call import Call, CallFailed, Target, get

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


@contextmanager
def served(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[Target]:
    """Listen, and hand each connection to a thread until the block ends."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=hold, args=(listener.accept()[0],), daemon=True).start()

        def hold(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                serve(connection, over)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield Target("127.0.0.1", listener.getsockname()[1])
        finally:
            over.set()


def take_nothing(_connection: socket.socket, over: threading.Event) -> None:
    """Leave the connection open and read nothing."""
    over.wait()


def test_an_answer_that_trickles_is_late_all_the_same() -> None:
    def trickle(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(HEAD)
        while not over.wait(0.02):
            connection.sendall(b"1\r\n \r\n")

    with served(trickle) as target:
        began_at = time.monotonic()
        with pytest.raises(CallFailed, match="no answer within"):
            get(target, "/health", 0.3)
        assert time.monotonic() - began_at < 5.0


def test_a_server_that_takes_nothing_is_silent() -> None:
    class Tired(Exception):
        pass

    def look(silent_s: float) -> None:
        if silent_s > 0.4:
            raise Tired

    with served(take_nothing) as target:
        call = Call(target)
        call.on_silence = look
        try:
            with pytest.raises(Tired):
                call.ask("POST", "/v1/chat/completions", b"x" * 64 * 1024 * 1024)
        finally:
            call.close()


def test_what_no_header_may_hold_is_not_repeated() -> None:
    with served(take_nothing) as target:
        call = Call(target._replace(key="a\nsecret"))
        try:
            with pytest.raises(CallFailed) as failed:
                call.ask("GET", "/")
        finally:
            call.close()
    assert "secret" not in str(failed.value)
