"""All keywords of a policy, looked for together where a text is long.

One search costs about a millisecond a mebibyte, and five times that on a text made for it. A policy
with many keywords looks for all of them in one pass instead, at some three milliseconds.
"""

from collections.abc import Iterable

from policies.ecma.engines import LiteralSet

# From this length on one pass is cheaper than a handful of searches.
INDEX_BYTES = 32_768

# Fewer are quicker one by one; more would make the pass's automaton too large to be quick.
_MIN_KEYWORDS = 4
_MAX_KEYWORDS = 64
_MAX_TOTAL = 2_000


class KeywordIndex:
    """A set of keywords, folded, that one pass can tell apart."""

    __slots__ = ("_keywords", "_set")

    def __init__(self, keywords: tuple[bytes, ...]) -> None:
        self._keywords = keywords
        self._set = LiteralSet(keywords)

    def search(self, data: bytes) -> dict[bytes, bool]:
        """Return for each keyword whether it occurs in `data`, which is folded as well.

        Returns:
            Nothing if one pass cannot tell; each keyword is then to be looked for by itself.
        """
        found = self._set.search(data)
        if found is None:
            return {}
        numbers = set(found)
        return {keyword: index in numbers for index, keyword in enumerate(self._keywords)}


def index_of(needles: Iterable[bytes]) -> KeywordIndex | None:
    """Return an index of some keywords, `None` where it would not pay."""
    keywords = tuple(dict.fromkeys(needles))
    if not _MIN_KEYWORDS <= len(keywords) <= _MAX_KEYWORDS:
        return None
    return KeywordIndex(keywords) if sum(map(len, keywords)) <= _MAX_TOTAL else None
