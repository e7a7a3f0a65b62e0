"""The loop of `fairlane route --serve`: lines from one pipe, answers into another, until the first one ends.

One question at a time, answered in order. Memory is bounded: what is longer than the longest line is answered
with an error as soon as that is known, and thrown away as it comes.
"""

import os
import time

from workers.backend import Backend
from workers.lines import Lines
from workers.outward import Outward, ready, refused

LINE_MAX_BYTES = 4 * 1024 * 1024  # a text of 600 KiB with each byte as an escape
_PIECE_BYTES = 65536  # what a pipe holds
_HOLD_S = 0.005  # answers to questions that came together leave together, unless they take longer


def serve(backend: Backend, source: int, sink: int) -> None:
    """Say that it is ready, then answer each line, until the source ends.

    Args:
        backend: Warm.
        source: File descriptor that lines come from.
        sink: File descriptor that answers go to.

    Raises:
        BrokenPipeError: Nobody reads the answers any more.
    """
    os.set_blocking(source, True)  # whoever started us may have made them otherwise
    os.set_blocking(sink, True)
    outward = Outward(backend, time.monotonic)
    lines = Lines(LINE_MAX_BYTES, mark=_MARK)
    _write(sink, _ended(ready(backend)))
    while piece := os.read(source, _PIECE_BYTES):
        held, held_at = bytearray(), time.monotonic()
        for line in lines.feed(piece):
            held += _ended(outward.answer(line) if line != _MARK else _TOO_LONG)
            if time.monotonic() - held_at > _HOLD_S:
                _write(sink, held)
                held, held_at = bytearray(), time.monotonic()
        _write(sink, held)
    _write(sink, _ended(outward.answer(lines.rest)))


_MARK = b"\n"  # in the place of a line that is too long; no line is this one
_TOO_LONG = refused(f"the line is longer than {LINE_MAX_BYTES} bytes")


def _ended(line: bytes | None) -> bytes:
    return line + b"\n" if line is not None else b""


def _write(sink: int, lines: bytes | bytearray) -> None:
    left = memoryview(lines)
    while left:
        left = left[os.write(sink, left) :]
