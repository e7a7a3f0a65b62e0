"""The loop of a worker process: one socket, one session, one engine or one judge.

The socket belongs to this thread. Engines work in threads of their own and hand outcomes over through a
queue and a pipe that wakes the loop, so heartbeats never wait for device work.
"""

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import zmq

from scheduler.bus.sockets import Line
from scheduler.errors import ProtocolError
from scheduler.log import note
from scheduler.wire.codec import decode, encode
from workers.engine import Engine
from workers.job import Outcome
from workers.judge import Judgement, Judging
from workers.process import parent_is_gone
from workers.session import Dismissed, Halt, Joined, Judge, Session, Start

log = logging.getLogger(__name__)
_STOP_S = 1.5  # what runs gets this long to end before the process leaves without it


class Runner:
    """Carries messages between the broker, the session and the work."""

    def __init__(
        self,
        session: Session,
        endpoint: str,
        *,
        engine: Engine | None = None,
        judge: Judging | None = None,
        on_table: Callable[[bytes], None] | None = None,
    ) -> None:
        """Connect; the broker need not be there yet.

        Args:
            session: The protocol's state.
            endpoint: The broker's worker endpoint.
            engine: Runs jobs; a scorer has none.
            judge: Evaluates policies; a device worker has none.
            on_table: Takes the table's JSON at each registration.
        """
        self._session = session
        self._engine = engine
        self._judge = judge
        self._on_table = on_table
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._line = Line(self._context, endpoint)
        self._outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
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
            now = time.monotonic()
            wait_ms = max(0, int((self._session.next_deadline() - now) * 1000) + 1)
            ready = dict(poller.poll(wait_ms if self._stopping_at is None else 50))
            if self._wake_read in ready:
                self._hand_over()
            if self._line.socket in ready:
                self._receive()
            due = self._session.tick(time.monotonic(), self._resident())
            if due is not None:
                self._line.send(encode(due), b"")
                if parent_is_gone(parent):
                    break
        farewell = self._session.bye()
        if farewell is not None:
            self._line.send(encode(farewell), b"")
        self._line.close()
        self._context.term()

    def _resident(self) -> list[str]:
        return self._engine.resident() if self._engine else []

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping_at = time.monotonic()
        if self._engine is not None:
            for ticket in self._running:
                self._engine.cancel(ticket)

    def _is_over(self) -> bool:
        at = self._stopping_at
        return at is not None and (not self._running or time.monotonic() - at > _STOP_S)

    def _receive(self) -> None:
        while (received := self._line.receive()) is not None:
            header, body = received
            try:
                message = decode(header)
            except ProtocolError:
                continue  # a broker of another version: it will not answer READY either, and that is seen
            order = self._session.take(message, body, time.monotonic())
            match order:
                case Start(job=job) if self._engine is not None:
                    self._running.add(job.ticket)
                    self._engine.start(job, self.put)
                case Halt(ticket=ticket) if self._engine is not None:
                    self._engine.cancel(ticket)
                case Judge() if self._judge is not None:
                    self._tell_judgement(order.ticket, self._judge.decide(order))
                case Joined():
                    if self._on_table is not None:
                        self._on_table(order.table)
                    note(log, "registered", epoch=order.epoch)
                case Dismissed():
                    note(log, "dismissed", level=logging.DEBUG, reason=order.reason)
                    self._void()
                case _:
                    pass

    def _void(self) -> None:
        if self._engine is not None:
            for ticket in list(self._running):
                self._engine.cancel(ticket)

    def put(self, outcome: Outcome) -> None:
        """Take an outcome, from any thread."""
        if threading.get_ident() == self._thread:
            self._tell(outcome)
            return
        self._outcomes.put(outcome)
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

    def _tell(self, outcome: Outcome) -> None:
        stamped = self._session.stamp(outcome)
        if type(outcome).__name__ in {"End", "Error"}:
            self._running.discard(outcome.ticket)
        if stamped is not None:
            message, body = stamped
            self._line.send(encode(message), body)

    def _tell_judgement(self, ticket: int, said: Judgement | None) -> None:
        if said is None:
            return
        message = self._session.verdict(
            ticket,
            rule=said.rule,
            model=said.model,
            class_=said.class_,
            confidence=said.confidence,
            down=said.scorer_down,
        )
        if message is not None:
            self._line.send(encode(message), said.decision)
