"""Which rows are loaded, and which must leave so that another fits: one memory for all devices of a box.

Rules of this file: pure. A row counts from the grant that loads it until its worker says that it is gone,
so two admissions never read the same free memory. A row that is loading or at work is never evicted, a
pinned one neither. There is no limit on the number of rows.

Who leaves: the row with the longest idle time per second that loading it again would take, since that is
the reload least likely to be paid for soon. Rows whose worker names no size are not counted: an engine
that keeps its own house (a running server) does so without us.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from msgspec import Struct

Place = tuple[str, str]  # device instance, row


class Terms(NamedTuple):
    """On which terms a row stays loaded."""

    pinned: bool = False
    ttl_s: float | None = None


class Resident(Struct):
    """One loaded row."""

    size: int  # bytes, 0: its worker names none
    used_at: float
    busy: int = 0  # tickets that load or use it
    pinned: bool = False
    ttl_s: float | None = None  # idle seconds after which it leaves; None: never
    leaving: bool = False  # its worker was told to let it go


class FrozenResidency(Struct):
    """The loaded rows at rest; fields as of `Residency`."""

    budget: int | None
    rows: list[tuple[str, str, Resident]]  # device, row
    sizes: list[tuple[str, str, int]]
    reserved: list[tuple[int, int]]
    leaving: list[Place]
    gone: list[Place]


class Residency:
    """The loaded rows of a box."""

    def __init__(self, budget: int | None, load_s: Callable[[str], float]) -> None:
        """Start empty.

        Args:
            budget: Bytes that loaded rows and reservations may take; None: no bound.
            load_s: Returns the seconds that loading a row takes.
        """
        self.budget = budget
        self.rows: dict[Place, Resident] = {}
        self.sizes: dict[Place, int] = {}  # as the workers name them
        self.reserved: dict[int, int] = {}  # ticket of an outside lane -> bytes
        self.leaving: list[Place] = []  # to be told to their workers, by whoever collects them
        self.gone: set[Place] = set()  # evicted by a grant, and not yet missing in a heartbeat
        self._load_s = load_s

    def freeze(self) -> FrozenResidency:
        """Return all of it."""
        return FrozenResidency(
            self.budget,
            [(*place, row) for place, row in self.rows.items()],
            [(*place, size) for place, size in self.sizes.items()],
            list(self.reserved.items()),
            self.leaving,
            sorted(self.gone),
        )

    def thaw(self, frozen: FrozenResidency) -> None:
        """Become what was frozen; for an empty one."""
        self.rows = {(device, model): row for device, model, row in frozen.rows}
        self.sizes = {(device, model): size for device, model, size in frozen.sizes}
        self.reserved, self.leaving = dict(frozen.reserved), list(frozen.leaving)
        self.gone = set(frozen.gone)

    def inherit(self, old: "Residency") -> None:
        """Take over the sizes from an earlier start of the broker; workers say again what is loaded."""
        self.sizes = dict(old.sizes)

    def used(self) -> int:
        """Return the bytes that are taken."""
        return sum(row.size for row in self.rows.values()) + sum(self.reserved.values())

    def never_fits(self, device: str, model: str) -> bool:
        """Return whether a row could not be loaded even beside nothing but the pinned ones."""
        return self.exceeds(self.sizes.get((device, model), 0), model)

    def exceeds(self, size: int, model: str = "") -> bool:
        """Return whether so many bytes are more than can ever be free beside the pinned rows.

        Args:
            size: Bytes.
            model: The row they are for, which may be pinned itself; empty: they are an outside lane's.
        """
        if self.budget is None:
            return False
        others = sum(r.size for place, r in self.rows.items() if r.pinned and place[1] != model)
        return size > 0 and size + others > self.budget

    def has(self, device: str, model: str) -> bool:
        """Return whether a row needs no load."""
        row = self.rows.get((device, model))
        return row is not None and not row.leaving

    def evicts(self, device: str, model: str, at: float) -> list[Place] | None:
        """Return what must leave so that a row fits; None: not even that would do now."""
        if (device, model) in self.rows:
            return None if self.rows[device, model].leaving else []
        return self._make_room(self.sizes.get((device, model), 0), at)

    def _make_room(self, size: int, at: float) -> list[Place] | None:
        if self.budget is None or not size:
            return []
        short = self.used() + size - self.budget
        victims: list[Place] = []
        if short > 0:
            idle = [p for p, r in self.rows.items() if not r.busy and not r.pinned and r.size]
            for place in sorted(idle, key=lambda p: (-self._worth(p, at), p)):
                victims.append(place)
                short -= self.rows[place].size
                if short <= 0:
                    break
        return victims if short <= 0 else None

    def _worth(self, place: Place, at: float) -> float:
        """Return how little a loaded row is worth: idle seconds per second of its load."""
        return (at - self.rows[place].used_at) / max(1e-3, self._load_s(place[1]))

    def clear_for(self, device: str, model: str, at: float) -> bool:
        """Return whether a row can be granted now; what must leave other devices is told to.

        What must leave the device itself leaves with the grant: its worker lets it go first.
        """
        victims = self.evicts(device, model, at)
        if victims is None:
            return False
        return self._send_away([place for place in victims if place[0] != device])

    def reserve(self, ticket: int, size: int, at: float) -> bool:
        """Keep memory free for an outside lane; False: not yet, what can leave is told to."""
        victims = self._make_room(size, at)
        if victims is None or not self._send_away(victims):
            return False
        self.reserved[ticket] = size
        return True

    def _send_away(self, victims: list[Place]) -> bool:
        for place in victims:
            row = self.rows[place]
            if not row.leaving:
                row.leaving = True
                self.leaving.append(place)
        return not victims

    def enter(
        self, device: str, model: str, at: float, *, pinned: bool, ttl_s: float | None
    ) -> list[str]:
        """A ticket takes a row; return the rows of the device that must leave before it is loaded."""
        row = self.rows.get((device, model))
        if row is not None:
            row.busy += 1
            row.used_at, row.pinned, row.ttl_s = at, pinned, ttl_s
            return []
        victims = [name for on, name in self.evicts(device, model, at) or [] if on == device]
        for name in victims:
            del self.rows[device, name]
            self.gone.add((device, name))
        self.gone.discard((device, model))
        size = self.sizes.get((device, model), 0)
        self.rows[device, model] = Resident(size, at, 1, pinned, ttl_s)
        return victims

    def leave(self, device: str, model: str, at: float) -> None:
        """A ticket is done with its row."""
        row = self.rows.get((device, model))
        if row is not None:
            row.busy = max(0, row.busy - 1)
            row.used_at = at

    def confirm(
        self,
        device: str,
        resident: Collection[str],
        sizes: dict[str, int],
        at: float,
        terms: Callable[[str], Terms] = lambda _: Terms(),
    ) -> bool:
        """Take in what a worker says it holds; return whether memory may have become free.

        Args:
            device: Its device.
            resident: Rows that are loaded.
            sizes: Bytes of rows, where they are new.
            at: Now.
            terms: Returns on which terms a row is loaded that no grant of ours brought here.
        """
        before = self.used()
        for model, size in sizes.items():
            self.sizes[device, model] = size
        for (on, model), row in list(self.rows.items()):
            if on == device:
                row.size = self.sizes.get((on, model), 0)
                if model not in resident and not row.busy:
                    del self.rows[on, model]
        self.gone = {place for place in self.gone if place[0] != device or place[1] in resident}
        for place in [(device, model) for model in resident]:
            # one that was evicted is named by a heartbeat that crossed the grant; any other that is not
            # known was loaded before the broker's restart
            if place not in self.rows and place not in self.gone:
                size, term = self.sizes.get(place, 0), terms(place[1])
                self.rows[place] = Resident(size, at, pinned=term.pinned, ttl_s=term.ttl_s)
        return self.used() < before

    def forget(self, device: str) -> None:
        """A worker is gone, and what it had loaded with it."""
        for place in [place for place in self.rows if place[0] == device]:
            del self.rows[place]

    def expire(self, at: float) -> None:
        """Send away what has idled for longer than its row allows, and is its engine's to let go of."""
        self._send_away(
            [
                place
                for place, row in self.rows.items()
                if row.ttl_s is not None
                and row.size
                and not row.busy
                and not row.pinned
                and at - row.used_at >= row.ttl_s
            ]
        )
