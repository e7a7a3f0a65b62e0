"""What the store says of the rows: which are on disk, how far a pull is, how it ended."""

from scheduler.core.box import Box
from scheduler.core.events import Pulled, PullMoved, RowStock, Stocked

_STATE_AFTER = {"": "ready", "pull_failed": "failed", "template_mismatch": "mismatch"}


class Puller:
    """Takes in what the store says."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def on_stocked(self, event: Stocked) -> None:
        """The store says which rows are on disk; of rows that no table names it says nothing."""
        if self._is_stores(event.route, event.epoch):
            rows = self._box.catalogue.rows
            self._box.pulls.stock |= {m: s for m, s in event.rows.items() if m in rows}

    def on_moved(self, event: PullMoved) -> None:
        """A pull has come so far."""
        pull = self._box.pulls.running.get(event.model)
        if self._is_stores(event.route, event.epoch) and pull is not None:
            pull.done, pull.total = event.done, event.total

    def on_pulled(self, event: Pulled) -> None:
        """A pull has ended."""
        box = self._box
        if not self._is_stores(event.route, event.epoch) or event.model not in box.catalogue.rows:
            return
        box.pulls.running.pop(event.model, None)
        was = box.pulls.stock.get(event.model)
        state = _STATE_AFTER.get(event.cause, "failed")
        box.pulls.stock[event.model] = RowStock(state, event.message, was.bytes if was else 0)

    def _is_stores(self, route: bytes, epoch: int) -> bool:
        worker = self._box.worker(route, epoch)
        if worker is not None and worker.kind != "store":
            self._box.count("fenced")  # a fact has one owner
        return worker is not None and worker.kind == "store"
