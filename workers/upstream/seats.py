"""Which slot of a server a conversation has. Pure.

A server keeps the prompt of what it answered last in each slot. A conversation that comes back to its own
finds it computed; one that is sent anywhere finds it when it is lucky.
"""

from collections import OrderedDict


class Seats:
    """The slots of one server and the conversations in them."""

    def __init__(self, count: int) -> None:
        """Start with empty slots.

        Args:
            count: How many there are, >= 1.
        """
        self._count = count
        self._of: OrderedDict[str, int] = OrderedDict()  # conversation -> slot, latest used last
        self._busy: set[int] = set()

    def take(self, conversation: str) -> int | None:
        """Return the slot for a conversation's next turn, and hold it; None: all are busy.

        Its own, else an unused one, else the free one that was used least recently.
        """
        slot = self._of.pop(conversation, None)
        if slot is not None and slot not in self._busy:
            return self._hold(conversation, slot)
        unused = sorted(set(range(self._count)) - set(self._of.values()) - self._busy)
        if unused:
            return self._hold(conversation, unused[0])
        for other, held in self._of.items():
            if held not in self._busy:
                del self._of[other]
                return self._hold(conversation, held)
        return None

    def leave(self, slot: int) -> None:
        """The turn is over; the slot keeps its prompt."""
        self._busy.discard(slot)

    def clear(self) -> None:
        """The server is another one now."""
        self._of.clear()
        self._busy.clear()

    def _hold(self, conversation: str, slot: int) -> int:
        self._of[conversation] = slot
        self._busy.add(slot)
        return slot
