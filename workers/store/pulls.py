"""Pulls beside the loop: at most one a row, each in a thread of its own; and what the broker is told.

The threads are daemons: a store that is to leave does not wait for them, and what they have so far stays.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from policies.table import Row, Table
from scheduler.log import note
from scheduler.settings import Store as Conf
from scheduler.wire.words import RowStock
from workers.helper import Pulled, PullMoved, Stocked
from workers.runner import Tell
from workers.store.bring import Bringer, Outcome
from workers.store.places import Named, named_by
from workers.store.stock import REASON_MAX, Stock

log = logging.getLogger(__name__)
_TOLD_EVERY_S = 0.5
_LOOK_EVERY_S = 5.0  # an operator may remove, verify or bring files beside a running store


class _Pull(Struct):
    """One row on its way."""

    files: list[Path] = []  # known once the hub has been looked at
    told: tuple[int, int | None] | None = None


class Pulls:
    """The rows of the table in force, and those on their way."""

    def __init__(self, models: Path, conf: Conf) -> None:
        """Know no row yet.

        Args:
            models: The models directory.
            conf: The store's settings.
        """
        self._stock = Stock(models)
        self._bringer = Bringer(models, conf, self._stock)
        # one look at a time, in one thread: a lost record costs reading a whole file
        self._looks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # of what follows
        self._rows: dict[str, Row] = {}
        self._named = Named(frozenset(), frozenset())
        self._running: dict[str, _Pull] = {}
        self._failed: dict[str, str] = {}  # row -> why its last pull failed
        self._said: dict[str, RowStock] = {}
        self._meter: threading.Thread | None = None
        self._looker: threading.Thread | None = None

    def learn(self, table: Table) -> None:
        """Learn the table."""
        with self._guard:
            self._rows, self._named = dict(table.rows), named_by(table)

    def tell_all(self, tell: Tell) -> None:
        """Tell the state of every row, from a thread of its own."""
        self._looks.put(lambda: self._tell_stock(tell, is_first=True))
        if self._looker is None:
            self._looker = _thread("stock", lambda: self._look_on(tell))

    def tell_changes(self, tell: Tell) -> None:
        """Tell the state of the rows that are not as they were told."""
        self._looks.put(lambda: self._tell_stock(tell))

    def close(self) -> None:
        """Look no more."""
        self._looks.put(None)

    def fetch(self, model: str, tell: Tell) -> None:
        """Bring a row here, unless that is under way."""
        with self._guard:
            row, named = self._rows.get(model), self._named
            if model in self._running:
                return
            if row is not None:
                self._running[model] = _Pull()
                if self._meter is None:
                    self._meter = _thread("meter", lambda: self._measure(tell))
        if row is None:
            text = f"Model '{model}' cannot be pulled: the table in force has no such row."
            tell(Pulled(model, "pull_failed", text, 0.0))
            return
        _thread(f"pull {model}", lambda: self._pull(row, named, tell))

    def _pull(self, row: Row, named: Named, tell: Tell) -> None:
        began_at = time.monotonic()
        outcome = self._brought(row, named)
        with self._guard:
            if self._rows.get(row.model) != row:
                text = f"Model '{row.model}' is another row by now: the table changed; try again."
                outcome = Outcome("pull_failed", text)
        seconds = time.monotonic() - began_at
        level = logging.WARNING if outcome.cause else logging.INFO
        facts = {"model": row.model, "seconds": seconds, **_told(outcome)}
        note(log, "pull_ended", facts, level=level)
        with self._guard:
            del self._running[row.model]
            self._failed.pop(row.model, None)
            if outcome.cause == "pull_failed":
                self._failed[row.model] = outcome.message
        ended = Pulled(row.model, outcome.cause, outcome.message, seconds)
        self._looks.put(lambda: self._tell_end(ended, tell))

    def _tell_end(self, ended: Pulled, tell: Tell) -> None:
        try:
            self._tell_stock(tell)
        finally:
            tell(ended)

    def _brought(self, row: Row, named: Named) -> Outcome:
        def begun(files: list[Path]) -> None:
            with self._guard:
                self._running[row.model].files = files

        try:
            return self._bringer.bring(row, named, begun)
        except Exception as error:  # noqa: BLE001  # the boundary of a thread: somebody waits for its end
            note(log, "helper_failed", level=logging.ERROR, error=_said(error))
            text = f"the store failed with {_said(error)}; see its log"
            return Outcome("pull_failed", f"Model '{row.model}' cannot be pulled: {text}.")

    def _measure(self, tell: Tell) -> None:
        """Tell how far the pulls are until there are none."""
        while True:
            with self._guard:
                if not self._running:
                    self._meter = None
                    return
                running = dict(self._running)
            for model, pull in running.items():
                now = self._bringer.progress(pull.files) if pull.files else None
                if now is not None and now != pull.told:
                    pull.told = now
                    tell(PullMoved(model, *now))
            time.sleep(_TOLD_EVERY_S)

    def _look_on(self, tell: Tell) -> None:
        while True:
            try:
                look = self._looks.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                look = partial(self._tell_stock, tell)
            if look is None:
                return
            try:
                look()
            except Exception as error:  # noqa: BLE001  # the boundary of a thread: it looks again
                note(log, "helper_failed", level=logging.ERROR, error=_said(error))

    def _tell_stock(self, tell: Tell, *, is_first: bool = False) -> None:
        with self._guard:
            rows, failed = dict(self._rows), dict(self._failed)
        found = {model: self._state(row, failed.get(model, "")) for model, row in rows.items()}
        with self._guard:
            changed = {m: s for m, s in found.items() if is_first or self._said.get(m) != s}
            self._said = found
        if changed or is_first:
            tell(Stocked(changed))

    def _state(self, row: Row, failure: str) -> RowStock:
        try:
            state = self._stock.of(row)
        except OSError as error:
            return RowStock("failed", f"its files cannot be used: {error}"[:REASON_MAX])
        if state.state == "missing" and failure:
            return RowStock("failed", failure[:REASON_MAX])
        return state


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _told(outcome: Outcome) -> dict[str, object]:
    return {"cause": outcome.cause, "error": outcome.message} if outcome.cause else {}


def _thread(name: str, work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
