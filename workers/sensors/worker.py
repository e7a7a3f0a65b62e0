"""The sensors worker: reads once a second beside the loop that beats, and says what it read.

Rules of this file: a helper that is asked nothing. Reading has a thread of its own, so that no heartbeat
waits for a file; what keeps it from reading is logged and leaves readings unknown.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Protocol

from scheduler import settings
from scheduler.log import note
from scheduler.wire.catalogue import CatalogueBody
from scheduler.wire.words import Reading
from workers.helper import Sensed
from workers.runner import Tell
from workers.sensors.collector import Collector
from workers.sensors.raw import Reason
from workers.sensors.smi import Smi
from workers.sensors.sources import machine_clocks
from workers.sensors.trace import BadTrace, Player, parse
from workers.session import Judge

log = logging.getLogger(__name__)
PERIOD_S = 1.0


class Eyes(Protocol):
    """Where readings come from."""

    @property
    def is_recorded(self) -> bool:
        """Whether they are of another time, with an end."""
        ...

    @property
    def counts(self) -> dict[tuple[str, Reason], int]:
        """How often each reading was unknown, by reason."""
        ...

    def collect(self, at: float) -> list[Reading] | None:
        """Return all readings as of now; None: there are no more."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def open_eyes(conf: settings.Sensors) -> Eyes:
    """Return what the settings name: a tree, or a trace.

    Raises:
        BadTrace: The trace is none.
        OSError: It cannot be read.
    """
    if conf.replay:
        return Player(parse(Path(conf.replay).read_bytes()))
    root = Path(conf.root)
    # library and clocks are this machine's, whatever tree is looked at
    is_own = root == Path("/")
    return Collector(
        root,
        Smi() if conf.amdsmi and is_own else None,
        clocks=machine_clocks if is_own else None,
    )


class Sensors:
    """Says once a second what the sensors tell."""

    def __init__(self, conf: settings.Sensors) -> None:
        self._conf = conf
        self._thread: threading.Thread | None = None
        self._logged: dict[tuple[str, Reason], int] = {}

    def take_catalogue(self, body: CatalogueBody) -> None:
        """The table is of no concern here."""

    def begin(self, question: Judge, tell: Tell) -> None:
        """Nothing is asked of the sensors."""

    def fetch(self, model: str, tell: Tell) -> None:
        """Nothing is asked of the sensors."""

    def backend(self) -> str:
        """Return where readings come from."""
        return "replay" if self._conf.replay else "sysfs"

    def joined(self, tell: Tell) -> None:
        """Begin to read, at the first registration; later ones hear it from the same thread."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._watch, args=(tell,), name="sensors", daemon=True
            )
            self._thread.start()

    def _watch(self, tell: Tell) -> None:
        try:
            eyes = open_eyes(self._conf)
        except (BadTrace, OSError) as error:
            facts = {"file": self._conf.replay, "error": str(error)}
            note(log, "sensors_blind", facts, level=logging.ERROR)
            return
        due_at = time.monotonic()
        while (readings := eyes.collect(time.monotonic())) is not None:
            tell(Sensed(readings))
            self._report(eyes.counts)
            due_at = max(
                due_at + PERIOD_S, time.monotonic()
            )  # a second that was missed is not made up
            time.sleep(due_at - time.monotonic())
        note(log, "trace_over", file=self._conf.replay)

    def _report(self, counts: dict[tuple[str, Reason], int]) -> None:
        """Log why readings are unknown: at the first time, the tenth, the hundredth and so on."""
        for (name, reason), count in counts.items():
            if count >= self._logged.get((name, reason), 1):
                self._logged[name, reason] = 10 * count
                level = logging.DEBUG if reason is Reason.MISSING else logging.INFO
                facts: dict[str, object] = {"reading": name, "reason": reason.value, "count": count}
                note(log, "reading_unknown", facts, level=level)
