"""The live feed: the broker is asked once a second, and all who watch are told the same.

While nobody watches it is asked for a few numbers every two seconds, so that the curves are there for the
next who does. Who reads slowly misses snapshots, never points of a curve, and costs no memory.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

import msgspec

from scheduler.errors import BrokerUnreachable
from scheduler.gateway.curves import KEEP_S, STEP_S, Curves, Pulse

PERIOD_S = 1.0  # between two snapshots
ANSWER_S = 2.0  # a broker that takes longer is gone for now
VIEWERS = 32  # at a time
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser comes back

Look = Callable[[str], Awaitable[bytes]]  # view -> its JSON; raises BrokerUnreachable
_read = msgspec.json.Decoder(Pulse).decode


class Feed:
    """What the page is fed with."""

    def __init__(self, look: Look, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing known.

        Args:
            look: Asks the broker for one of its views.
            clock: Monotonic seconds.
        """
        self._look = look
        self._clock = clock
        self._curves = Curves()
        self._point_at = 0.0  # when the next point is due
        self._frame = b""  # what happened last, as an event
        self._frame_at = float("-inf")
        self._frames = 0  # so many there were
        self._heard_at = clock()  # when the broker answered last
        self._viewers = 0
        self._wanted = asyncio.Event()  # somebody watches
        self._news = asyncio.Event()  # set, and replaced, with every frame
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether nobody more may watch."""
        return self._viewers >= VIEWERS

    @contextlib.contextmanager
    def seat(self) -> Generator[None]:
        """Count somebody who watches."""
        self._viewers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers:
                self._wanted.clear()

    def close(self) -> None:
        """Send everybody away: the gateway stops."""
        self._closed = True
        self._news.set()

    async def run(self) -> None:
        """Ask the broker again and again."""
        while True:
            began_at = self._clock()
            await self.turn()
            pause_s = PERIOD_S if self._viewers else STEP_S
            await self._pause(began_at + pause_s - self._clock())

    async def turn(self) -> None:
        """Ask once, for as much as somebody wants to know, and tell all who watch."""
        what = "live" if self._viewers else "pulse"
        try:
            async with asyncio.timeout(ANSWER_S):
                raw = await self._look(what)
        except (BrokerUnreachable, TimeoutError):
            self._lose()
            return
        self._heard_at = self._clock()
        pulse = _read(raw)
        if pulse.at >= self._point_at:
            self._curves.add(pulse)
            self._point_at = pulse.at + STEP_S * 0.9  # a turn that comes a little early is in time
        if what == "live":
            self._tell(b"event: snapshot\ndata: " + raw + b"\n\n")

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield server-sent events for one who watches: the curves so far, then what comes."""
        yield _RETRY
        seen_at, frames = float("-inf"), 0
        while not self._closed:
            news = self._news
            points = self._curves.since(seen_at)
            if points:
                body = {"whole": seen_at == float("-inf"), "keep_s": KEEP_S, "step_s": STEP_S}
                seen_at = points[-1].at
                yield (
                    b"event: curves\ndata: "
                    + msgspec.json.encode(body | {"points": points})
                    + b"\n\n"
                )
            if self._frames != frames and self._frame_at > self._clock() - 2 * PERIOD_S:
                frames = self._frames
                yield self._frame
            if news is self._news:
                await news.wait()

    def _lose(self) -> None:
        self._curves.lose()
        body = {"for_s": round(self._clock() - self._heard_at, 1)}
        self._tell(b"event: lost\ndata: " + msgspec.json.encode(body) + b"\n\n")

    def _tell(self, frame: bytes) -> None:
        self._frame, self._frame_at = frame, self._clock()
        self._frames += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until somebody begins to watch."""
        if self._viewers:
            await asyncio.sleep(max(0.0, seconds))
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                await self._wanted.wait()
