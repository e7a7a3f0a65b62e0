"""A box of real processes and sockets for client tests: a broker, and a worker that does as it is told."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import zmq

import scheduler
from scheduler.bus.sockets import Line
from scheduler.errors import ProtocolError
from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.codec import decode, encode

_ROOT = Path(scheduler.__file__).parents[1]
_SCRIPT = Path(__file__).with_name("broker_process.py")
CHUNKS = [msgspec.json.encode({"choices": [], "n": n}) for n in range(3)]
REPLY = msgspec.json.encode({"choices": [{"message": {"role": "assistant", "content": "said"}}]})
DECIDED = b'{"version":"1","route_to":"N","matched_rule":"laya-code","default_used":false}'


class BrokerProcess:
    """A broker that can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.frontend = f"ipc://{directory}/clients.sock"
        self.backend = f"ipc://{directory}/workers.sock"
        self._directory = directory
        self._boot = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; a later start has a larger boot number."""
        self._boot += 1
        path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
        self._process = subprocess.Popen(
            [sys.executable, _SCRIPT, self._directory, str(self._boot)],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Hand(threading.Thread):
    """One worker. A request whose body says `hold` is begun, or not even that, and never ended."""

    def __init__(self, backend: str, kind: words.Kind = "hrx", *, seats: int = 4) -> None:
        super().__init__(daemon=True)
        self._seats = seats
        self._backend = backend
        self._kind = kind
        self._over = threading.Event()
        self._epoch = 0
        self.seen: list[wire.Message] = []  # what the broker said, in order

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()

    def run(self) -> None:
        """Register, beat, and do what comes."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        line = Line(context, self._backend)
        device = "" if self._kind == "scorer" else f"{self._kind}0"
        ready = wire.Ready(
            self._kind, self._kind, device, 1, 1.0, f"{id(self)}", self._seats, "test"
        )
        while not self._over.is_set():
            due = wire.Beat(self._epoch) if self._epoch else ready
            line.send(encode(due), b"")
            if line.socket.poll(100):
                while (received := line.receive()) is not None:
                    self._take(line, *received)
        line.socket.close(linger=0)
        context.term()

    def _take(self, line: Line, header: bytes, body: bytes) -> None:
        try:
            message = decode(header)
        except ProtocolError:
            return
        self.seen.append(message)
        match message:
            case wire.Welcome():
                self._epoch = message.epoch
            case wire.Dismiss():
                self._epoch = 0
            case wire.Decide():
                decision = wire.Decision(self._epoch, message.ticket, "laya-code", "N", "code", 1.0)
                line.send(encode(decision), DECIDED)
            case wire.Run():
                self._work(line, message, body)
            case wire.Stop():
                done = wire.Done(self._epoch, message.ticket, message.lease, cancelled=True)
                line.send(encode(done), b"")
            case _:
                pass

    def _work(self, line: Line, run: wire.Run, body: bytes) -> None:
        if b"fail" in body:
            failed = wire.Failed(self._epoch, run.ticket, run.lease, 503, "broken", "It broke.")
            line.send(encode(failed), b"")
            return
        if run.stream and b"silent" not in body:
            for seq, chunk in enumerate(CHUNKS, 1):
                line.send(encode(wire.Chunk(self._epoch, run.ticket, run.lease, seq)), chunk)
        if b"hold" not in body:
            done = wire.Done(self._epoch, run.ticket, run.lease)
            line.send(encode(done), b"" if run.stream else REPLY)
