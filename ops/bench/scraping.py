"""`fairlane bench scrape`: what a scrape of `/metrics` takes, and whether one a second slows the bus.

One box: the real broker and gateway, and null engines on both devices, each of which has answered a hundred
lanes. Then the bus is asked, one request in flight, in turns of a few seconds: in every other turn somebody
scrapes once a second, and who comes first changes each time, so that whatever else the machine does meets
both.
"""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import psutil
import zmq
from msgspec import Struct

from ops.bench.bus import BODY, WARM_UP, ask, broker_with
from ops.bench.round_trips import Times, round_trips, times
from scheduler.asking import conversation_key
from scheduler.bus.sockets import Line
from scheduler.errors import FairlaneError
from scheduler.gateway.listening import reserve
from scheduler.wire.codec import encode
from scheduler.wire.messages import Ask

LANES = 100
SCRAPES = 200  # in a row, on an idle box
TURN_S = 3.0
PERIOD_S = 1.0
_ROWS = ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct-npu")


class Result(Struct, frozen=True):
    """Ratios are those with a scraper over those without."""

    p50_ratio: float
    p99_ratio: float
    requests: int  # a side, at least
    scraped: Times
    alone: Times
    scrape_ms: float  # median, from asking to the last byte; of scrapes beside the load
    idle_scrape_ms: float  # the same while nothing else is asked
    worst_scrape_ms: float  # of the latter
    scrape_cpu_ms: float  # processor time of broker and gateway together a scrape
    series: int
    bytes: int


class Scraper:
    """Asks for the page over one connection."""

    def __init__(self, port: int) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.took_ms: list[float] = []
        self.page = b""

    def scrape(self) -> None:
        """Ask once, as Prometheus does."""
        began_at = time.perf_counter()
        accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
        self._line.request("GET", "/metrics", headers={"accept": accept})
        response = self._line.getresponse()
        self.page = response.read()
        self.took_ms.append((time.perf_counter() - began_at) * 1e3)
        if response.status != 200 or b"\nfairlane_up 1.0\n" not in self.page:
            raise FairlaneError(f"no page of metrics: {response.status} {self.page[:200]!r}")

    def until(self, over: threading.Event) -> None:
        """Ask once a second, over a new connection: the gateway hangs up on one that idles."""
        self.close()
        while not over.wait(PERIOD_S):
            self.scrape()

    def close(self) -> None:
        """Hang up."""
        self._line.close()


def measure(turns: int, say: Callable[[str], None]) -> Result:
    """Take turns.

    Args:
        turns: A side, each of 3 s.
        say: Told of each one, and how long it still takes.
    """
    held = reserve("127.0.0.1")
    port = held.getsockname()[1]
    more = {"FAIRLANE__GATEWAY__PORT": str(port), "FAIRLANE__LIMITS__LANES": str(LANES + 10)}
    with closing(held), broker_with(more, "hrx", "npu", "gateway") as (endpoint, broker):
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        line = Line(context, endpoint)
        idle = Scraper(port)
        beside = Scraper(port)
        try:
            numbers = count()
            _round(line, numbers, WARM_UP)
            round_trips(line, _lanes())
            _reach(idle)
            cpu_ms = _cpu_ms(idle, broker)
            sides: dict[bool, list[float]] = {True: [], False: []}
            for turn in range(turns):
                for scraped in (True, False) if turn % 2 else (False, True):
                    sides[scraped] += _turn(line, numbers, beside if scraped else None)
                say(_progress(turn + 1, turns, sides))
        finally:
            idle.close()
            beside.close()
            line.close()
            context.term()
    beside_it, alone = times(sides[True]), times(sides[False])
    ranked = sorted(idle.took_ms[1:])  # the first one imports the library
    return Result(
        p50_ratio=round(beside_it.p50_us / alone.p50_us, 3),
        p99_ratio=round(beside_it.p99_us / alone.p99_us, 3),
        requests=min(map(len, sides.values())),
        scraped=beside_it,
        alone=alone,
        scrape_ms=_median(sorted(beside.took_ms)),
        idle_scrape_ms=_median(ranked),
        worst_scrape_ms=round(ranked[-1], 2),
        scrape_cpu_ms=cpu_ms,
        series=sum(not one.startswith(b"#") for one in idle.page.splitlines()),
        bytes=len(idle.page),
    )


def _progress(done: int, turns: int, sides: dict[bool, list[float]]) -> str:
    beside_it, alone = times(sides[True]), times(sides[False])
    left_s = (turns - done) * 2 * TURN_S
    return (
        f"turn {done} of {turns}: p99 {beside_it.p99_us:.0f} us beside {alone.p99_us:.0f} so far, "
        f"{left_s:.0f} s left"
    )


def _cpu_ms(scraper: Scraper, broker: psutil.Process) -> float:
    """Scrape many times in a row and return the processor time of one."""
    parts = [
        one
        for one in psutil.Process().children()
        if one == broker or one.cmdline()[-1] == "gateway"
    ]
    before_s = sum(sum(one.cpu_times()[:2]) for one in parts)
    for _ in range(SCRAPES):
        scraper.scrape()
    spent_s = sum(sum(one.cpu_times()[:2]) for one in parts) - before_s
    return round(spent_s / SCRAPES * 1e3, 2)


def _turn(line: Line, numbers: Iterator[int], scraper: Scraper | None) -> list[float]:
    """Return the seconds of all round trips of one turn."""
    over = threading.Event()
    taken: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(scraper.until, over) if scraper else None
        ends_at = time.monotonic() + TURN_S
        while time.monotonic() < ends_at:
            taken += _round(line, numbers, 50)
        over.set()
    if beside is not None:
        beside.result()
    return taken


def _round(line: Line, numbers: Iterator[int], many: int) -> list[float]:
    return round_trips(line, ((ask(next(numbers)), BODY) for _ in range(many)))


def _lanes() -> Iterator[tuple[bytes, bytes]]:
    """Yield one request of each lane for each device."""
    for lane in range(LANES):
        for row in _ROWS:
            name = f"lane-{lane:03d}"
            header = Ask(
                id=f"{name}-{row}", op="chat", name=row, lane=name, prompt_bytes=440, max_tokens=1,
                conversation=conversation_key(name, row, "1"), expires_at=time.monotonic() + 600,
            )  # fmt: skip
            yield encode(header), BODY


def _reach(scraper: Scraper) -> None:
    """Scrape as soon as the gateway listens."""
    for patience in range(600, -1, -1):
        try:
            scraper.scrape()
        except (OSError, http.client.HTTPException):
            scraper.close()
            if not patience:
                raise
            time.sleep(0.05)
        else:
            return


def _median(ranked: list[float]) -> float:
    return round(ranked[len(ranked) // 2], 2)
