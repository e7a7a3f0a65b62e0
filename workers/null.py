"""An engine that answers with a constant: for measuring everything but the model.

It says so: its backend is "null", and so is its text. It answers at once, or holds its seat for a drawn
time, as a model would; then it can write down when it did, so that a test need not believe the queue.
"""

import os
import random
import threading
import time
from collections.abc import Callable

from scheduler.wire.catalogue import CatalogueBody
from workers.engine import Sink
from workers.job import End, Error, Job, Piece, Unloaded

REPLY = (
    b'{"id":"null","object":"chat.completion","created":0,"model":"null","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"null"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
_CHUNK = (
    b'{"id":"null","object":"chat.completion.chunk","created":0,"model":"null","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"null"},"finish_reason":"stop"}]}'
)


_TICK_S = 0.01


class NullEngine:
    """Answers at once, or after a while."""

    backend = "null"
    slots = 0  # no prompt is kept
    by_row = False

    def __init__(
        self, seats: int, hold_s: float = 0.0, log: str = "", *, fails: bool = False
    ) -> None:
        """Take the settings.

        Args:
            seats: Jobs at a time.
            hold_s: The longest a job holds its seat; drawn evenly from nothing to this.
            log: File to which a held job appends `PID LEASE CLOCK_MONOTONIC` again and again while it
                holds its seat, so that also a killed one has left its last word; empty: none.
            fails: Each job ends in an error, as a broken engine's does.
        """
        self.seats = seats
        self._rows: list[str] = []
        self._hold_s, self._log = hold_s, log
        self._answer = _fail if fails else _answer
        self._cancelled: dict[int, threading.Event] = {}
        self._resident: dict[str, None] = {}  # in order of their first use

    def start(self, job: Job, sink: Sink) -> None:
        """Answer."""
        self._resident[job.model] = None
        if self._hold_s:
            self._cancelled[job.lease] = threading.Event()
            threading.Thread(target=self._hold, args=(job, sink), daemon=True).start()
        else:
            self._answer(job, sink)

    def cancel(self, lease: int) -> None:
        """Let a job go that holds its seat."""
        cancelled = self._cancelled.get(lease)
        if cancelled is not None:
            cancelled.set()

    def _hold(self, job: Job, sink: Sink) -> None:
        """Hold the seat, say so, and answer."""
        cancelled = self._cancelled[job.lease]
        ends_at = time.monotonic() + random.uniform(0.0, self._hold_s)  # noqa: S311  # no secret
        log = os.open(self._log or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            while True:  # once at least: a hold is written down however short it is
                os.write(log, f"{os.getpid()} {job.lease} {time.monotonic()}\n".encode())
                if cancelled.wait(_TICK_S) or time.monotonic() >= ends_at:
                    break
        finally:
            os.close(log)
        del self._cancelled[job.lease]
        if cancelled.is_set():
            sink(End(job.lease, cancelled=True))
        else:
            self._answer(job, sink)

    def close(self) -> None:
        """Nothing outlives the process."""

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Forget a row."""
        self._resident.pop(model, None)
        done(Unloaded(model))

    def sizes(self) -> dict[str, int]:
        """Return the rows it can answer for, which is each of the table; none takes memory."""
        return dict.fromkeys(self._rows, 0)

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn the names of the rows; every row is answered alike."""
        self._rows = list(body.parsed().rows)

    def resident(self) -> list[str]:
        """Return the rows that were asked for: nothing has to be loaded for them."""
        return list(self._resident)


def _answer(job: Job, sink: Sink) -> None:
    if job.stream:
        sink(Piece(job.lease, _CHUNK))
    sink(End(job.lease, b"" if job.stream else REPLY, output_tokens=1))


def _fail(job: Job, sink: Sink) -> None:
    sink(Error(job.lease, 500, "engine_failed", "The null engine was told to fail."))
