"""Virtual time: a heap of what happens when. Nothing here waits for anything."""

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Loop:
    """The one clock of a run. What is due at the same instant happens in the order it was set."""

    __slots__ = ("_heap", "_set", "now", "stopped")

    def __init__(self) -> None:
        self.now = 0.0  # virtual seconds
        self.stopped = False  # set it, and nothing happens any more
        self._heap: list[tuple[float, int, Action]] = []
        self._set = 0

    def at(self, when: float, what: Action) -> None:
        """Let something happen at an instant, which must not lie in the past."""
        self._set = number = self._set + 1
        heapq.heappush(self._heap, (when, number, what))

    def run(self, until: float) -> None:
        """Let time pass up to an instant, that instant included, or until stopped."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until and not self.stopped:
            self.now, _, what = pop(heap)
            what()
        if not self.stopped:
            self.now = until
