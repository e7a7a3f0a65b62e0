"""`fairlane up`: starts the box's processes, brings back what ends, stops all of them cleanly.

Children share this process's standard error, so there is one log stream and it survives us. Each dies
with us by the kernel's hand (workers/process.py), so even a SIGKILL leaves no orphan. A worker's end is
told to the broker at once; missed heartbeats are only its second line. What the broker wants ended, a worker
that fell silent or the group of an outside holder that lost its lease, is ended here.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from ops.cold import is_known, missing_lines
from ops.processes import SUPERVISOR, UNUSABLE
from scheduler.bus.aioclient import AsyncClient
from scheduler.bus.processes import Doomed, Reaper
from scheduler.errors import BrokerUnreachable, FairlaneError
from scheduler.gateway.listening import reserve
from scheduler.log import note
from scheduler.settings import Settings
from scheduler.wire.messages import Exited, Here, Kill, Message, Supervise

log = logging.getLogger(__name__)
BACKOFF_S = (0.1, 10.0)  # first and longest pause before a process is started again, doubling
STEADY_S = 30.0  # a process that ran this long has earned the first pause again
SCORER_S = 10.0  # a scorer that is not warm by then does not keep the box from serving
STOCK_S = 10.0  # the store is given this long to say what is on disk
REAP_S = 0.05  # how often what must end is looked at
STOP_S = 3.0  # gateway and workers get this long to end, the broker one second more


class NotReady(FairlaneError):
    """The box did not become ready in time."""


class Child:
    """One process, kept alive."""

    def __init__(self, kind: str, environ: dict[str, str]) -> None:
        self.kind = kind
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None
        self.is_stopping = False

    @property
    def pid(self) -> int:
        """Its latest process; 0 before there was one."""
        return self._process.pid if self._process is not None else 0

    async def keep(self, on_exit: Callable[[int], None]) -> None:
        """Run the process again and again until told to stop.

        Raises:
            NotReady: It said that it cannot run on this machine.
        """
        pause_s = BACKOFF_S[0]
        while True:
            began_at = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ops.processes",
                self.kind,
                env=self._environ,
                start_new_session=True,  # a Ctrl-C in the terminal is ours alone to hand on
            )
            self._process = process
            note(log, "process_up", process=self.kind, pid=process.pid)
            status = await process.wait()
            on_exit(process.pid)
            if self.is_stopping:
                break
            note(
                log,
                "process_down",
                level=logging.WARNING,
                process=self.kind,
                pid=process.pid,
                status=_said(status),
            )
            if status == UNUSABLE:
                raise NotReady(f"{self.kind} cannot run here; what it said stands above")
            if time.monotonic() - began_at >= STEADY_S:
                pause_s = BACKOFF_S[0]
            await asyncio.sleep(pause_s)
            pause_s = min(BACKOFF_S[1], pause_s * 2)

    def tell_to_stop(self) -> None:
        """Send SIGTERM and do not start it again."""
        self.is_stopping = True
        self.signal(signal.SIGTERM)

    def signal(self, number: int) -> None:
        """Send a signal, if the process is there."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def ended(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            await self._process.wait()


class Supervisor:
    """The processes of one box."""

    def __init__(self, settings: Settings, kinds: Sequence[str], environ: dict[str, str]) -> None:
        """Remember what to start.

        Args:
            settings: In force for all of them.
            kinds: Device kinds that get a worker.
            environ: The environment they are given, less what is set here.
        """
        self._held = None if settings.gateway.port else reserve(settings.gateway.host)
        port = settings.gateway.port if self._held is None else self._held.getsockname()[1]
        self.url = f"http://{_reachable(settings.gateway.host)}:{port}"
        self._settings = settings
        given = {
            **environ,
            SUPERVISOR: str(os.getpid()),
            "FAIRLANE__GATEWAY__PORT": str(port),
        }
        self._broker = Child("broker", given)
        senses = ("sensors",) if settings.sensors.enabled else ()
        self._others = [
            Child(kind, given) for kind in ("gateway", "scorer", "store", *senses, *kinds)
        ]
        self._stop = asyncio.Event()
        self._reaper = Reaper()
        self._doomed = asyncio.Event()  # something must be ended
        self._told_boot = 0  # the start of the broker that knows of us

    async def run(self, when_ready: Callable[[str], Awaitable[None]] | None = None) -> None:
        """Keep the box up until SIGTERM or SIGINT.

        Args:
            when_ready: Runs once, beside the box, when all of it answers.

        Raises:
            NotReady: A process cannot run here, or the box is not ready within a minute.
        """
        began_at = time.monotonic()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncClient(
            self._settings.frontend(), heed=lambda message: self._heed(bus, message)
        ) as bus:

            def tell(pid: int) -> None:
                if not self._reaper.has(
                    pid
                ):  # else its end is told when its children have ended too
                    bus.send(Exited(pid))

            reaping = asyncio.create_task(self._reap(bus))
            keepers = [
                asyncio.create_task(child.keep(tell)) for child in (self._broker, *self._others)
            ]
            ready = asyncio.create_task(self._ready(bus, began_at, when_ready))
            stop = asyncio.create_task(self._stop.wait())
            try:
                await _first_of([*keepers, ready, stop], endless=stop)
            finally:
                note(log, "stopping")
                for task in (ready, stop, reaping):
                    task.cancel()
                await self._end(keepers)
                if self._held is not None:
                    self._held.close()

    def _heed(self, bus: AsyncClient, message: Message) -> None:
        """Make ourselves known to each start of the broker, and take in hand what it wants ended."""
        if isinstance(message, Here) and message.boot != self._told_boot:
            self._told_boot = message.boot
            bus.send(Supervise())
        if isinstance(message, Kill):
            note(log, "process_ending", name=message.id, pid=message.pid, group=message.pgid)
            own = any(child.pid == message.pid for child in self._others)
            pgid = message.pid if own else message.pgid  # our children have sessions of their own
            doomed = Doomed(message.id, message.pid, pgid, message.pid_started, message.grace_s)
            self._reaper.add(message.lease, doomed)
            self._doomed.set()

    async def _reap(self, bus: AsyncClient) -> None:
        while True:
            await self._doomed.wait()
            for pid, lease in self._reaper.step(time.monotonic()):
                bus.send(Exited(pid, lease))
            if not self._reaper:
                self._doomed.clear()
            await asyncio.sleep(REAP_S)

    async def _ready(
        self,
        bus: AsyncClient,
        began_at: float,
        when_ready: Callable[[str], Awaitable[None]] | None,
    ) -> None:
        async with asyncio.timeout(60):
            while not await self._answers(bus, began_at + SCORER_S):  # noqa: ASYNC110  # other processes set no event of ours
                await asyncio.sleep(0.02)
        note(log, "ready", url=self.url, after_s=round(time.monotonic() - began_at, 3))
        if when_ready is None:
            print(f"serving at {self.url}", flush=True)  # also where the log level hides the record
        else:
            await when_ready(self.url)
        await self._tell_missing(bus)

    async def _tell_missing(self, bus: AsyncClient) -> None:
        """Say which rows are not on disk, once the store has looked; nothing where it does not come."""
        with contextlib.suppress(TimeoutError, BrokerUnreachable):
            async with asyncio.timeout(STOCK_S):
                while not is_known(view := await bus.models()):  # noqa: ASYNC110  # another process sets no event of ours
                    await asyncio.sleep(0.2)
                for line in missing_lines(view):
                    print(line, flush=True)

    async def _answers(self, bus: AsyncClient, without_scorer_at: float) -> bool:
        try:
            status = await bus.status()
        except BrokerUnreachable:
            return False
        served = all(device["worker"] for device in status["devices"].values())
        if not status["ready"] and not (served and time.monotonic() >= without_scorer_at):
            return False
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        try:
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except OSError:
            return False
        writer.close()
        return True

    async def _end(self, keepers: list[asyncio.Task[None]]) -> None:
        """Stop gateway and workers, then the broker, so that the last answers still have a way out."""
        self._broker.is_stopping = True
        for child in self._others:
            child.tell_to_stop()
        await _within(STOP_S, *(child.ended() for child in self._others))
        self._broker.tell_to_stop()
        await _within(1.0, self._broker.ended())
        for child in (*self._others, self._broker):
            child.signal(signal.SIGKILL)
        for task in keepers:
            task.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


async def _first_of(
    tasks: list[asyncio.Task[None] | asyncio.Task[bool]], *, endless: object
) -> None:
    """Return when the box was told to stop; raise what any task raised."""
    waiting = set(tasks)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            try:
                task.result()
            except TimeoutError as error:
                raise NotReady("the box did not become ready within 60 s; see the log") from error
        if endless in done:
            return


async def _within(seconds: float, *waiting: Awaitable[None]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*waiting)


def _reachable(host: str) -> str:
    """Return an address under which a local client reaches what is bound to `host`."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # compared, not bound
    return f"[{shown}]" if ":" in shown else shown


def _said(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit {status}"
