"""Which rows are on disk, as the store says, which are on their way, and who waits for them.

Rules of this file: pure; it keeps the book and decides nothing. A row that nobody has said anything of is
neither here nor missing: its device's worker looks for itself.
"""

from math import inf

from msgspec import Struct

from scheduler.core.events import RowStock
from scheduler.core.ticket import Ticket

READY, MISSING, MISMATCH, FAILED = "ready", "missing", "mismatch", "failed"


class Pull(Struct):
    """One row that is being brought here, whether anybody still waits for it or not."""

    model: str
    since: float
    store: bytes = b""  # route of the store that was asked; empty: none was there
    done: int = 0  # bytes
    total: int | None = None  # bytes; None: not known


class FrozenPulls(Struct, frozen=True):
    """The book at rest; fields as of `Pulls`, tickets by their numbers."""

    stock: dict[str, RowStock]
    running: list[Pull]
    waiting: list[int]
    absent_since: float | None


class Pulls:
    """Rows on disk, rows on their way, and tickets that wait for one."""

    def __init__(self, at: float) -> None:
        self.stock: dict[str, RowStock] = {}
        self.running: dict[str, Pull] = {}
        self.waiting: dict[int, Ticket] = {}  # by number, in the order they came
        self.absent_since: float | None = at  # since when there is no store; None: there is one

    def state(self, model: str) -> str | None:
        """Return what is known of a row's files; None: nothing."""
        known = self.stock.get(model)
        return known.state if known is not None else None

    def note(self, model: str, state: str, reason: str) -> None:
        """Write down what has become of a row's files; its size stays what it was."""
        was = self.stock.get(model)
        self.stock[model] = RowStock(state, reason, was.bytes if was is not None else 0)

    def waiters(self, model: str) -> list[Ticket]:
        """Return the tickets that wait for a row, oldest first."""
        return [ticket for ticket in self.waiting.values() if ticket.model == model]

    def due_at(self) -> float:
        """Return when the first of those who wait has waited its time; inf: nobody waits."""
        return min((ticket.pull_until for ticket in self.waiting.values()), default=inf)

    def freeze(self) -> FrozenPulls:
        """Return all of it."""
        return FrozenPulls(
            self.stock, list(self.running.values()), list(self.waiting), self.absent_since
        )

    def thaw(self, frozen: FrozenPulls, tickets: dict[int, Ticket]) -> None:
        """Become what was frozen; for an empty one."""
        self.stock = dict(frozen.stock)
        self.running = {pull.model: pull for pull in frozen.running}
        self.waiting = {number: tickets[number] for number in frozen.waiting}
        self.absent_since = frozen.absent_since

    def inherit(self, old: "Pulls") -> None:
        """Take over what an earlier start of the broker knew of the files.

        What was on its way is so still: the store that comes back says so, or is asked again by who wants it.
        """
        self.stock = dict(old.stock)
