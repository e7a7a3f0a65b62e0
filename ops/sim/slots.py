"""The prefix cache of the loaded row: one slot a seat, the least recently used idle one gives way."""

from collections import OrderedDict


class Slots:
    """Conversation -> tokens of it that lie in a slot."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._idle: OrderedDict[str, int] = OrderedDict()  # least recently used first
        self._taken = 0
        self._seen: dict[str, int] = {}  # tokens ever computed of a conversation

    def clear(self) -> None:
        """Another row is loaded: nothing of this one is left. No slot is taken then."""
        self._idle.clear()

    def take(self, conversation: str, prompt_tokens: int) -> tuple[int, int]:
        """Take a slot for a conversation.

        Returns:
            How many tokens of the prompt lie in the slot already, and how many were never computed
            before, here or in a slot that is gone.
        """
        if not conversation:
            self._make_room()
            return 0, prompt_tokens
        cached = self._idle.pop(conversation, None)
        if cached is None:
            self._make_room()
        else:
            self._taken += 1
        cached = min(cached or 0, prompt_tokens)
        return cached, max(0, prompt_tokens - max(cached, self._seen.get(conversation, 0)))

    def give_back(self, conversation: str, tokens: int) -> None:
        """Leave a slot with so many tokens of a conversation in it."""
        self._taken -= 1
        if conversation:
            self._idle[conversation] = tokens
            self._seen[conversation] = max(tokens, self._seen.get(conversation, 0))

    def _make_room(self) -> None:
        self._taken += 1
        if self._idle and len(self._idle) + self._taken > self._count:
            self._idle.popitem(last=False)
