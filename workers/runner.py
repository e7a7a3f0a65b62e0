"""The loop of a worker process: one socket, one session, and either an engine or a helper.

The socket belongs to this thread. What works in threads of its own hands outcomes over through a queue
and a pipe that wakes the loop, so heartbeats never wait for device work or for a model's answer.
"""

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Protocol

import zmq

from scheduler.bus.sockets import Line
from scheduler.errors import ProtocolError
from scheduler.log import note
from scheduler.wire import catalogue
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import Message
from workers.engine import Engine
from workers.helper import Reply
from workers.job import End, Error, Outcome, Piece, Stage, Unloaded
from workers.process import parent_is_gone
from workers.session import (
    Changed,
    Dismissed,
    Drop,
    Fetch,
    Halt,
    Joined,
    Judge,
    Order,
    Session,
    Start,
)

log = logging.getLogger(__name__)
_STOP_S = 1.5  # what runs gets this long to end before the process leaves without it

Tell = Callable[[Reply], None]


class Helper(Protocol):
    """Decides, validates or keeps policies. Holds no device."""

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the table and the users' policies."""
        ...

    def begin(self, question: Judge, tell: Tell) -> None:
        """Work on a question; what comes of it goes to `tell`, from any thread, or nothing does."""
        ...

    def fetch(self, model: str, tell: Tell) -> None:
        """Bring a row of the table here; asked of the store only."""
        ...

    def joined(self, tell: Tell) -> None:
        """Say what the broker must know first."""
        ...

    def backend(self) -> str:
        """Return what decides now, for the heartbeat; empty: what READY said."""
        ...


class Runner:
    """Carries messages between the broker, the session and the work."""

    def __init__(
        self,
        session: Session,
        endpoint: str,
        *,
        engine: Engine | None = None,
        helper: Helper | None = None,
    ) -> None:
        """Connect; the broker need not be there yet.

        Args:
            session: The protocol's state.
            endpoint: The broker's worker endpoint.
            engine: Runs jobs; a helper's process has none.
            helper: Answers questions; a device worker has none.
        """
        self._session = session
        self._engine = engine
        self._helper = helper
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._outcomes: queue.SimpleQueue[Outcome | Reply | Unloaded] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread = threading.get_ident()
        self._running: set[int] = set()
        self._stopping_at: float | None = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        parent = os.getppid()
        poller = zmq.Poller()
        poller.register(self._line.socket, zmq.POLLIN)
        poller.register(self._wake_read, zmq.POLLIN)
        while not self._is_over():
            wait_s = self._session.next_deadline() - time.monotonic()
            wait_ms = max(0, int(wait_s * 1000) + 1)
            ready = dict(poller.poll(wait_ms if self._stopping_at is None else 50))
            if self._wake_read in ready:
                self._hand_over()
            if self._line.socket in ready:
                self._receive()
            now = time.monotonic()
            if now >= self._session.next_deadline():
                self._send(self._tick(now))
                if parent_is_gone(parent):
                    break
                if self._session.is_stuck(now):  # another process takes its place
                    note(log, "stuck", level=logging.ERROR, running=len(self._running))
                    break
        self._send(self._session.bye())
        self._line.close()
        self._context.term()

    def _tick(self, now: float) -> Message | None:
        engine, backend = self._engine, self._helper.backend() if self._helper else ""
        backend = engine.backend if engine else backend
        resident, sizes = (engine.resident(), engine.sizes()) if engine else ([], {})
        return self._session.tick(now, resident, backend, sizes)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        if self._stopping_at is None:
            self._stopping_at = time.monotonic()
        self._cancel_all()

    def _is_over(self) -> bool:
        at = self._stopping_at
        return at is not None and (not self._running or time.monotonic() - at > _STOP_S)

    def _receive(self) -> None:
        while (received := self._line.receive()) is not None:
            header, body = received
            try:
                message = decode(header)
            except ProtocolError as error:
                note(log, "bad_message", level=logging.WARNING, error=str(error)[:200])
                continue  # a broker of another version, most likely
            order = self._session.take(message, body, time.monotonic())
            if order is not None:
                self._obey(order)

    def _obey(self, order: Order) -> None:
        match order:
            case Start(job=job) if self._stopping_at is not None:
                self.put(End(job.lease, cancelled=True))  # handed back: this process leaves
            case Start(job=job) if self._engine is not None:
                self._running.add(job.lease)
                self._engine.start(job, self.put)
            case Halt(lease=lease) if self._engine is not None:
                self._engine.cancel(lease)
            case Drop(model=model) if self._engine is not None:
                self._engine.unload(model, self.put)
            case Fetch() | Judge() if self._helper is not None:
                self._ask(self._helper, order)
            case Joined():
                note(log, "registered", epoch=order.epoch)
                self._take_catalogue(order.catalogue)
                if self._helper is not None:
                    self._helper.joined(self.put)
            case Changed():
                self._take_catalogue(order.catalogue)
            case Dismissed():
                note(log, "dismissed", level=logging.DEBUG, reason=order.reason)
                self._cancel_all()
            case _:
                pass  # an order for the other kind of worker

    def _ask(self, helper: Helper, order: Fetch | Judge) -> None:
        if isinstance(order, Fetch):
            helper.fetch(order.model, self.put)
        else:
            helper.begin(order, self.put)

    def _take_catalogue(self, body: bytes) -> None:
        read = catalogue.read(body)
        for taker in (self._engine, self._helper):
            if taker is not None:
                taker.take_catalogue(read)

    def _cancel_all(self) -> None:
        for lease in list(self._running):
            if self._engine is not None:
                self._engine.cancel(lease)

    def put(self, said: Outcome | Reply | Unloaded) -> None:
        """Take an outcome of a job or a helper's reply, from any thread."""
        if threading.get_ident() == self._thread:
            self._tell(said)
            return
        self._outcomes.put(said)
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # the pipe is full of wake-ups already

    def _hand_over(self) -> None:
        os.read(self._wake_read, 65536)
        while True:
            try:
                self._tell(self._outcomes.get_nowait())
            except queue.Empty:
                return

    def _tell(self, said: Outcome | Reply | Unloaded) -> None:
        if isinstance(said, Unloaded):
            self._session.hurry()
            return
        if isinstance(said, (End, Piece, Stage, Error)):  # a tuple is looked at three times as fast
            stamped = self._session.stamp(said)
            if isinstance(said, (End, Error)):
                self._running.discard(said.lease)
            if stamped is not None:
                self._send(*stamped)
            return
        for message, body in self._session.said(said):
            self._send(message, body)

    def _send(self, message: Message | None, body: bytes = b"") -> None:
        if message is not None:
            self._line.send(encode(message), body)
