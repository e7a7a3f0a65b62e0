"""Round trips on the bus, one in flight, and what is said of their times."""

import time
from collections.abc import Iterable

from msgspec import Struct

from scheduler.bus.sockets import Line
from scheduler.errors import FairlaneError
from scheduler.wire.codec import decode
from scheduler.wire.messages import Final, Refused

ANSWER_S = 30.0  # a box that is asked one thing and says nothing for so long is dead


class BenchError(FairlaneError):
    """A box did not answer what it was asked."""


class Times(Struct, frozen=True):
    """Round trips of one side, one in flight."""

    p50_us: float
    p99_us: float


def round_trips(line: Line, requests: Iterable[tuple[bytes, bytes]]) -> list[float]:
    """Return the seconds until the answer to each request; an ACK is no answer.

    Args:
        line: To the broker.
        requests: Header and body of each; made right before it is sent.

    Raises:
        BenchError: One is refused, or not answered within 30 s.
    """
    taken: list[float] = []
    for header, body in requests:
        began_at = time.perf_counter()
        line.send(header, body)
        while not _is_answered(line):
            wait(line)
        taken.append(time.perf_counter() - began_at)
    return taken


def wait(line: Line) -> None:
    """Wait for the next message.

    Raises:
        BenchError: None comes within 30 s.
    """
    if not line.socket.poll(int(ANSWER_S * 1e3)):
        raise BenchError(f"the box did not answer within {ANSWER_S:.0f} s")


def times(seconds: list[float]) -> Times:
    """Return the figures of many round trips."""
    ranked = sorted(seconds)
    return Times(
        p50_us=round(ranked[len(ranked) // 2] * 1e6, 1),
        p99_us=round(ranked[len(ranked) * 99 // 100] * 1e6, 1),
    )


def _is_answered(line: Line) -> bool:
    while (received := line.receive()) is not None:
        message = decode(received[0])
        if isinstance(message, Final):
            return True
        if isinstance(message, Refused):
            raise BenchError(message.message)
    return False
