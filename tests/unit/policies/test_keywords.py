"""Looking for all keywords at once: the same answers as one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ecma.engines import LiteralSet
from policies.keywords import INDEX_BYTES, KeywordIndex, index_of

WORD = st.binary(min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(words=st.sets(WORD, min_size=1, max_size=8), text=st.binary(max_size=60))
def test_one_pass_finds_what_single_searches_find(words: set[bytes], text: bytes) -> None:
    text += b"".join(sorted(words))[:7]
    found = KeywordIndex(tuple(words)).search(text)
    assert found == {word: word in text for word in words}


def test_few_or_very_many_keywords_have_no_index() -> None:
    assert index_of([b"a", b"b", b"c", b"a"]) is None
    assert index_of([b"a", b"b", b"c", b"d"]) is not None
    assert index_of([b"%d" % number for number in range(65)]) is None
    assert index_of([b"x" * 600 + bytes([letter]) for letter in b"abcd"]) is None


class Silent(LiteralSet):
    """A pass that runs out of memory: it can tell nothing."""

    def search(self, data: bytes) -> list[int] | None:
        return None


def test_a_pass_that_cannot_tell_leaves_it_to_single_searches() -> None:
    index = KeywordIndex((b"a", b"b"))
    index._set = Silent((b"a",))
    assert index.search(b"a" * INDEX_BYTES) == {}


def test_a_report_of_nothing_is_checked() -> None:
    literals = LiteralSet((b"a", b"b"))
    assert literals.search(b"xyz") == []

    class Exhausted:
        def Match(self, _: bytes) -> None:  # noqa: N802  # the engine's spelling
            return None

    literals._set = Exhausted()
    assert literals.search(b"xyz") == []
    assert literals.search(b"xay") is None
