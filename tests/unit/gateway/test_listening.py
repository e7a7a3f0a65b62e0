"""The gateway's port: kept for it, refused where it is another's."""

import socket
from contextlib import closing

import pytest

from scheduler.errors import BusError
from scheduler.gateway.listening import listen, reserve


def test_a_reserved_port_is_the_gateways_alone_and_again_after_each_start() -> None:
    host = "127.0.0.1"
    with closing(reserve(host)) as held:
        port = held.getsockname()[1]
        with socket.socket(held.family) as other, pytest.raises(OSError, match="in use"):
            other.bind((host, port))
        for _ in range(2):
            with (
                closing(listen(host, port)) as listener,
                socket.create_connection((host, port), timeout=10) as client,
            ):
                server, _ = listener.accept()
                with server:
                    server.sendall(b"here")
                    assert client.recv(4) == b"here"


def test_a_port_that_somebody_listens_on_is_refused_with_what_to_set() -> None:
    with closing(reserve("127.0.0.1")) as held:
        port = held.getsockname()[1]
        with closing(listen("127.0.0.1", port)), pytest.raises(BusError, match=r"gateway\.port"):
            listen("127.0.0.1", port)


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(BusError, match=r"cannot listen on 192\.0\.2\.1"):
        reserve("192.0.2.1")
    with pytest.raises(BusError, match=r"cannot listen on 192\.0\.2\.1:8000"):
        listen("192.0.2.1", 8000)
