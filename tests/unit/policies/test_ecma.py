"""Patterns: the same answers as libstdc++ gives, on bytes, in a bounded time.

`tests/vectors/ecmascript.jsonl` holds patterns and texts of our own with the answers that a program
of g++ 12 gave for them.
"""

from pathlib import Path
from time import process_time

import pytest

from policies.ecma.bounds import is_bounded
from policies.ecma.emit import write_set
from policies.ecma.engines import Backtracking, linear
from policies.ecma.exact import simplified
from policies.ecma.pattern import MAX_INPUT, Pattern, compile_pattern
from policies.ecma.syntax import read
from policies.ecma.tree import Ahead, Back, Bytes, Choice, Node, Repeat, Sequence, walk
from policies.errors import PolicyError
from support import shared

VECTORS = shared.json_lines(Path(__file__).parents[2] / "vectors/ecmascript.jsonl")


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row["pattern"])) for row in VECTORS])
def test_a_text_is_found_or_not_as_by_the_reference(row: dict[str, object]) -> None:
    pattern, found = compile_pattern(str(row["pattern"])), row["found"]
    assert isinstance(found, dict)
    assert {text: pattern.search(text.encode()) for text in found} == found


def both_can(row: dict[str, object]) -> bool:
    """Tell whether a pattern does without look-aheads and back-references."""
    parts = walk(read(str(row["pattern"]).encode()))
    return not any(isinstance(part, Ahead | Back) for part in parts)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=str(row["pattern"])) for row in VECTORS if both_can(row)]
)
def test_both_engines_agree_where_both_can(row: dict[str, object]) -> None:
    node, found = read(str(row["pattern"]).encode()), row["found"]
    assert isinstance(found, dict)
    fast, slow = linear(node), Backtracking(node)
    assert fast is not None
    assert {text: fast.search(text.encode()) for text in found} == found
    assert {text: slow.search(text.encode()) for text in found} == found


# Each is meant to be the worst for some engine: exponential, polynomial or with a huge automaton.
WORST = [
    r"(a|a)+$",
    r"(a|aa)+b",
    r"a*a*a*a*a*b",
    r"(x+x+)y",
    r"(.*?,){11}P",
    r"(\w+\s?){1,60}$",
    r"a{1,1000}b",
    r"a{0,500}a{0,500}a{0,500}b",
    r"(a?){50}a{50}b",
    r"[ab]*a[ab]{20}c",
    r"a[ab]{200}c",
    r"a[ab]{2000}c",
    r"a.{0,100}b.{0,100}c.{0,100}d",
    r"([ab]{1,30}){1,30}c",
    r"(?:[ab]{0,50}c?){0,50}d",
    r"foo.{0,1000}zzz",
    r"(?=.*a)(?=.*b)(?=.*z)\d",
    r"a+(?=b)",
    r"^(?!.*foo).*bar$",
    r"(?=(?:a|b)*(?:a|b)*c)",
    r"([ab]+[ab]?)(?=c)",
    r"(.)\1\1\1\1x",
    r"(a+)\1+b",
    r"(.*)\1{2}!",
    r"((.)(.))\1\3\2#",
    r"(\w*)(\w*)(\w*)(\w*)\4x",
    r"[\s\S]{50000}(?=x)",
]
HALF = b"abaabbbabaab01 \n" * (MAX_INPUT // 32)
TEXTS = {
    "one-letter": b"a" * MAX_INPUT,
    "almost": b"a" * (MAX_INPUT - 1) + b"!",
    "two-letters": bytes(97 + (i * 2654435761 >> 7).bit_count() % 2 for i in range(MAX_INPUT)),
    "words": b"foo bar " * (MAX_INPUT // 8),
    "no-letters": b"(" * MAX_INPUT,
    "mixed": HALF + HALF[::-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("source", WORST)
def test_no_pattern_runs_longer_than_50_ms_on_a_mebibyte(source: str) -> None:
    pattern = compile_pattern(source)
    for name, text in TEXTS.items():
        # The process's own time, best of four: the machine may do something else meanwhile.
        spent = min(timed(pattern, text) for _ in range(4))
        assert spent <= 0.05, f"{name}: {spent * 1000:.1f} ms"


def timed(pattern: Pattern, text: bytes) -> float:
    start = process_time()
    pattern.search(text)
    return process_time() - start


def test_a_search_that_is_stopped_says_so() -> None:
    assert compile_pattern(r"(a+)\1+b").search(b"a" * 100_000 + b"b" + b"a") is None


def test_a_longer_text_is_no_match() -> None:
    pattern = compile_pattern("a")
    assert pattern.search(b"a" * MAX_INPUT) is True
    assert pattern.search(b"a" * (MAX_INPUT + 1)) is False


def test_a_pattern_with_a_huge_automaton_still_finds_in_short_texts() -> None:
    pattern = compile_pattern(r"[ab]*a[ab]{20}c")
    assert pattern.search(b"ab" * 1000 + b"ac") is True
    assert pattern.search(b"ab" * 200_000 + b"c") is None


def test_only_patterns_with_small_automata_count_as_bounded() -> None:
    assert is_bounded(read(rb"\b(foo|bar)\b"))
    assert not is_bounded(simplified(read(b"a[ab]{200}c")))
    assert not is_bounded(read(b"(?:ab){3000}"))


def test_patterns_are_equal_by_their_source() -> None:
    assert compile_pattern("a") == compile_pattern("a")
    assert compile_pattern("a") != compile_pattern("b")
    assert compile_pattern("a") != "a"
    assert len({compile_pattern("a"), compile_pattern("a")}) == 1
    assert repr(compile_pattern("a")) == "Pattern('a')"


def test_re2_hands_over_what_it_finds_too_large() -> None:
    assert linear(read(b"a{1001}")) is None
    assert compile_pattern("^a{1001}$").search(b"a" * 1001) is True


A, B = Bytes(1 << 97), Bytes(1 << 98)


@pytest.mark.parametrize(
    ("pattern", "simple"),
    [
        (b"a|b", Bytes(A.members | B.members)),
        (b"(a)", A),
        (b"a++", Repeat(A, 1, None)),
        (b"a+*", Repeat(A, 0, None)),
        (b"a?+", Repeat(A, 0, None)),
        (b"a*?", Repeat(A, 0, None)),
        (b"a+??", Repeat(A, 0, None)),
        (b"aa|ab", Sequence((A, Bytes(A.members | B.members)))),
        (b"aa|a", Sequence((A, Choice((A, Sequence(())))))),
        (b"[]|[]", Bytes(0)),
    ],
)
def test_an_equal_pattern_with_fewer_parts_is_found(pattern: bytes, simple: Node) -> None:
    assert simplified(read(pattern)) == simple


def test_sets_are_spelled_by_the_shorter_side() -> None:
    assert write_set(1 << 97) == r"\x61"
    assert write_set((1 << 256) - 1) == r"[\x00-\xff]"
    assert write_set((1 << 256) - 1 - (1 << 97)) == r"[^\x61]"
    assert write_set((7 << 97) | 1) == r"[\x00\x61-\x63]"


@pytest.mark.parametrize("depth", [101, 5000])
def test_deep_nesting_is_refused_without_recursing(depth: int) -> None:
    with pytest.raises(PolicyError, match="nested too deeply"):
        compile_pattern("(" * depth + ")" * depth)
