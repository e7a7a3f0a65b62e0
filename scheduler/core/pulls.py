"""Which rows are on disk, as the store says, and which are on their way.

Rules of this file: pure; it keeps the book and decides nothing. A row that the store has said nothing of is
neither here nor missing: its device's worker looks for itself.
"""

from msgspec import Struct

from scheduler.core.events import RowStock


class Pull(Struct):
    """One row that is being brought here."""

    model: str
    since: float
    store: bytes = b""  # route of the store that was asked; empty: none was there
    done: int = 0  # bytes
    total: int | None = None  # bytes; None: not known


class FrozenPulls(Struct, frozen=True):
    """The book at rest; fields as of `Pulls`."""

    stock: dict[str, RowStock]
    running: list[Pull]


class Pulls:
    """Rows on disk and rows on their way."""

    def __init__(self) -> None:
        self.stock: dict[str, RowStock] = {}
        self.running: dict[str, Pull] = {}

    def freeze(self) -> FrozenPulls:
        """Return all of it."""
        return FrozenPulls(self.stock, list(self.running.values()))

    def thaw(self, frozen: FrozenPulls) -> None:
        """Become what was frozen; for an empty one."""
        self.stock = dict(frozen.stock)
        self.running = {pull.model: pull for pull in frozen.running}
