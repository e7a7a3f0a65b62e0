"""A real scorer process behind a stand-in broker that asks it as fast as it answers."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

import msgspec
import psutil
import zmq

from policies import shipped
from scheduler.bus.sockets import Port
from scheduler.wire import messages as wire
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.codec import decode, encode
from support.box import TREE

COLLECTION = "user.Laya-First"
WITHIN_S = 30.0
CREDIT = 32  # questions in hand of a scorer, as the core hands them out


class Scored:
    """The process and the socket it is connected to. Leaving the `with` block ends both."""

    def __init__(self, **settings: str) -> None:
        self._room = tempfile.TemporaryDirectory(prefix="fl-")
        run = Path(self._room.name) / "run"
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._port = Port(self._context, f"ipc://{run}/workers.sock")
        named = {f"FAIRLANE__{name.upper()}": value for name, value in settings.items()}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ops.processes", "scorer"],
            cwd=TREE, stderr=subprocess.DEVNULL,
            env={
                **os.environ, **named, "PYTHONPATH": str(TREE), "HOME": self._room.name,
                "FAIRLANE__RUN_DIR": str(run),
            },
        )  # fmt: skip
        self.process = psutil.Process(self._process.pid)
        self._route = b""
        self._asked = 0

    def __enter__(self) -> Self:
        while not self._route:
            route, message, _ = self._receive()
            if isinstance(message, wire.Ready):
                self._route = route
                catalogue = msgspec.json.encode(CatalogueBody(shipped.read("embedded.json")))
                self._port.send(route, encode(wire.Welcome(1, 1.0, 1)), catalogue)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._port.close()
        self._context.term()
        self._room.cleanup()

    def decide(self, texts: list[str]) -> list[str]:
        """Return the class of each text, asked with as many on their way as the core allows."""
        first, classes = self._asked, dict[int, str]()
        for text in texts:
            if self._asked - first - len(classes) >= CREDIT:
                self._take(classes)
            self._asked += 1
            question = wire.Decide(self._asked, time.monotonic() + 600.0, "decide", COLLECTION, "l")
            body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
            self._port.send(self._route, encode(question), body)
        while len(classes) < len(texts):
            self._take(classes)
        return [classes[first + number] for number in range(1, len(texts) + 1)]

    def _take(self, classes: dict[int, str]) -> None:
        _, message, _ = self._receive()
        if isinstance(message, wire.Decision):
            assert message.ticket not in classes
            classes[message.ticket] = message.class_

    def _receive(self) -> tuple[bytes, wire.Message, bytes]:
        while (received := self._port.receive()) is None:
            assert self._port.socket.poll(int(WITHIN_S * 1000)), "the scorer says nothing"
        route, header, body = received
        return route, decode(header), body
