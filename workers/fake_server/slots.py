"""The fake's slots: what each has computed, and which one a request gets.

As llama-server does it: a request names its slot (`id_slot`), else it gets the free one that shares the
longest prefix, else the one used least recently. `cache_prompt: false` computes all of it again.
"""

import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager


class Slot:
    """One slot."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.tokens: list[str] = []  # computed so far
        self.busy = False
        self.used_at = 0.0

    def shares(self, prompt: Sequence[str]) -> int:
        """Return how many tokens of a prompt are computed; the last one never counts as such."""
        count = 0
        for mine, asked in zip(self.tokens, prompt[:-1], strict=False):
            if mine != asked:
                break
            count += 1
        return count


class Slots:
    """All slots of one server."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, prompt: Sequence[str], wanted: int = -1) -> Generator[Slot]:
        """Hold a slot; waits until one is free.

        Args:
            prompt: What will be computed.
            wanted: The slot that the request names; -1: any.
        """
        with self._changed:
            slot = self._free(prompt, wanted)
            while slot is None:
                self._changed.wait()
                slot = self._free(prompt, wanted)
            slot.busy = True
        try:
            yield slot
        finally:
            with self._changed:
                slot.busy = False
                slot.used_at = time.monotonic()
                self._changed.notify_all()

    def view(self, ctx: int) -> list[dict[str, object]]:
        """Return what GET /slots says."""
        return [
            {"id": s.number, "is_processing": s.busy, "n_ctx": ctx, "n_cached": len(s.tokens)}
            for s in self._slots
        ]

    def _free(self, prompt: Sequence[str], wanted: int) -> Slot | None:
        if 0 <= wanted < len(self._slots):
            return None if self._slots[wanted].busy else self._slots[wanted]
        free = [slot for slot in self._slots if not slot.busy]
        best = max(free, key=lambda slot: slot.shares(prompt), default=None)
        if best is None or best.shares(prompt) * 10 > len(prompt):
            return best
        return min(free, key=lambda slot: slot.used_at)
