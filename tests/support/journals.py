"""Journals for tests: a stand whose events are written down, and what to do to the files."""

from pathlib import Path

import pytest

from scheduler.bus.journal import Journal, segments
from scheduler.bus.resume import resume
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.settings import Journal as Conf
from support.stand import Stand, catalogue

KERNEL = "this start of the machine"


class WrittenStand(Stand):
    """A stand with a journal, written as the broker writes it: one burst an event."""

    def __init__(self, folder: Path, *, conf: Conf | None = None, boot: int = 1) -> None:
        super().__init__(boot=boot)
        self.conf = conf or Conf()
        self.journal = Journal(folder, self.conf, self.core, KERNEL)

    def send(self, event: ev.Event) -> list[fx.Effect]:
        """Hand one event in and write it down."""
        effects = super().send(event)
        self.journal.note(event, effects)
        self.journal.flush()
        return effects

    def serve(self, number: int, lane: str = "lane") -> None:
        """Let one routed conversation have a turn, from the request to the answer."""
        rid = f"r{number}"
        effects = self.ask(rid, "auto", lane=lane, conversation=f"talk {number}")
        for asked in [e for e in effects if isinstance(e, fx.AskHelper)]:
            effects = self.decided(asked, "N")
        run = next(e for e in effects if isinstance(e, fx.Dispatch))
        self.now += 0.5
        self.finish(run)


def served(folder: Path, turns: int, *, conf: Conf | None = None, boot: int = 1) -> WrittenStand:
    """Return a stand that has served so many conversations, its journal closed."""
    stand = WrittenStand(folder, conf=conf, boot=boot)
    stand.worker()
    stand.scorer()
    for number in range(turns):
        stand.serve(number)
    stand.journal.close()
    return stand


def newest(folder: Path) -> Path:
    """Return the segment written last."""
    return segments(folder)[0]


def restarted(at: float, **fields: object) -> ev.Restarted:
    """Return the event of the next start."""
    given = {
        "at": at, "boot": 2, "same_kernel": False, "shift_s": 0.0, "catalogue": catalogue(),
        "limits": Limits(), "weights": {},
    }  # fmt: skip
    return ev.Restarted(**(given | fields))  # type: ignore[arg-type]  # a test's shorthand


def go_on(folder: Path, at: float, *, kernel: str = KERNEL, **fields: object) -> Appliance | None:
    """Return the core of the next start."""
    return resume(folder, restarted(at, **fields), kernel, 8)


def actions(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the actions that were logged, in order."""
    return [str(getattr(record, "action", "")) for record in caplog.records]
