"""What happened to each request, kept for a while after it ended."""

from collections import OrderedDict

Story = list[tuple[float, str, str]]


class Stories:
    """Request id -> story; the oldest gives way."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._ended: OrderedDict[str, Story] = OrderedDict()

    def keep(self, rid: str, story: Story) -> None:
        """Keep the story of a request that ended."""
        ended = self._ended
        ended[rid] = story
        if len(ended) > self._keep:
            ended.popitem(last=False)

    def of(self, rid: str) -> Story | None:
        """Return the story of an ended request, or None."""
        return self._ended.get(rid)
