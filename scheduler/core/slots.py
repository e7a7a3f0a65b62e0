"""Which conversations' prompts an engine still holds, and for how long that is worth waiting for.

Rules of this file: pure. An engine keeps the prompt of a conversation in a slot, so that its next turn is
not computed again from the first token. Granting another conversation may take the slot. `hold_until`
says up to which instant that should wait: the think time of a conversation that is likely to come back.

The think time is the least of `limits.think_s` and what computing the prompt again would take: waiting as
long as buying costs is at most twice as dear as knowing the future (the ski-rental bound; Karlin, Manasse,
Rudolph, Sleator, "Competitive snoopy caching", 1988).
"""

from collections import OrderedDict
from collections.abc import Collection

from msgspec import Struct


class Kept(Struct):
    """One conversation's slot."""

    lane: str
    tokens: int = 0  # prompt and answer, as the engine counted them
    until: float = 0.0  # end of its think time
    active: bool = False  # a ticket of it runs


class FrozenSlots(Struct, array_like=True):
    """The slots of an engine at rest."""

    per_row: int
    rows: dict[str, dict[str, Kept]]
    rooms: dict[str, int]


class Slots:
    """The slots of one device's engine: loaded row -> conversation -> slot, least recently used first."""

    def __init__(self) -> None:
        self.per_row = 0  # slots an engine keeps a row at most; 0: it keeps none
        self._rows: dict[str, OrderedDict[str, Kept]] = {}
        self._rooms: dict[str, int] = {}  # slots of each of these rows

    def freeze(self) -> FrozenSlots:
        """Return all of it."""
        return FrozenSlots(self.per_row, dict(self._rows), dict(self._rooms))

    def thaw(self, frozen: FrozenSlots) -> None:
        """Become what was frozen; for an empty one."""
        self.per_row = frozen.per_row
        self._rows = {model: OrderedDict(row) for model, row in frozen.rows.items()}
        self._rooms = dict(frozen.rooms)

    def tokens(self, model: str, conversation: str) -> int:
        """Return how many tokens of a conversation are held, 0 if none are."""
        kept = self._kept(model, conversation)
        return kept.tokens if kept else 0

    def hold_until(
        self, model: str, conversation: str, leaving: Collection[str] = ()
    ) -> tuple[float, str]:
        """Return until when granting a conversation should wait, and for which lane; 0 for not at all.

        Args:
            model: The row it is for.
            conversation: Its key.
            leaving: Rows that must leave the engine for it, and their slots with them.
        """
        known = [self._rows[name] for name in leaving if name in self._rows]
        kept = [slot for leaver in known for slot in leaver.values()]
        row: OrderedDict[str, Kept] = self._rows.get(model, OrderedDict())
        if conversation not in row and len(row) >= self._rooms.get(model, self.per_row):
            kept += [next((slot for slot in row.values() if not slot.active), Kept(""))]
        longest = max(kept, key=lambda slot: slot.until, default=Kept(""))
        return longest.until, longest.lane

    def begin(self, model: str, conversation: str, lane: str, of_row: int | None = None) -> None:
        """A conversation takes a slot: its own, a free one, or that of the one used least recently.

        Args:
            model: The row.
            conversation: Its key.
            lane: Whose it is.
            of_row: Slots that the table gives the row; None: the engine goes by its own number.
        """
        if not self.per_row:
            return
        row = self._rows.setdefault(model, OrderedDict())
        kept = row.pop(conversation, None) or Kept(lane)
        room = self._rooms[model] = min(self.per_row, of_row or self.per_row)
        while len(row) >= room:
            del row[next((key for key, slot in row.items() if not slot.active), next(iter(row)))]
        kept.active, kept.until = True, 0.0
        row[conversation] = kept

    def end(self, model: str, conversation: str, tokens: int, until: float) -> None:
        """A conversation's ticket ended; its slot keeps so many tokens, and is held until then."""
        kept = self._kept(model, conversation)
        if kept is not None:
            kept.tokens, kept.until, kept.active = tokens, until, False

    def _kept(self, model: str, conversation: str) -> Kept | None:
        row = self._rows.get(model)
        return row.get(conversation) if row else None

    def fullest(self) -> dict[str, int]:
        """Return by row the tokens of the longest conversation that is kept."""
        return {
            model: max((slot.tokens for slot in row.values()), default=0)
            for model, row in self._rows.items()
        }

    def drop(self, models: Collection[str]) -> None:
        """Rows leave the engine."""
        for model in models:
            self._rows.pop(model, None)
            self._rooms.pop(model, None)

    def clear(self) -> None:
        """The engine is gone."""
        self._rows.clear()
        self._rooms.clear()
