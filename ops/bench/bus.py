"""`fairlane bench bus`: the real broker with all its logic beside a bare relay of the same frames.

Both sides are three processes: this one as the client, the broker or the relay, and a worker. Ours is the
real broker process and the real worker process with the null engine and 64 seats; the relay's worker
echoes. Both carry a header and a body frame of the same sizes in each direction. The two are measured in
turn, A B A B ..., and each figure is the median over the pairs, because single pairs swing by a third.
"""

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import psutil
import zmq
from msgspec import Struct

from ops.bench.round_trips import BenchError, wait
from scheduler.asking import conversation_key
from scheduler.bus.client import Client
from scheduler.bus.sockets import Line
from scheduler.errors import BrokerUnreachable
from scheduler.settings import Settings
from scheduler.wire import messages as wire
from scheduler.wire import verbs
from scheduler.wire.codec import encode

WINDOW = 64  # requests in flight for the rate; as many as the null engine has seats
WARM_UP = 500
CONVERSATIONS = 256
_START_S = 60.0
BODY = b'{"model":"m","messages":[{"role":"user","content":"' + b"x" * 440 + b'"}]}'


class Figures(Struct, frozen=True):
    """One side of one pair."""

    rate: float  # requests a second, 64 in flight
    p50_us: float  # one in flight
    cpu_us: float  # processor time of the broker or relay a request, 64 in flight


class Result(Struct, frozen=True):
    """Medians over all pairs. Ratios are ours over the relay's."""

    rate_ratio: float
    p50_ratio: float
    cpu_ratio: float
    pairs: int
    broker: Figures
    relay: Figures
    rate_ratios: list[float]


def measure(pairs: int, requests: int, say: Callable[[str], None]) -> Result:
    """Run the pairs.

    Args:
        pairs: How many, >= 1; 7 for a figure to quote.
        requests: Requests a side and pair for the rate; a quarter of it for the p50.
        say: Told of each pair.
    """
    ours: list[Figures] = []
    theirs: list[Figures] = []
    header = len(ask(0))
    for number in range(pairs):
        with _relay(header) as (endpoint, process):
            theirs.append(_side(endpoint, process, requests))
        with broker_with({}, "hrx") as (endpoint, process):
            ours.append(_side(endpoint, process, requests))
        say(
            f"pair {number + 1}/{pairs}: broker {ours[-1].rate:,.0f}/s {ours[-1].p50_us:.0f} us, "
            f"relay {theirs[-1].rate:,.0f}/s {theirs[-1].p50_us:.0f} us"
        )
    both = list(zip(ours, theirs, strict=True))
    return Result(
        rate_ratio=_rounded(median(a.rate / b.rate for a, b in both)),
        p50_ratio=_rounded(median(a.p50_us / b.p50_us for a, b in both)),
        cpu_ratio=_rounded(median(a.cpu_us / b.cpu_us for a, b in both)),
        pairs=pairs,
        broker=_medians(ours),
        relay=_medians(theirs),
        rate_ratios=[_rounded(a.rate / b.rate) for a, b in both],
    )


def _side(endpoint: str, process: psutil.Process, requests: int) -> Figures:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    line = Line(context, endpoint)
    try:
        _pipelined(line, WARM_UP, 1)
        before = sum(process.cpu_times()[:2])
        rate = _pipelined(line, requests, WINDOW)
        cpu_us = (sum(process.cpu_times()[:2]) - before) / requests * 1e6
        p50_us = _one_by_one(line, requests // 4)
    finally:
        line.close()
        context.term()
    return Figures(rate=rate, p50_us=p50_us, cpu_us=cpu_us)


def _pipelined(line: Line, requests: int, window: int) -> float:
    """Return requests a second with `window` in flight."""
    sent = done = 0
    began_at = time.perf_counter()
    while done < requests:
        while sent < requests and sent - done < window:
            line.send(ask(sent), BODY)
            sent += 1
        wait(line)
        while (received := line.receive()) is not None:
            if _is_ack(received[0]):
                continue
            done += 1
            if sent < requests:
                line.send(ask(sent), BODY)
                sent += 1
    return requests / (time.perf_counter() - began_at)


def _one_by_one(line: Line, requests: int) -> float:
    """Return the median round trip in microseconds."""
    times: list[float] = []
    for number in range(requests):
        began_at = time.perf_counter()
        line.send(ask(number), BODY)
        while (received := line.receive()) is None or _is_ack(received[0]):
            wait(line)
        times.append(time.perf_counter() - began_at)
    return median(times) * 1e6


def _is_ack(header: bytes) -> bool:
    """Return whether a message only says that a request is accepted, as a loaded broker does now and then."""
    return header[3] == _ACK


_ACK = next(verb for verb, kind in verbs.VERBS.items() if kind is wire.Ack)
_KEYS = [conversation_key("bench", "m", str(n)) for n in range(CONVERSATIONS)]
_RUN = uuid.uuid4().hex[:16]


def ask(number: int) -> bytes:
    """Return the header of one request; both sides pay for making it."""
    return encode(
        wire.Ask(
            id=f"{_RUN}{number:016x}",
            op="chat",
            name="SmolLM2-135M-Instruct",
            lane="bench",
            conversation=_KEYS[number % CONVERSATIONS],
            expires_at=time.monotonic() + 600,
            prompt_bytes=440,
            max_tokens=1,
        )
    )


@contextmanager
def _relay(header: int) -> Generator[tuple[str, psutil.Process]]:
    with tempfile.TemporaryDirectory(prefix="fairlane-") as folder:
        front, back = f"ipc://{folder}/front", f"ipc://{folder}/back"
        module = [sys.executable, "-m", "ops.bench.relay"]
        from workers.null import REPLY  # the size of what the other side answers

        with (
            running([*module, "relay", front, back], os.environ) as relay,
            running([*module, "worker", back, str(header // 3), str(len(REPLY))], os.environ),
        ):
            _until_answered(front)
            yield front, psutil.Process(relay.pid)


@contextmanager
def broker_with(more: dict[str, str], *kinds: str) -> Generator[tuple[str, psutil.Process]]:
    """Run a real broker and real workers, the null engine among them.

    Args:
        more: Of the environment, beside what every such box has.
        kinds: Of the workers; hrx is one of them.

    Yields:
        The endpoint for clients, and the broker's process.
    """
    with tempfile.TemporaryDirectory(prefix="fairlane-") as folder:
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("FAIRLANE")},
            "FAIRLANE_CONFIG": str(_settings_file(Path(folder))),
            "FAIRLANE__RUN_DIR": folder,
            "FAIRLANE__STATE_DIR": folder,
            "FAIRLANE__WORKERS__ENGINE": "null",
            **more,
        }
        module = [sys.executable, "-m", "ops.processes"]
        settings = Settings(run_dir=folder)
        with ExitStack() as stack:
            broker = stack.enter_context(running([*module, "broker"], environ))
            for kind in kinds:
                stack.enter_context(running([*module, kind], environ))
            with Client(settings.frontend()) as client:
                ends_at = time.monotonic() + _START_S
                while not _serves(client, ends_at):
                    time.sleep(0.02)
            yield settings.frontend(), psutil.Process(broker.pid)


def _serves(client: Client, ends_at: float) -> bool:
    serves = False
    try:
        serves = client.status()["devices"]["hrx0"]["worker"] is not None
    except BrokerUnreachable:  # a loaded machine takes its time to start a process
        if time.monotonic() > ends_at:
            raise
    if not serves and time.monotonic() > ends_at:
        raise BenchError(f"no worker came within {_START_S:.0f} s")
    return serves


def _settings_file(folder: Path) -> Path:
    file = folder / "fairlane.toml"
    file.write_text("", encoding="utf-8")
    return file


@contextmanager
def running(command: list[str], environ: Mapping[str, str]) -> Generator[subprocess.Popen[bytes]]:
    """Run a process of ours; it is killed afterwards."""
    # A log that nobody reads would cost what nobody measures: it goes to a file, as it would on a box.
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environ, stderr=log)  # our own modules
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _until_answered(endpoint: str) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    line = Line(context, endpoint)
    ends_at = time.monotonic() + _START_S
    try:
        while True:
            line.send(ask(0), BODY)
            if line.socket.poll(200):
                return
            if time.monotonic() > ends_at:
                raise BenchError(f"the relay did not answer within {_START_S:.0f} s")
    finally:
        line.close()
        context.term()


def _medians(figures: list[Figures]) -> Figures:
    return Figures(
        rate=round(median(f.rate for f in figures)),
        p50_us=round(median(f.p50_us for f in figures), 1),
        cpu_us=round(median(f.cpu_us for f in figures), 2),
    )


def _rounded(ratio: float) -> float:
    return round(ratio, 3)
