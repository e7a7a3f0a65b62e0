"""Which row a conversation is bound to, remembered so that it is decided once.

Bounded in all and per lane, least recently used first out, and the lane that holds most gives way
first, so one batch lane cannot make every agent's conversation be decided again.
"""

from collections import OrderedDict

from msgspec import Struct

from scheduler.core.limits import Limits


class Binding(Struct):
    """What was decided for one conversation."""

    model: str
    rule: str
    class_: str
    confidence: float | None
    decision: bytes  # the Decision JSON, repeated on every turn
    used_at: float


class Bindings:
    """Conversation key -> binding."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lanes: dict[str, OrderedDict[str, Binding]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def find(self, lane: str, key: str, at: float) -> Binding | None:
        """Return a live binding and mark it used, or None."""
        kept = self._lanes.get(lane)
        binding = kept.get(key) if kept else None
        if kept is None or binding is None:
            return None
        if at - binding.used_at > self._limits.binding_idle_s:
            self._drop(lane, key)
            return None
        binding.used_at = at
        kept.move_to_end(key)
        return binding

    def keep(self, lane: str, key: str, binding: Binding) -> None:
        """Remember a binding; what must give way is forgotten."""
        kept = self._lanes.get(lane)
        if kept is None:
            kept = self._lanes[lane] = OrderedDict()
        if key not in kept:
            self._size += 1
        kept[key] = binding
        kept.move_to_end(key)
        if len(kept) > self._limits.bindings_per_lane:
            self._drop(lane, next(iter(kept)))
        if self._size > self._limits.bindings:
            crowded = max(sorted(self._lanes), key=lambda name: len(self._lanes[name]))
            self._drop(crowded, next(iter(self._lanes[crowded])))

    def _drop(self, lane: str, key: str) -> None:
        kept = self._lanes[lane]
        del kept[key]
        self._size -= 1
        if not kept:
            del self._lanes[lane]
