"""The models that one engine has loaded, and what they weigh.

The broker says what leaves before what comes; the rack only refuses to load what the machine's memory has
no room for at that moment, which the broker cannot see.
"""

import logging
import time

import psutil

from policies.pins import DEFAULT_TEMPLATE
from policies.table import Row
from policies.why import Reason, Why
from scheduler.log import note
from workers.job import JobError
from workers.loaded import Loaded
from workers.pinned import Pinned
from workers.rows import file_of, size_of, unusable, used

log = logging.getLogger(__name__)
# Until a row was loaded once, its cache is taken to need this much a token of context: a dense model of
# 8B with grouped attention needs 128 KiB in half precision, one of 1B 32 KiB.
_CACHE_PER_TOKEN = 64 * 1024


class Rack:
    """Loaded models by name."""

    def __init__(self, device: str, backend: str, threads: int, pinned: Pinned) -> None:
        """Start empty.

        Args:
            device: Kind of device; only its rows are loaded.
            backend: What computes, for the log.
            threads: Processor threads of a model.
            pinned: What the files' templates are held to.
        """
        self._device = device
        self._backend = backend
        self._threads = threads
        self._pinned = pinned
        self._rows: dict[str, Row] = {}
        self._loaded: dict[str, Loaded] = {}
        self._sizes: dict[str, int] = {}
        self._told: set[str] = (
            set()
        )  # rows of which it was said that their extra files are not used

    def learn(self, rows: dict[str, Row]) -> None:
        """Learn which rows there are, and what those on disk would weigh."""
        self._rows = rows
        for name, row in rows.items():
            if row.device == self._device and name not in self._sizes:
                size = _guess(row)
                if size:
                    self._sizes[name] = size

    def names(self) -> list[str]:
        """Return the loaded models."""
        return list(self._loaded)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each row that is on disk: measured if it was loaded once, else guessed."""
        return dict(self._sizes)

    def row(self, model: str) -> Row:
        """Return a row that this engine can run.

        Raises:
            JobError: 503, there is none of that name for this device.
        """
        row = self._rows.get(model)
        if row is None or row.device != self._device:
            raise JobError(503, "model_not_usable", f"No row '{model}' for {self._device} here.")
        return row

    def get(self, model: str) -> Loaded | None:
        """Return a loaded model, or None."""
        return self._loaded.get(model)

    def load(self, row: Row) -> tuple[Loaded, float]:
        """Load a row; return it and the seconds it took.

        Raises:
            JobError: 503, it is not on disk, does not fit, cannot be loaded or is not the pinned file.
        """
        path = file_of(row)
        used(row)
        digests = self._pinned.check(row, path)
        _check_room(row, self._sizes.get(row.model, 0))
        began_at = time.monotonic()
        loaded = Loaded(row, str(path), self._threads)
        load_s = time.monotonic() - began_at
        if loaded.digest != digests.get(DEFAULT_TEMPLATE, ""):
            raise unusable(row, Why.TEMPLATE_MISMATCH, "its file changed while it was loaded")
        self._loaded[row.model] = loaded
        self._sizes[row.model] = loaded.size
        note(
            log,
            "model_loaded",
            model=row.model,
            device=self._device,
            backend=self._backend,
            load_s=load_s,
            bytes=loaded.size,
            template_sha256=loaded.digest,
            pin=self._pinned.verdict(path, digests),
        )
        self._tell_unused(row)
        return loaded, load_s

    def _tell_unused(self, row: Row) -> None:
        """Say once of a row that it is served without its extra files: the library cannot use any here."""
        if row.extra_files and row.model not in self._told:
            self._told.add(row.model)
            unused = {extra.role: extra.file for extra in row.extra_files}
            note(log, "extra_unused", level=logging.WARNING, model=row.model, unused=unused)

    def drop(self, model: str) -> None:
        """Let go of a model, loaded or not."""
        if self._loaded.pop(model, None) is not None:
            note(log, "model_unloaded", model=model, device=self._device)


def _guess(row: Row) -> int:
    try:
        return size_of(row) + row.slots * row.ctx * _CACHE_PER_TOKEN
    except (JobError, OSError):
        return 0  # not on disk: unknown


def _check_room(row: Row, size: int) -> None:
    free = psutil.virtual_memory().available
    if size > free:
        text = f"it needs {size / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free"
        raise unusable(row, Reason.LOAD_FAILED, text)
