"""The sensors worker: reads once a second beside the loop that beats, and says what it read.

Rules of this file: a helper that is asked nothing. Reading has a thread of its own, so that no heartbeat
waits for a file; what keeps it from reading is logged and leaves readings unknown.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Protocol

from msgspec import structs

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
from workers.sensors.trace import BadTrace, Player
from workers.session import Judge

log = logging.getLogger(__name__)
PERIOD_S = 1.0
_ROUND_S = 0.1  # what a round may take without growing old by it


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
        """Return all readings as of now; None: there are no more.

        Raises:
            BadTrace: What is played is no trace from here on.
            OSError: It cannot be read.
        """
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


def open_eyes(conf: settings.Sensors) -> Eyes:
    """Return what the settings name: a tree, or a trace.

    Raises:
        OSError: The trace cannot be read.
    """
    if conf.replay:
        return Player(Path(conf.replay).open("rb"))
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
        told = ""
        while True:
            try:
                self._tell_all(open_eyes(self._conf), tell)
            except Exception as error:  # noqa: BLE001  # this thread's end would leave a worker that beats and is blind
                facts = {"file": self._conf.replay, "error": f"{type(error).__name__}: {error}"}
                if facts["error"] != told:
                    note(log, "sensors_blind", facts, level=logging.ERROR)
                told = facts["error"]
                if isinstance(error, BadTrace | OSError):
                    return
                time.sleep(PERIOD_S)
            else:
                note(log, "trace_over", file=self._conf.replay)
                return

    def _tell_all(self, eyes: Eyes, tell: Tell) -> None:
        due_at = at = time.monotonic()
        while (readings := eyes.collect(at)) is not None:
            tell(Sensed(_older(readings, time.monotonic() - at)))
            self._report(eyes.counts)
            # a second that was missed is not made up
            due_at = max(due_at + PERIOD_S, time.monotonic())
            time.sleep(max(0.0, due_at - time.monotonic()))
            at = time.monotonic()

    def _report(self, counts: dict[tuple[str, Reason], int]) -> None:
        """Log why readings are unknown: at the first time, the tenth, the hundredth and so on."""
        for (name, reason), count in counts.items():
            if count >= self._logged.get((name, reason), 1):
                self._logged[name, reason] = 10 * count
                level = logging.DEBUG if reason is Reason.MISSING else logging.INFO
                facts: dict[str, object] = {"reading": name, "reason": reason.value, "count": count}
                note(log, "reading_unknown", facts, level=level)


def _older(readings: list[Reading], by_s: float) -> list[Reading]:
    """Return readings as of so much later: a round in which much hangs takes its time."""
    if by_s < _ROUND_S:
        return readings
    return [structs.replace(one, age_s=round(one.age_s + by_s, 3)) for one in readings]
