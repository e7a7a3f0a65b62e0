"""What happened to each request, kept for a while after it ended."""

from collections import OrderedDict
from collections.abc import Iterator

Story = list[tuple[float, str, str]]
Past = tuple[str, Story]  # the lane it was of, and what happened


def shifted(story: Story, shift_s: float) -> Story:
    """Return a story by another clock."""
    return [(at + shift_s, what, detail) for at, what, detail in story]


class Stories:
    """Request id -> lane and story; the oldest gives way."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._ended: OrderedDict[str, Past] = OrderedDict()

    def keep(self, rid: str, lane: str, story: Story) -> None:
        """Keep the story of a request that ended."""
        ended = self._ended
        ended[rid] = (lane, story)
        if len(ended) > self._keep:
            ended.popitem(last=False)

    def freeze(self) -> dict[str, Past]:
        """Return all of them, oldest first."""
        return self._ended

    def thaw(self, frozen: dict[str, Past]) -> None:
        """Become what was frozen; for an empty one."""
        self._ended = OrderedDict(frozen)

    def inherit(self, old: "Stories", shift_s: float) -> None:
        """Take over from an earlier start of the broker, within the bound in force now."""
        for rid, (lane, story) in old.freeze().items():
            self.keep(rid, lane, shifted(story, shift_s))

    def of(self, rid: str) -> Past | None:
        """Return the lane and story of an ended request, or None."""
        return self._ended.get(rid)

    def newest(self) -> Iterator[tuple[str, str, Story]]:
        """Yield request id, lane and story, those that were kept last first."""
        for rid in reversed(self._ended):
            yield rid, *self._ended[rid]

    def oldest_at(self) -> float:
        """Return when the story ended that gives way next, or -inf while none has to."""
        if len(self._ended) < self._keep:
            return float("-inf")
        return next(iter(self._ended.values()))[1][-1][0]
