"""The journal: what happened, written down before anything of it is told to anyone.

Rules of this file: it may fail and the box may not. Whatever the disk does, the journal degrades to none,
says so once in the log and for as long as it lasts in status, and tries again with a fresh segment.
`write` and no `fsync`: a killed process loses nothing, and after a power cut nobody holds a lease.

A burst of events is one write. A segment begins with a checkpoint of the whole core, so it can be read
without those before it; a new one begins when the events weigh more than `segment_bytes` and twice the
checkpoint, which bounds both the disk in use and the share of it that is checkpoints.
"""

import logging
import os
import re
import time
from contextlib import suppress
from pathlib import Path

from scheduler import settings
from scheduler.bus.segment import Header, beginning, burst, shape
from scheduler.core.appliance import Appliance
from scheduler.core.effects import Effect
from scheduler.core.entry import Verdict, changes_nothing, kept
from scheduler.core.events import Event, Produced
from scheduler.core.samples import Sample
from scheduler.log import note

log = logging.getLogger(__name__)

_RETRY_S = 30.0  # after a failure; a full disk is not asked for every request
_LOOK_S = 1.0  # how often the file is looked for: writing into a deleted one tells nothing
_NAME = re.compile(r"journal-(\d{1,12})-(\d{1,9})")


class Journal:
    """The segment being written. Made for one core, by the broker that owns it."""

    def __init__(self, folder: Path, conf: settings.Journal, core: Appliance, kernel: str) -> None:
        """Begin the first segment of this start; where that fails, begin later.

        Args:
            folder: Where segments are; made if it is not there.
            conf: Whether to write, how long segments are and how many are kept.
            core: What the checkpoints are of.
            kernel: Id of the machine's own start.
        """
        self._folder = folder
        self._conf = conf
        self._core = core
        self._kernel = kernel
        self._number = 0
        self._descriptor = -1  # of the segment; -1: none is written
        self._name = ""
        self._size = 0  # bytes of it
        self._full_at = 0  # bytes of it at which the next one begins
        self._look_at = 0.0  # when to look after the file, or to try again
        self._error = ""
        self._pending: list[tuple[Event, list[Verdict]]] = []
        if conf.enabled:
            self._begin(time.monotonic())

    def note(self, event: Event, effects: list[Effect]) -> None:
        """Take in an event and what was decided on it; `flush` writes it."""
        if self._descriptor < 0 or (type(event) is Produced and changes_nothing(effects)):
            return
        self._pending.append(kept(event, effects))

    def flush(self) -> None:
        """Write what was taken in: to be called before any effect of it is performed."""
        if not self._pending:
            return
        try:
            data = burst(self._pending)
            _write(self._descriptor, data)
        except (OSError, TypeError, ValueError, OverflowError) as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            self._fail(str(error), time.monotonic())
        else:
            self._size += len(data)
            self._pending.clear()

    def tend(self, at: float) -> None:
        """Begin a new segment if it is time, and look after the file now and then.

        Args:
            at: Now, monotonic seconds. Everything taken in is flushed.
        """
        if self._descriptor >= 0 and self._size > self._full_at:
            self._begin(at)
        elif at >= self._look_at and self._conf.enabled:
            self._look_at = at + _LOOK_S
            if self._descriptor < 0:
                self._begin(at)
            elif _is_deleted(self._descriptor):
                self._fail("its file was deleted", at)
                self._begin(at)

    def view(self) -> dict[str, object]:
        """Return what status shows: `state` is on, failed or off."""
        is_on = self._descriptor >= 0
        state = "on" if is_on else "failed" if self._conf.enabled else "off"
        name = self._name if is_on else None
        return {"state": state, "segment": name, "bytes": self._size, "error": self._error or None}

    def samples(self) -> dict[str, list[Sample]]:
        """Return what `/metrics` shows of it."""
        if not self._conf.enabled:
            return {}
        is_on = self._descriptor >= 0
        size: dict[str, list[Sample]] = {"journal_bytes": [[self._size]]} if is_on else {}
        return {"journal_up": [[int(is_on)]], **size}

    def close(self) -> None:
        """Write what is left and let go of the file."""
        if self._descriptor >= 0:
            self.flush()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _begin(self, at: float) -> None:
        """Begin the next segment; it has its name only when its checkpoint is whole."""
        boot = self._core.boot
        self._number += 1
        header = Header(
            shape=shape(), boot=boot, number=self._number, kernel=self._kernel,
            wall=time.time(), monotonic=at,
        )  # fmt: skip
        name = f"journal-{boot}-{self._number}"
        fresh = self._folder / f"{name}.new"
        try:
            start = beginning(header, self._core.freeze())
            descriptor = _create(fresh)
            try:
                _write(descriptor, start)
                fresh.replace(self._folder / name)
            except OSError:
                os.close(descriptor)
                with suppress(OSError):
                    fresh.unlink()
                raise
        except (OSError, TypeError, ValueError, OverflowError) as error:  # as `flush`
            self._fail(str(error), at)
            return
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._error:
            note(log, "journal_back", segment=name)
        self._descriptor, self._name, self._error = descriptor, name, ""
        self._size = len(start)
        self._full_at = self._size + max(self._conf.segment_bytes, 2 * self._size)
        self._look_at = at + _LOOK_S
        _drop_oldest(self._folder, self._conf.keep)

    def _fail(self, error: str, at: float) -> None:
        if self._descriptor >= 0:
            with suppress(OSError):
                os.close(self._descriptor)
        if not self._error:
            folder = str(self._folder)
            note(log, "journal_lost", level=logging.ERROR, folder=folder, error=error)
        self._descriptor, self._error = -1, error
        self._size = 0
        self._pending.clear()
        self._look_at = at + _RETRY_S


def segments(folder: Path) -> list[Path]:
    """Return the segments of a folder, newest first; none where it cannot be read."""
    found: list[tuple[int, int, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            match = _NAME.fullmatch(path.name)
            if match:
                found.append((int(match[1]), int(match[2]), path))
    return [path for *_, path in sorted(found, reverse=True)]


def set_aside(path: Path, keep: int) -> None:
    """Give a segment that cannot be used another name, so that it can be looked at; the oldest give way."""
    with suppress(OSError):
        path.replace(path.with_name(f"{path.name}.bad"))
        bad = sorted(path.parent.glob("journal-*.bad"), key=lambda one: one.lstat().st_mtime)
        for surplus in bad[:-keep]:
            surplus.unlink()


def _create(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):  # what is left is refused with the reason, or taken
        written += os.write(descriptor, data[written:])


def _is_deleted(descriptor: int) -> bool:
    try:
        return os.fstat(descriptor).st_nlink == 0
    except OSError:
        return True


def _drop_oldest(folder: Path, keep: int) -> None:
    """Remove the segments beyond those to keep, and what a start that was killed left."""
    with suppress(OSError):
        for surplus in [*segments(folder)[keep:], *folder.glob("journal-*.new")]:
            surplus.unlink()
