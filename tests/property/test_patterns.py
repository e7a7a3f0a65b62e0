"""Patterns that nobody would write: refused or answered, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.ecma.pattern import compile_pattern
from policies.errors import PolicyError

PIECES = [
    *"ab.^$|()[]{}*+?-\\é0159:=!,",
    "(?:",
    "(?=",
    "(?!",
    "[^",
    "\\b",
    "\\1",
    "{2,3}",
    "[[:w:]]",
]
pieced = st.lists(st.sampled_from(PIECES), min_size=1, max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(source=st.one_of(pieced, st.text(min_size=1, max_size=12)), text=st.text("ab é1\n"))
def test_a_pattern_is_refused_or_answers(source: str, text: str) -> None:
    try:
        pattern = compile_pattern(source)
    except PolicyError as error:
        refusal = str(error)
    else:
        refusal = "regex pattern "
        assert pattern.search(text.encode()) in {True, False, None}
    assert refusal.startswith("regex pattern ")


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=30), start=st.integers(0, 10), length=st.integers(1, 10))
def test_a_text_contains_each_of_its_parts(text: str, start: int, length: int) -> None:
    part = text[start : start + length]
    if part:
        spelled = "".join(f"\\x{byte:02x}" for byte in part.encode("utf-8", "surrogatepass"))
        assert compile_pattern(spelled).search(text.encode("utf-8", "surrogatepass")) is True
