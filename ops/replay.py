"""What `fairlane replay` does: hand a segment's events to a fresh core, and hold it to what was decided.

The core is the one the broker runs; nothing here knows how it decides.
"""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from scheduler.bus.segment import Kept, Reader
from scheduler.core.appliance import Appliance
from scheduler.core.entry import verdicts
from scheduler.core.events import Event

_STEP = 4096  # events between two looks at how far it is


class Difference(Struct, frozen=True):
    """The first event on which the core decided otherwise.

    Attributes:
        number: Of the event in its segment, from 1.
        at: Its instant, monotonic seconds of the box.
        event: Its kind.
        expected: What was decided then, one list an effect.
        got: What is decided now.
    """

    number: int
    at: float
    event: str
    expected: list[Any]
    got: list[Any]


class Report(Struct, frozen=True, kw_only=True):
    """What a replay found.

    Attributes:
        file: The segment.
        boot: Which start of the broker wrote it.
        events: Events replayed.
        decisions: Requests that were placed by the policy.
        placements: Seats that were granted.
        answers: Requests that were answered.
        refusals: Requests that were refused.
        span_s: Seconds between the first and the last event.
        torn_bytes: Bytes of a last burst that was not written whole.
        damaged_bytes: Bytes that could not be read because something before them is damaged.
        took_s: Seconds the replay took.
        rate: Events a second.
        difference: The first one, or None.
    """

    file: str
    boot: int
    events: int
    decisions: int
    placements: int
    answers: int
    refusals: int
    span_s: float
    torn_bytes: int
    damaged_bytes: int
    took_s: float
    rate: float
    difference: Difference | None

    @property
    def is_clean(self) -> bool:
        """Whether everything was read and decided as it had been."""
        return self.difference is None and not self.damaged_bytes


def replay(
    file: Path, until: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Replay a segment as far as it is whole.

    Args:
        file: The segment; it may be the one that is being written.
        until: Stop after so many events; None: replay all.
        progress: Told the bytes read and those there are, now and then.

    Raises:
        scheduler.bus.segment.BadSegment: It is none, or of another version.
        OSError: It cannot be read.
    """
    began_at = time.perf_counter()
    with Reader(file) as reader:
        core = Appliance.restored(reader.checkpoint)
        seen: Counter[str] = Counter()
        number, first_at, last_at = 0, None, 0.0
        difference = None
        for event, expected in reader.entries():
            if number == until:
                break
            number += 1
            first_at, last_at = event.at if first_at is None else first_at, event.at
            difference = _difference(number, core, (event, expected))
            if difference is not None:
                break
            seen.update(verdict[0] for verdict in expected)
            if progress is not None and number % _STEP == 0:
                progress(reader.offset, reader.size)
        is_read = difference is None and number != until
        left = reader.left if is_read else 0
        took_s = time.perf_counter() - began_at
        return Report(
            file=str(file),
            boot=reader.header.boot,
            events=number,
            decisions=seen["place"],
            placements=seen["dispatch"],
            answers=seen["answer"],
            refusals=seen["refuse"],
            span_s=round(last_at - (first_at or last_at), 3),
            torn_bytes=0 if reader.is_damaged else left,
            damaged_bytes=left if reader.is_damaged else 0,
            took_s=round(took_s, 3),
            rate=round(number / took_s),
            difference=difference,
        )


def _difference(number: int, core: Appliance, kept: Kept) -> Difference | None:
    event, expected = kept
    got: list[Any] = [list(verdict) for verdict in _decided(core, event)]
    if got == expected:
        return None
    return Difference(number, event.at, type(event).__name__, expected, got)


def _decided(core: Appliance, event: Event) -> list[tuple[Any, ...]]:
    """Return what the core decides; an event that it cannot even take in is a difference as well."""
    try:
        return [*verdicts(core.handle(event))]
    except Exception as error:  # noqa: BLE001  # whatever it is, it did not happen then
        return [("error", type(error).__name__, str(error))]
