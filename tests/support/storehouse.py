"""A store in its own process, with the test as its broker."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import zmq

import ops
from scheduler.bus.sockets import Port
from scheduler.settings import Settings
from scheduler.wire import messages as wire
from scheduler.wire import words
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.codec import decode, encode
from support.helping import table
from support.wait import until

TREE = Path(ops.__file__).parents[1]
T = TypeVar("T", bound=wire.Message)


class StoreHouse:
    """The broker's side of one store at a time. A context manager."""

    def __init__(
        self, models: Path, hub: str, *rows: dict[str, object], **settings: object
    ) -> None:
        """Listen.

        Args:
            models: The models directory.
            hub: Address of the hub.
            rows: Of the table, beside those that every table has.
            settings: Of the store: `timeout_s=1`; other names as environment variables.
        """
        self._room = tempfile.TemporaryDirectory(prefix="fl-")
        folder = Path(self._room.name)
        self.conf = Settings(run_dir=str(folder), state_dir=str(folder))
        extra = {name: str(value) for name, value in settings.items() if name.isupper()}
        own = {
            f"FAIRLANE__STORE__{k.upper()}": str(v) for k, v in settings.items() if not k.isupper()
        }
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("FAIRLANE", "XDG_", "HF_"))},
            "HOME": str(folder), "HF_ENDPOINT": hub, "FAIRLANE__STORE__DIR": str(models),
            "FAIRLANE__RUN_DIR": str(folder), "FAIRLANE__STATE_DIR": str(folder),
            "PYTHONPATH": os.pathsep.join([str(TREE), os.environ.get("PYTHONPATH", "")]),
            **own, **extra,
        }  # fmt: skip
        self._catalogue = CatalogueBody(table(*rows))
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._port = Port(self._context, self.conf.backend())
        self._epoch = 0
        self._route = b""
        self.heard: list[tuple[float, wire.Message]] = []  # of the store that runs now
        self._awaited = 0  # ends of its pulls that `ended` has returned
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._port.close()
        self._context.term()
        self._room.cleanup()

    @property
    def log(self) -> str:
        """The stores' log so far."""
        return Path(self._room.name, "store.log").read_text()

    def start(self) -> None:
        """Start a store and wait until it has said what is on disk."""
        self.heard, self._awaited = [], 0
        with Path(self._room.name, "store.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ops.processes", "store"],
                env=self.environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        until(lambda: self.all(wire.Stock), "the stock", within_s=60.0)

    def kill(self) -> None:
        """End the store by SIGKILL."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def fetch(self, model: str = "M") -> None:
        """Have a row brought."""
        self._say(wire.Fetch(model))

    def ended(self, within_s: float = 60.0) -> wire.Pulled:
        """Wait for the next end of a pull; it may have come before this is asked."""
        self._awaited += 1
        until(lambda: len(self.all(wire.Pulled)) >= self._awaited, "the end", within_s=within_s)
        return self.all(wire.Pulled)[self._awaited - 1][1]

    def stock(self) -> dict[str, words.RowStock]:
        """Return the rows' states as they were told."""
        known: dict[str, words.RowStock] = {}
        for _, said in self.all(wire.Stock):
            known |= said.rows
        return known

    def all(self, kind: type[T]) -> list[tuple[float, T]]:
        """Return what this store said of a kind, with the instant at which it came."""
        self._receive()
        return [(at, said) for at, said in self.heard if isinstance(said, kind)]

    def _receive(self) -> None:
        while self._port.socket.poll(0) and (received := self._port.receive()) is not None:
            route, header, _ = received
            said = decode(header)
            self.heard.append((time.monotonic(), said))
            if isinstance(said, wire.Ready):
                self._epoch += 1
                self._route = route
                body = msgspec.json.encode(self._catalogue)
                self._port.send(route, encode(wire.Welcome(self._epoch, 0.2, 1)), body)

    def _say(self, message: wire.Message) -> None:
        self._port.send(self._route, encode(message), b"")
