"""Random and hostile bytes on either socket while requests run: refused and counted, never a crash."""

import json
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import psutil
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.wire import messages as wire
from scheduler.wire.codec import encode
from support.box import Box
from support.http import CHAT, ROW, Stream, call, chat, counting
from support.wait import until

SIDES = ("clients", "workers")
CLIENT_VERBS, WORKER_VERBS = range(0x10, 0x15), range(0x40, 0x48)
PROPERTY = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


class Peer:
    """A stranger on one of the broker's sockets, watched through another client."""

    def __init__(self, box: Box, side: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 500)
        self.socket.connect(getattr(box, side))
        self._bus = box.bus()

    def close(self) -> None:
        self.socket.close()
        self._context.term()
        self._bus.close()

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def bad(self) -> int:
        """Return how many bad messages the broker has counted."""
        return int(self._bus.status()["bad_messages"])

    def assert_refused(self, *frames: bytes) -> None:
        """Send one message and see that it is counted, once."""
        before = self.bad()
        self.send(*frames)
        until(lambda: self.bad() > before, "a counted message")
        assert self.bad() == before + 1


class Crowd:
    """A client that asks again and again, whatever happens beside it."""

    def __init__(self, box: Box) -> None:
        self.failed: list[object] = []
        self.answered = 0
        self._box = box
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                reply = call(self._box.url, CHAT, chat())
            except OSError as error:
                self.failed.append(error)
                return
            if reply.status == 200:
                self.answered += 1
            else:
                self.failed.append(reply)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture(scope="module")
def busy() -> Iterator[tuple[Box, Crowd]]:
    """A box that is asked all the time."""
    with Box(workers__engine="null") as box:
        crowd = Crowd(box)
        yield box, crowd
        crowd.end()


@pytest.fixture
def peer(busy: tuple[Box, Crowd]) -> Iterator[Callable[[str], Peer]]:
    """Connect strangers; afterwards every process is the one it was and nobody was failed."""
    box, crowd = busy
    pids, answered = box.pids(), crowd.answered
    peers: list[Peer] = []

    def connect(side: str) -> Peer:
        peers.append(Peer(box, side))
        return peers[-1]

    yield connect
    for one in peers:
        one.close()
    until(lambda: crowd.answered > answered + 1 or crowd.failed, "a further answer")
    assert crowd.failed == []
    assert box.pids() == pids


def header(verb: int, fields: object, *, version: int = 1) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return b"FL" + bytes([version, verb]) + packed


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._file),)


ASK = {"id": "x", "op": "chat", "name": ROW, "lane": "l", "conversation": "c", "expires_at": 1e8}
READY = {
    "name": "hrx0", "kind": "hrx", "device": "hrx0", "pid": 1, "pid_started": 1.0, "nonce": "n",
    "seats": 1, "backend": "b",
}  # fmt: skip
DEEP = b"\x91" * 10_000 + b"\xc0"
CLIENT_NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "magic alone": b"FL",
    "no verb": b"FL\x01",
    "no fields": b"FL\x01\x10",
    "version 0": header(0x13, {}, version=0),
    "version 2": header(0x13, {}, version=2),
    "unknown verb": header(0x7F, {}),
    "deep msgpack, hot verb": b"FL\x01\x10" + DEEP,
    "deep msgpack, cold verb": b"FL\x01\x12" + DEEP,
    "deep msgpack in an unknown field": b"FL\x01\x10\x81\xa1z" + DEEP,
    "a list for a map": header(0x10, list(ASK.values())),
    "trailing bytes": header(0x13, {}) + b"\x00",
    "an id of a number": header(0x10, {**ASK, "id": 7}),
    "an empty id": header(0x10, {**ASK, "id": ""}),
    "a long id": header(0x10, {**ASK, "id": "i" * 129}),
    "an unknown op": header(0x10, {**ASK, "op": "sing"}),
    "expires in nothing": header(0x10, {**ASK, "expires_at": None}),
    "expires never": header(0x10, {**ASK, "expires_at": float("nan")}),
    "expires in infinity": header(0x10, {**ASK, "expires_at": float("inf")}),
    "negative tokens": header(0x10, {**ASK, "max_tokens": -1}),
    "tokens past 64 bits": header(0x10, {**ASK, "max_tokens": 2**64 - 1}),
    "truth of a string": header(0x10, {**ASK, "stream": "yes"}),
    "a name that is no UTF-8": b"FL\x01\x11\x81\xa2id\xa2\xff\xfe",
    "a missing field": header(0x10, {"id": "x"}),
    "an unknown view": header(0x12, {"id": "q", "what": "secrets"}),
    "a map with keys of maps": b"FL\x01\x12\x81\x80\x80",
    "a map that claims 4 G entries": b"FL\x01\x12\xdf\xff\xff\xff\xff",
    "a string that claims 4 GB": b"FL\x01\x10\x81\xdb\xff\xff\xff\xff",
    "a header of 1 MB": b"FL\x01\x12" + b"\xc0" * 2**20,
    "a negative pid": header(0x14, {"pid": -1}),
    "HTTP": b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
}
WORKER_NONSENSE: dict[str, bytes] = {
    "an unknown kind": header(0x40, {**READY, "kind": "tpu"}),
    "no seats": header(0x40, {**READY, "seats": 0}),
    "a million seats": header(0x40, {**READY, "seats": 10**6}),
    "a status of success": header(
        0x46, {"epoch": 1, "ticket": 1, "lease": 1, "status": 200, "code": "", "message": ""}
    ),
    "facts that nest": header(
        0x46,
        {
            "epoch": 1,
            "ticket": 1,
            "lease": 1,
            "status": 500,
            "code": "",
            "message": "",
            "facts": {"a": []},
        },
    ),
    "a thousand resident models": header(0x41, {"epoch": 1, "resident": ["m"] * 1000}),
    "an unknown stage": header(0x43, {"epoch": 1, "ticket": 1, "lease": 1, "stage": "coffee"}),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("what", CLIENT_NONSENSE)
def test_nonsense_is_refused_and_counted(peer: Callable[[str], Peer], side: str, what: str) -> None:
    peer(side).assert_refused(CLIENT_NONSENSE[what], b"{}")


@pytest.mark.parametrize("what", WORKER_NONSENSE)
def test_a_workers_nonsense_is_refused_and_counted(peer: Callable[[str], Peer], what: str) -> None:
    peer("workers").assert_refused(WORKER_NONSENSE[what], b"{}")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("number", [1, 3, 5, 100])
def test_a_message_of_another_number_of_frames_is_refused(
    peer: Callable[[str], Peer], side: str, number: int
) -> None:
    peer(side).assert_refused(*[encode(wire.Hello())] * number)


@pytest.mark.parametrize("verb", WORKER_VERBS)
def test_a_workers_verb_on_the_clients_socket_is_refused(
    peer: Callable[[str], Peer], verb: int
) -> None:
    samples = {
        0x40: READY, 0x41: {"epoch": 1}, 0x47: {"epoch": 1},
        0x42: {"epoch": 1, "ticket": 1, "rule": "r", "model": ROW},
        0x43: {"epoch": 1, "ticket": 1, "lease": 1, "stage": "load"},
        0x44: {"epoch": 1, "ticket": 1, "lease": 1, "seq": 1},
        0x45: {"epoch": 1, "ticket": 1, "lease": 1},
        0x46: {"epoch": 1, "ticket": 1, "lease": 1, "status": 500, "code": "", "message": ""},
    }  # fmt: skip
    peer("clients").assert_refused(header(verb, samples[verb]), b"")


@pytest.mark.parametrize(
    "message",
    [wire.Ask("x", "chat", ROW, "l", "c", 1e8), wire.Cancel("x"), wire.Query("q", "status"),
     wire.Hello(), wire.Exited(1), wire.Ack("x"), wire.Stop(1, 1), wire.Here(1)],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_clients_verb_on_the_workers_socket_is_refused(
    peer: Callable[[str], Peer], message: wire.Message
) -> None:
    peer("workers").assert_refused(encode(message), b"")


@pytest.mark.parametrize("side", SIDES)
def test_a_pickle_is_not_unpickled(peer: Callable[[str], Peer], side: str, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "exploded"))
    peer(side).assert_refused(bomb, bomb)
    peer(side).assert_refused(b"FL\x01\x10" + bomb, bomb)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("side", SIDES)
def test_a_huge_frame_costs_the_broker_no_memory(
    busy: tuple[Box, Crowd], peer: Callable[[str], Peer], side: str
) -> None:
    broker = busy[0].processes()["broker"]
    before = broker.memory_info().rss
    stranger = peer(side)
    for _ in range(5):
        stranger.send(encode(wire.Hello()), bytes(64 * 2**20))
    peer(side).assert_refused(b"after", b"it")
    assert broker.memory_info().rss - before < 40 * 2**20


@PROPERTY
@given(
    frames=st.lists(st.binary(max_size=200), min_size=1, max_size=5), side=st.sampled_from(SIDES)
)
def test_random_frames_are_refused_and_counted(
    peer: Callable[[str], Peer], frames: list[bytes], side: str
) -> None:
    with closing(peer(side)) as stranger:
        stranger.assert_refused(*frames)


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
names = st.sampled_from([
    "id", "op", "name", "lane", "conversation", "expires_at", "what", "about", "epoch", "ticket",
    "lease", "seq", "stage", "status", "code", "message", "facts", "resident", "kind", "device",
    "seats", "nonce", "backend", "rule", "model", "confidence", "load_s",
])  # fmt: skip


@PROPERTY
@given(
    verb=st.sampled_from([0x10, 0x11, 0x12, 0x13, *WORKER_VERBS]),
    fields=st.dictionaries(names, scalars | st.lists(scalars, max_size=3), max_size=9),
    side=st.sampled_from(SIDES),
)
def test_a_known_verb_with_any_fields_is_survived(
    peer: Callable[[str], Peer], verb: int, fields: dict[str, object], side: str
) -> None:
    with closing(peer(side)) as stranger:
        stranger.send(header(verb, fields), b"{}")
        assert stranger.bad() >= 0  # the broker answers behind it


@contextmanager
def closing(stranger: Peer) -> Iterator[Peer]:
    """Each example gets sockets of its own, so that one cannot shield the next."""
    yield stranger
    stranger.socket.setsockopt(zmq.LINGER, 500)


BAD_BODIES: Sequence[bytes] = (b"", b"not json", b"{}", b"[]", b'{"messages":["x"]}', b"[" * 50_000)


@pytest.mark.parametrize("name", ["auto", ROW])
@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:20]))
def test_a_request_whose_body_is_nonsense_kills_no_worker(
    new_request: Callable[[str, bytes], wire.Message], name: str, body: bytes
) -> None:
    ended = new_request(name, body)
    assert isinstance(ended, wire.Refused)
    assert 400 <= ended.status < 500


@pytest.fixture
def new_request(rough_box: Box) -> Iterator[Callable[[str, bytes], wire.Message]]:
    """Send a request past the gateway's checks and return how it ended; no process may have."""
    from scheduler.wire.codec import decode

    pids = rough_box.pids()
    stranger = Peer(rough_box, "clients")

    def ask(name: str, body: bytes) -> wire.Message:
        expires_at = time.monotonic() + 30
        stranger.send(encode(wire.Ask("x", "chat", name, "l", name, expires_at)), body)
        while stranger.socket.poll(30_000):
            message = decode(stranger.socket.recv_multipart()[0])
            if isinstance(message, wire.Final | wire.Refused):
                return message
        raise AssertionError("no end of the request")

    yield ask
    stranger.close()
    assert rough_box.pids() == pids


def test_a_stranger_can_neither_end_nor_change_what_others_get(rough_box: Box) -> None:
    whole = call(rough_box.url, "/v1/completions", counting(25)).json["choices"][0]["text"]
    worker, client = Peer(rough_box, "workers"), Peer(rough_box, "clients")
    with Stream(rough_box.url, "/v1/completions", counting(25)) as stream:
        stream.first()
        rid, boot = stream.headers["x-request-id"], rough_box.status()["boot"]
        client.send(encode(wire.Cancel(rid)), b"")
        for lease in range(1, 40):
            fenced = boot * 2**32 + lease
            for ticket in range(1, 20):
                worker.send(encode(wire.Done(fenced, ticket, fenced)), b"")
        rest = list(stream.data())
    worker.close()
    client.close()
    assert rest[-1] == "[DONE]"
    assert whole.endswith("".join(json.loads(data)["choices"][0]["text"] for data in rest[:-1]))


def test_a_twin_of_a_worker_gets_no_work_and_the_first_keeps_its_own(rough_box: Box) -> None:
    twin = Peer(rough_box, "workers")
    twin.send(header(0x40, {**READY, "pid": os.getpid()}), b"")
    assert twin.socket.poll(30_000)
    dismissed = twin.socket.recv_multipart()[0]
    twin.close()
    assert dismissed.startswith(b"FL\x01\x54")
    pids = rough_box.pids()
    assert rough_box.status()["devices"]["hrx0"]["worker"]["pid"] == pids["hrx"]


def test_a_hostile_flood_does_not_fill_the_log(peer: Callable[[str], Peer], busy: Any) -> None:
    box: Box = busy[0]
    stranger = peer("clients")
    before, size = stranger.bad(), box.log_file.stat().st_size
    for _ in range(5000):
        stranger.send(b"x" * 100, b"y")
    until(lambda: stranger.bad() >= before + 5000, "a counted flood")
    noise = [r for r in box.log() if r["action"] == "bad_message"]
    assert len(noise) < 100
    assert size > 0


def test_the_broker_is_the_process_it_was(busy: tuple[Box, Crowd]) -> None:
    broker = busy[0].processes()["broker"]
    assert broker.status() != psutil.STATUS_ZOMBIE
    assert [r for r in busy[0].log() if r["action"] == "process_down"] == []
