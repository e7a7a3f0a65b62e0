"""The broker: one thread, two ROUTERs and the core.

Rules of this file: nothing between receiving a message and performing its last effect waits for
anything. All decisions are the core's; a send that has no route becomes an event. The prompt is never
looked at: bodies pass as they are.
"""

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Container
from itertools import islice
from pathlib import Path
from types import FrameType

import msgspec
import zmq

from scheduler.bus.journal import Journal
from scheduler.bus.processes import Doomed, Reaper
from scheduler.bus.sockets import Port, Unroutable
from scheduler.bus.translate import TO_CLIENT, TO_EVENT, TO_WORKER, to_json
from scheduler.core.appliance import Appliance
from scheduler.core.effects import Admit, Effect, Ended, Kill, Probe, Publish, Record
from scheduler.core.events import ClientLost, Event, ProcessEnded, Ticked, WorkerLost
from scheduler.core.samples import Sample
from scheduler.errors import ProtocolError
from scheduler.log import Ledger, note
from scheduler.wire import messages as wire
from scheduler.wire import verbs
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.codec import decode, encode

log = logging.getLogger(__name__)
_REAP_S = 0.1  # how often what must end is looked at
_BURST = 32  # messages taken from one socket before the other has its turn


class Broker:
    """Carries messages between the sockets and the core."""

    def __init__(
        self,
        core: Appliance,
        catalogue: CatalogueBody,
        frontend: str,
        backend: str,
        *,
        about: dict[str, str | int],
        journal: Journal | None = None,
    ) -> None:
        """Bind both sockets.

        Args:
            core: The state machine.
            catalogue: The table; the policies users registered join it.
            frontend: Endpoint for clients.
            backend: Endpoint for workers.
            about: What status says of this program: its version, which table is in force, and the pid of
                the supervisor, 0 without one.
            journal: Where what happens to the core is written down; None: nowhere.
        """
        self._core = core
        self._journal = journal
        self._catalogue = catalogue
        self._about = about
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._clients = Port(self._context, frontend)
        self._workers = Port(self._context, backend)
        self._ledger = Ledger("broker")
        self._reaper = Reaper()  # for a box that has no supervisor
        self._bad_messages = 0
        self._unroutable = 0
        self._running = True
        self._started, self._started_unix = time.monotonic(), time.time()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        poller = zmq.Poller()
        poller.register(self._clients.socket, zmq.POLLIN)
        poller.register(self._workers.socket, zmq.POLLIN)
        note(log, "broker_up", pid=os.getpid(), boot=self._core.boot)
        gc.freeze()  # what lives now lives as long as the process
        gc.set_threshold(
            50_000, 20, 50
        )  # values of a request make no cycles; collecting finds nothing
        while self._running:
            wait_s = self._core.next_deadline() - time.monotonic()
            if wait_s <= 0:
                self._perform(self._take(Ticked(time.monotonic())))
                self._ledger.flush()
                wait_s = 0
            if self._reaper:
                wait_s = min(wait_s, _REAP_S)
                self._reap()
            ready = dict(poller.poll(int(wait_s * 1000) + 1 if wait_s else 0))
            if self._workers.socket in ready:
                self._drain(self._workers, verbs.FROM_WORKER)
            if self._clients.socket in ready:
                self._drain(self._clients, verbs.FROM_CLIENT)
            if not ready:
                self._ledger.flush()
            if self._journal is not None:
                self._journal.tend(time.monotonic())
        self._close()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._running = False

    def _close(self) -> None:
        self._ledger.flush()
        if self._journal is not None:
            self._journal.close()
        self._clients.close()
        self._workers.close()
        self._context.term()
        note(log, "broker_down")

    def _reap(self) -> None:
        now = time.monotonic()
        for pid, lease in self._reaper.step(now):
            self._perform(self._take(ProcessEnded(now, pid, lease)))

    def _kill(self, effect: Kill) -> None:
        """Do what the supervisor would do, for there is none."""
        self._reaper.add(
            effect.lease,
            Doomed(effect.rid, effect.pid, effect.pgid, effect.pid_started, effect.grace_s),
        )

    def _drain(self, port: Port, allowed: Container[type[wire.Message]]) -> None:
        """Take in what waits on one socket, then perform what the core said to all of it.

        The sends come together because each send that finds libzmq's I/O thread asleep wakes it by a
        system call, and a thread that is awake takes the next ones without.
        """
        effects: list[Effect] = []
        receive, take = port.receive, self._take
        for _ in range(_BURST):
            try:
                received = receive()
                if received is None:
                    break
                route, header, body = received
                message = _admitted(header, allowed)
                to_event = TO_EVENT.get(type(message))
                if to_event is None:
                    self._view(message, route)
                else:
                    effects += take(to_event(message, time.monotonic(), route, body))
            except ProtocolError as error:
                self._bad(error)
        self._perform(effects)

    def _publish(self, effect: Publish) -> None:
        """Send the catalogue with these policies; what they say is for others to read."""
        self._catalogue = msgspec.structs.replace(self._catalogue, policies=effect.policies)
        body = to_json(self._catalogue)
        for worker in effect.workers:
            self._send(self._workers, worker, wire.Catalogue(effect.version), body)

    def _bad(self, error: ProtocolError) -> None:
        self._bad_messages += 1
        if (
            self._bad_messages <= 10 or self._bad_messages % 1000 == 0
        ):  # a flood must not fill a disk
            note(
                log,
                "bad_message",
                level=logging.WARNING,
                error=str(error)[:200],
                count=self._bad_messages,
            )

    def _take(self, event: Event) -> list[Effect]:
        """Have the core take in an event; `_perform` what it returns."""
        effects = self._core.handle(event)
        if self._journal is not None:
            self._journal.note(event, effects)
        return effects

    def _write_down(self) -> None:
        """Let the journal have what was taken in, before anybody is told of it."""
        if self._journal is not None:
            self._journal.flush()

    def _perform(self, effects: list[Effect]) -> None:
        self._write_down()
        for effect in effects:
            kind = type(effect)
            if isinstance(effect, Kill) and not effect.supervisor:
                self._kill(effect)
                continue
            to_client = TO_CLIENT.get(kind)
            if to_client is not None:
                self._send(self._clients, *to_client(effect))
                continue
            to_worker = TO_WORKER.get(kind)
            if to_worker is not None:
                self._send(self._workers, *to_worker(effect))
            elif isinstance(effect, Ended):
                self._ledger.add(effect)
            elif isinstance(effect, Record):
                note(log, effect.action, effect.fields)
            elif isinstance(effect, Admit):
                welcome = wire.Welcome(effect.epoch, self._core.limits.beat_s, self._core.boot)
                self._send(self._workers, effect.worker, welcome, to_json(self._catalogue))
            elif isinstance(effect, Probe):
                # nothing else may be sent to it for a minute, and only sending shows that it is gone
                self._send(self._clients, effect.client, wire.Here(self._core.boot), b"")
            elif isinstance(effect, Publish):
                self._publish(effect)

    def _send(self, port: Port, route: bytes, message: wire.Message, body: bytes) -> None:
        try:
            port.send(route, encode(message), body)
        except Unroutable as error:
            self._unroutable += 1
            now = time.monotonic()
            lost: Event = (
                ClientLost(now, route)
                if port is self._clients
                else WorkerLost(now, route, f"unroutable: {error}")
            )
            self._perform(self._take(lost))

    def _view(self, message: wire.Message, route: bytes) -> None:
        """Answer what only looks: HELLO and QUERY."""
        if isinstance(message, wire.Hello):
            self._send(self._clients, route, wire.Here(self._core.boot), b"")
        elif isinstance(message, wire.Query):
            now = time.monotonic()
            views: dict[str, Callable[[], object]] = {
                "status": lambda: self._core.snapshot(now) | self._own_status(now),
                "models": self._core.models,
                "queue": lambda: self._core.queue(now),
                "explain": lambda: self._core.explain(message.about, now),
                "outside": lambda: self._core.outside(now),
                "live": lambda: self._core.live(now) | self._own_life(now),
                "pulse": lambda: self._core.pulse(now),
                "metrics": lambda: self._core.metrics(now) | self._own_samples(now),
                "story": lambda: self._core.story(message.about),
            }
            self._send(self._clients, route, wire.Reply(message.id), to_json(views[message.what]()))

    def _own_life(self, now: float) -> dict[str, object]:
        return {"version": self._about.get("version", ""), "up_s": round(now - self._started, 3)}

    def _own_status(self, now: float) -> dict[str, object]:
        return {
            **self._about,
            **self._own_life(now),
            "pid": os.getpid(),
            "bad_messages": self._bad_messages,
            "unroutable": self._unroutable,
            "journal": self._journal.view() if self._journal else None,
        }

    def _own_samples(self, now: float) -> dict[str, list[Sample]]:
        return {
            **(self._journal.samples() if self._journal else {}),
            "start_time_seconds": [[self._started_unix]],
            "uptime_seconds": [[now - self._started]],
            "bus_bad_messages_total": [[self._bad_messages]],
            "bus_unroutable_total": [[self._unroutable]],
        }


def _admitted(header: bytes, allowed: Container[type[wire.Message]]) -> wire.Message:
    """Return the message of a header, if it may come from this side.

    Raises:
        ProtocolError: It is none, or one of the other side's.
    """
    message = decode(header)
    if type(message) not in allowed:
        raise ProtocolError(f"{type(message).__name__} on the wrong socket")
    return message


def next_boot(state_dir: Path) -> int:
    """Count this start, on disk before anything else, and return the count.

    A counter that cannot be written must not stop the box: the start's own wall clock then stands in,
    which grows as well unless the clock is set back.
    """
    file = state_dir / "boot"
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if file.exists() else "0"
        boot = int("".join(islice(text.strip(), 12)) or "0") + 1
        fresh = file.with_suffix(".new")
        with fresh.open("w") as out:
            out.write(f"{boot}\n")
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(file)
    except (OSError, ValueError) as error:
        note(log, "state_unwritable", level=logging.WARNING, file=str(file), error=str(error))
        return int(time.time())
    return boot
