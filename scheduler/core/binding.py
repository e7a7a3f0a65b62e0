"""Which row a conversation is bound to, remembered so that it is decided once.

Bounded in all and per lane. What gives way, in this order:
 1. in a lane, what has been idle for its time;
 2. a conversation that was used once before one that had further turns: most conversations of a batch
    end after one request, and an agent's goes on;
 3. the least recently used.
Past the bound of the box the lane with the most one-shot conversations gives one, unless it holds less than
an equal share; then the lane that holds most gives. So one batch lane cannot make every agent's
conversation be decided again. What was just kept never gives way to itself.

Nothing here walks through bindings or lanes: each use is O(1).
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from scheduler.core.crowd import Crowd
from scheduler.core.limits import Limits


class Binding(Struct, array_like=True):
    """What was decided for one conversation."""

    model: str
    rule: str
    class_: str
    confidence: float | None
    decision: bytes  # the Decision JSON, repeated on every turn
    used_at: float
    moved: bool = False  # it started on the NPU instead
    why: str = ""  # why it did, or why it does no longer


class Kept(Struct, frozen=True):
    """A binding and what else must be known to remember it elsewhere."""

    lane: str
    key: str
    binding: Binding
    turned: bool  # the conversation was used more than once


class FrozenBindings(Struct, array_like=True):
    """All bindings at rest."""

    lanes: dict[str, list[dict[str, Binding]]]  # used once, and further turned; see `_Lane`
    crowd: list[tuple[str, int]]
    shots: list[tuple[str, int]]


class _Lane:
    """The bindings of one lane, each part least recently used first."""

    __slots__ = ("once", "turned")

    def __init__(self) -> None:
        self.once: OrderedDict[str, Binding] = OrderedDict()
        self.turned: OrderedDict[str, Binding] = OrderedDict()

    def __len__(self) -> int:
        return len(self.once) + len(self.turned)


class Bindings:
    """Conversation key -> binding."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lanes: dict[str, _Lane] = {}
        self._size = 0
        self._crowd = Crowd()  # lane -> how many it holds
        self._shots = Crowd()  # lane -> how many of them were used once

    def __len__(self) -> int:
        return self._size

    def find(self, lane: str, key: str, at: float) -> Binding | None:
        """Return a live binding and mark it used, which is a further turn; or None."""
        kept = self._lanes.get(lane)
        if kept is None:
            return None
        part = kept.once if key in kept.once else kept.turned
        binding = part.get(key)
        if binding is None:
            return None
        if self._is_idle(binding, at):
            self._drop(lane, part, key)
            return None
        binding.used_at = at
        if part is kept.turned:
            part.move_to_end(key)
        else:
            kept.turned[key] = part.pop(key)
            self._count(lane, kept)
        return binding

    def keep(self, lane: str, key: str, binding: Binding) -> None:
        """Remember a binding, used now; what must give way is forgotten.

        Keeping a key that is there replaces its binding and counts as a further turn.
        """
        was_there = self._forget(lane, key)
        self._add(lane, key, binding, turned=was_there)

    def freeze(self) -> FrozenBindings:
        """Return all of it."""
        lanes: dict[str, list[dict[str, Binding]]] = {
            name: [kept.once, kept.turned] for name, kept in self._lanes.items()
        }
        return FrozenBindings(lanes, self._crowd.freeze(), self._shots.freeze())

    def thaw(self, frozen: FrozenBindings) -> None:
        """Become what was frozen; for an empty one."""
        for name, (once, turned) in frozen.lanes.items():
            kept = self._lanes[name] = _Lane()
            kept.once, kept.turned = OrderedDict(once), OrderedDict(turned)
            self._size += len(kept)
        self._crowd.thaw(frozen.crowd)
        self._shots.thaw(frozen.shots)

    def inherit(self, old: "Bindings", at: float, shift_s: float) -> None:
        """Take over from an earlier start of the broker, within the bounds in force now."""
        known = old.items()
        for one in known:
            one.binding.used_at = min(at, one.binding.used_at + shift_s)
        self.restore(known, at)

    def items(self) -> list[Kept]:
        """Return all bindings, least recently used first, as `restore` takes them."""
        found = [
            Kept(lane, key, binding, turned)
            for lane, kept in self._lanes.items()
            for turned, part in ((False, kept.once), (True, kept.turned))
            for key, binding in part.items()
        ]
        return sorted(found, key=lambda one: one.binding.used_at)

    def idle(self, at: float, bounds: tuple[float, ...]) -> dict[tuple[str, bool], list[int]]:
        """Return by row, and by whether they moved, how many were idle for at most each of some times.

        Args:
            at: Now.
            bounds: Seconds, growing; each count is of those above the bound before it.
        """
        found: dict[tuple[str, bool], list[int]] = {}
        for kept in self._lanes.values():
            for binding in chain(kept.once.values(), kept.turned.values()):
                place = bisect_left(bounds, at - binding.used_at)
                if place < len(bounds):
                    where = binding.model, binding.moved
                    counts = found.get(where) or found.setdefault(where, [0] * len(bounds))
                    counts[place] += 1
        return found

    def restore(self, known: Iterable[Kept], at: float) -> None:
        """Remember what `items` told of another life, within the bounds of this one.

        Args:
            known: Bindings, least recently used first, their times by this core's clock; of two with one
                key the later counts.
            at: Now; what has been idle for its time is left out.
        """
        for one in known:
            self._forget(one.lane, one.key)
            if not self._is_idle(one.binding, at):
                self._add(one.lane, one.key, one.binding, turned=one.turned)

    def _is_idle(self, binding: Binding, at: float) -> bool:
        return at - binding.used_at > self._limits.binding_idle_s

    def _add(self, lane: str, key: str, binding: Binding, *, turned: bool) -> None:
        kept = self._lanes.get(lane)
        if kept is None:
            kept = self._lanes[lane] = _Lane()
        elif len(kept) >= self._limits.bindings_per_lane:
            part, oldest = self._victim(kept, binding)
            del part[oldest]
            self._size -= 1
        (kept.turned if turned else kept.once)[key] = binding
        self._size += 1
        self._count(lane, kept)
        if self._size > self._limits.bindings:
            giver = self._giver(binding)
            self._drop(giver, *self._victim(self._lanes[giver], binding))

    def _giver(self, newest: Binding) -> str:
        """Return the lane that must give a binding."""
        lane = self._shots.largest()
        if lane:
            kept = self._lanes[lane]
            spare = _first(kept.once, newest) is not None
            if spare and len(kept) >= self._limits.bindings // len(self._lanes):
                return lane
        return self._crowd.largest()

    def _victim(self, kept: _Lane, newest: Binding) -> tuple[OrderedDict[str, Binding], str]:
        """Return what a lane forgets first, which is never the newest; it has another."""
        once, turned = _first(kept.once, newest), _first(kept.turned, newest)
        if turned is not None and (
            once is None or self._is_idle(kept.turned[turned], newest.used_at)
        ):
            return kept.turned, turned
        return kept.once, once or ""

    def _forget(self, lane: str, key: str) -> bool:
        """Forget a binding if it is there, and return whether it was."""
        kept = self._lanes.get(lane)
        for part in (kept.once, kept.turned) if kept is not None else ():
            if key in part:
                self._drop(lane, part, key)
                return True
        return False

    def _drop(self, lane: str, part: OrderedDict[str, Binding], key: str) -> None:
        del part[key]
        self._size -= 1
        kept = self._lanes[lane]
        self._count(lane, kept)
        if not kept:
            del self._lanes[lane]

    def _count(self, lane: str, kept: _Lane) -> None:
        self._crowd.put(lane, len(kept))
        self._shots.put(lane, len(kept.once))


def _first(part: OrderedDict[str, Binding], newest: Binding) -> str | None:
    """Return the key least recently used of those that may give way."""
    for key, binding in part.items():
        if binding is not newest:
            return key
    return None
