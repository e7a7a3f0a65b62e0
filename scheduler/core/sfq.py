"""Start tags: who is next among flows that share something, whatever the rate it runs at.

Rules of this file: pure; a flow that has something waiting stands in the heap once, under the tag its
head would start at; ties go to the flow that entered first.

Source: Goyal, Vin, Cheng, "Start-time Fair Queueing", 1997. Work of flow f starts at S = max(v, F_f) and
moves the flow's finish tag to F_f = S + cost / weight_f (its equations 4 and 5); v, the virtual time, is
the start tag of the work begun last. It needs no knowledge of the rate, so it holds on a device that
throttles.
"""

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct


class FrozenFlow(Struct, array_like=True):
    """A flow at rest; fields as of `Flow`, and the tag it stands under in the heap."""

    weight: float
    finish: float
    floor: float
    entered: int
    tag: float


class FrozenTags(Struct, array_like=True):
    """Start tags at rest."""

    virtual: float
    entries: int
    flows: list[FrozenFlow]  # in the order in which they were handed in


class Flow:
    """One of those who share."""

    __slots__ = ("entered", "finish", "floor", "weight")

    def __init__(self, weight: float = 1.0, finish: float = 0.0) -> None:
        self.weight = weight  # > 0, unitless share
        self.finish = finish  # F_f, weighted device-seconds
        self.floor = 0.0  # v when it last came back from idling
        self.entered = 0  # its entry in the heap; 0: it has none, another number: that one is stale

    @property
    def start(self) -> float:
        """Tag at which its next work would start."""
        return max(self.floor, self.finish)


F = TypeVar("F", bound=Flow)


class StartTags(Generic[F]):
    """Flows by start tag. Enter, take and leave are O(log flows), leaving is paid for later."""

    __slots__ = ("_entries", "_heap", "_live", "virtual")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, F]] = []  # (start tag, entry, flow)
        self._entries = 0
        self._live = 0
        self.virtual = 0.0  # v; never falls

    def freeze(self, flows: Iterable[F]) -> FrozenTags:
        """Return all of it.

        Args:
            flows: All that share, also those with nothing waiting; who they are is the caller's to keep.
        """
        tags = {entry: tag for tag, entry, _ in self._heap}
        frozen = [
            FrozenFlow(f.weight, f.finish, f.floor, f.entered, tags.get(f.entered, 0.0))
            for f in flows
        ]
        return FrozenTags(self.virtual, self._entries, frozen)

    def thaw(self, frozen: FrozenTags, flows: Iterable[F]) -> None:
        """Become what was frozen; for new ones, and the same flows in the same order."""
        self.virtual, self._entries = frozen.virtual, frozen.entries
        for flow, one in zip(flows, frozen.flows, strict=True):
            flow.weight, flow.finish, flow.floor = one.weight, one.finish, one.floor
            flow.entered = one.entered
            if one.entered:
                self._heap.append((one.tag, one.entered, flow))
        self._live = len(self._heap)
        heapq.heapify(self._heap)

    def come(self, flow: F) -> None:
        """A flow that had nothing waiting has something now: it is lifted to v and banks no credit."""
        flow.floor = self.virtual
        self.enter(flow)

    def enter(self, flow: F) -> None:
        """Place a flow by its tag, or again because the tag has changed."""
        if not flow.entered:
            self._live += 1
        self._entries = flow.entered = self._entries + 1
        heapq.heappush(self._heap, (flow.start, flow.entered, flow))
        if len(self._heap) > 2 * self._live + 64:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].entered]
            heapq.heapify(self._heap)

    def leave(self, flow: F) -> None:
        """A flow has nothing waiting any more."""
        if flow.entered:
            flow.entered = 0
            self._live -= 1

    def take(self) -> F | None:
        """Take out the flow that is next, or return None when nothing waits."""
        heap = self._heap
        while heap:
            _, entry, flow = heapq.heappop(heap)
            if entry == flow.entered:
                flow.entered = 0
                self._live -= 1
                return flow
        return None

    def charge(self, flow: F, cost_s: float) -> float:
        """Begin work of a flow in its turn; return the start tag."""
        tag = max(flow.floor, flow.finish)
        self.virtual = max(self.virtual, tag)
        flow.finish = tag + cost_s / flow.weight
        return tag

    def entries(self) -> list[tuple[float, int, F]]:
        """Return the live entries as a heap."""
        live = [entry for entry in self._heap if entry[1] == entry[2].entered]
        heapq.heapify(live)
        return live
