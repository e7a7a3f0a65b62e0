"""What ZeroMQ does in silence, on real sockets, and what stands against it."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.bus.sockets import Port, Unroutable, ipc_path
from scheduler.errors import BusError, ProtocolError
from scheduler.wire import messages as wire
from scheduler.wire.codec import BODY_MAX, encode
from support.sockets import Ends, arrives, nothing_comes, receive, say, wait_for

ACK = encode(wire.Ack("r"))


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@pytest.fixture(params=["ipc", "inproc"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/s" if request.param == "ipc" else "inproc://s"


def is_sent(port: Port, route: bytes) -> bool:
    """Send something; return whether it could be."""
    try:
        port.send(route, ACK, b"")
    except Unroutable:
        return False
    return True


def test_messages_go_both_ways_with_their_bodies(ends: Ends, endpoint: str) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Cancel("r"), b"body")
    route, message, body = arrives(port)
    assert (message, body) == (wire.Cancel("r"), b"body")
    port.send(route, ACK, b"reply")
    assert receive(line) == (wire.Ack("r"), b"reply")


def test_nothing_waits_on_a_quiet_socket(ends: Ends, endpoint: str) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    assert port.receive() is None
    assert line.receive() is None


def test_an_empty_body_is_a_body(ends: Ends, endpoint: str) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello())
    assert arrives(port)[2] == b""


def test_the_router_names_its_peers_so_no_two_share_a_name(ends: Ends, endpoint: str) -> None:
    port = ends.port(endpoint)
    lines = [ends.line(endpoint) for _ in range(5)]
    for number, line in enumerate(lines):
        say(line, wire.Cancel(f"r{number}"))
    routes = {arrives(port)[0] for _ in lines}
    assert len(routes) == 5
    for route in routes:
        port.send(route, ACK, b"")
    assert [receive(line)[0] for line in lines] == [wire.Ack("r")] * 5


def test_a_message_to_a_peer_that_never_was_is_unroutable(ends: Ends, endpoint: str) -> None:
    with pytest.raises(Unroutable):
        ends.port(endpoint).send(b"ghost", ACK, b"")


def test_a_message_to_a_peer_that_left_is_unroutable(ends: Ends, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello())
    route = arrives(port)[0]
    line.close()
    assert wait_for(lambda: None if is_sent(port, route) else True)


def test_after_an_unroutable_message_the_next_one_is_whole(ends: Ends, endpoint: str) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello())
    route = arrives(port)[0]
    with pytest.raises(Unroutable):
        port.send(b"ghost", encode(wire.Ack("lost")), b"lost")
    port.send(route, ACK, b"mine")
    assert receive(line) == (wire.Ack("r"), b"mine")


def test_a_peer_that_reads_nothing_becomes_unroutable_and_loses_no_message_before(
    ends: Ends,
) -> None:
    port, line = ends.port("inproc://s"), ends.line("inproc://s")
    say(line, wire.Hello())
    route = arrives(port)[0]
    sent = 0
    while is_sent(port, route):
        sent += 1
        assert sent < 1_000_000
    got = 0
    while line.receive() is not None:
        got += 1
    assert got == sent


def test_more_than_a_thousand_messages_in_flight_all_arrive(ends: Ends, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello())
    route = arrives(port)[0]
    for number in range(20_000):
        port.send(route, ACK, b"%d" % number)
    assert [receive(line)[1] for _ in range(20_000)] == [b"%d" % n for n in range(20_000)]


def test_a_line_waits_for_a_broker_that_is_not_there_yet(ends: Ends, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    line = ends.line(endpoint)
    say(line, wire.Ask("r", "chat", "M", "lane", "k", 5.0))
    _, message, _ = arrives(ends.port(endpoint))
    assert isinstance(message, wire.Ask)
    assert message.expires_at == 5.0  # so that the broker can tell that it came too late


def test_a_line_finds_a_broker_that_was_started_again(ends: Ends, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    line, first = ends.line(endpoint), ends.port(endpoint)
    say(line, wire.Hello())
    arrives(first)
    first.close()
    second = ends.port(endpoint)

    def found() -> bool | None:
        line.send(encode(wire.Hello()), b"")
        return True if second.receive() is not None else None

    assert wait_for(found)


@pytest.mark.parametrize("frames", [1, 3, 4, 50])
def test_a_wrong_number_of_frames_is_a_fault_of_the_peer_and_the_next_message_is_whole(
    ends: Ends, endpoint: str, frames: int
) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    line.socket.send_multipart([b"x"] * frames)
    say(line, wire.Cancel("r"))
    with pytest.raises(ProtocolError, match="frame") as caught:
        wait_for(port.receive)
    assert isinstance(getattr(caught.value, "route", None), bytes)
    assert arrives(port)[1] == wire.Cancel("r")


@pytest.mark.parametrize("frames", [1, 3, 50])
def test_a_wrong_number_of_frames_from_the_broker_is_no_message(
    ends: Ends, endpoint: str, frames: int
) -> None:
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello())
    route = arrives(port)[0]
    port.socket.send_multipart([route, *[b"x"] * frames])
    port.send(route, ACK, b"")
    assert wait_for(line.receive) == (b"", b"")
    assert receive(line)[0] == wire.Ack("r")


def test_the_longest_body_passes(ends: Ends, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    port, line = ends.port(endpoint), ends.line(endpoint)
    say(line, wire.Hello(), bytes(BODY_MAX))
    assert len(arrives(port)[2]) == BODY_MAX


def test_a_longer_frame_never_arrives_and_the_others_are_served_on(
    ends: Ends, tmp_path: Path
) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    port, greedy, other = ends.port(endpoint), ends.line(endpoint), ends.line(endpoint)
    say(greedy, wire.Hello(), bytes(BODY_MAX + 65537))
    nothing_comes(port.receive, 0.3)
    say(other, wire.Cancel("r"))
    assert arrives(port)[1] == wire.Cancel("r")


def test_only_the_boxs_user_may_open_the_socket(ends: Ends, tmp_path: Path) -> None:
    path = tmp_path / "run" / "clients.sock"
    ends.port(f"ipc://{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_path_too_long_for_a_socket_is_refused_with_the_remedy(ends: Ends) -> None:
    endpoint = "ipc:///" + "x" * 107
    for make in (ends.port, ends.line):
        with pytest.raises(BusError, match="longer than 107 bytes; set a shorter run directory"):
            make(endpoint)


def test_the_longest_path_is_accepted(ends: Ends, tmp_path: Path) -> None:
    path = f"{tmp_path}/".ljust(107, "x")
    assert ipc_path(f"ipc://{path}") == Path(path)
    port, line = ends.port(f"ipc://{path}"), ends.line(f"ipc://{path}")
    say(line, wire.Hello())
    assert arrives(port)[1] == wire.Hello()


def test_another_transport_has_no_path() -> None:
    assert ipc_path("inproc://s") is None
    assert ipc_path("tcp://127.0.0.1:1") is None


def test_a_taken_endpoint_is_refused(ends: Ends) -> None:
    ends.port("inproc://s")
    with pytest.raises(BusError, match="cannot bind inproc://s"):
        ends.port("inproc://s")


def test_a_line_that_nobody_reads_says_so_instead_of_blocking(ends: Ends) -> None:
    line = ends.line("inproc://nobody")
    sent = 0
    while line.send(ACK, b""):
        sent += 1
        assert sent < 1_000_000
    assert not line.send(ACK, b"")
    line.close()
    line.close()  # twice is no fault
