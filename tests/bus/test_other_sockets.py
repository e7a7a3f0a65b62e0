"""Two more things ZeroMQ does in silence: a SUB that loses, and a security mismatch that says nothing."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

import scheduler
from scheduler.wire import messages as wire
from scheduler.wire.codec import encode
from support.sockets import Ends, arrives, nothing_comes

ROOT = Path(scheduler.__file__).resolve().parents[1]
MADE = re.compile(r"\.socket\(\s*zmq\.(\w+)")


def test_only_sockets_are_made_that_tell_when_they_would_lose() -> None:
    made = {
        kind
        for room in ("ops", "policies", "scheduler", "workers")
        for file in (ROOT / room).rglob("*.py")
        for kind in MADE.findall(file.read_text())
    }
    assert made == {
        "ROUTER",
        "DEALER",
    }  # a slow SUB, or a full PUSH of no peer, loses without a word


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def test_a_peer_that_speaks_curve_is_not_heard_and_the_others_are_served_on(
    ends: Ends, tmp_path: Path
) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    port = ends.port(endpoint)
    public, secret = zmq.curve_keypair()
    with zmq.Context() as context, context.socket(zmq.DEALER) as stranger:
        stranger.setsockopt(zmq.LINGER, 0)
        stranger.curve_publickey, stranger.curve_secretkey = public, secret
        stranger.curve_serverkey = public  # the broker has no such key
        stranger.connect(endpoint)
        stranger.send_multipart([encode(wire.Hello()), b"from the stranger"])  # no error, as ever
        ends.line(endpoint).send(encode(wire.Hello()), b"from a friend")
        assert arrives(port)[2] == b"from a friend"
        nothing_comes(port.receive)
