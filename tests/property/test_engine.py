"""The engine against a second reading of the contract, on random policies and requests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.engine import decide
from policies.parse import parse_policy
from policies.request import context_of
from policies.stubs import StubbedServices
from support.naive import PATTERNS, Json, Naive

WORDS = st.text(alphabet="abAB é\n,", max_size=6)
LABELS = ["X", "Y"]
EDGES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
CLASSIFIERS = ["plain", "free", "lenient"]
ENTRIES: list[Json] = [
    {"id": "plain", "type": "classifier", "model": "m1", "labels": LABELS, "default_label": "X"},
    {"id": "free", "type": "classifier", "model": "m2"},
    {
        "id": "lenient",
        "type": "classifier",
        "model": "m3",
        "labels": LABELS,
        "default_label": "Y",
        "on_error": "match_true",
    },
]

filled = WORDS.filter(bool)
metadata = st.one_of(
    st.fixed_dictionaries({"key": st.sampled_from("kl"), "equals": WORDS}),
    st.fixed_dictionaries({"key": st.sampled_from("kl"), "exists": st.booleans()}),
    st.fixed_dictionaries(
        {"key": st.sampled_from("kl"), "any": st.lists(filled, min_size=1, max_size=2)}
    ),
)
plain: dict[str, st.SearchStrategy[object]] = {
    "keywords_any": st.lists(filled, min_size=1, max_size=3),
    "keywords_all": st.lists(filled, min_size=1, max_size=2),
    "regex": st.sampled_from(sorted(PATTERNS)),
    "min_chars": st.integers(0, 6),
    "max_chars": st.integers(0, 6),
    "min_total_chars": st.integers(0, 20),
    "max_total_chars": st.integers(0, 20),
    "has_tools": st.booleans(),
    "has_images": st.booleans(),
    "metadata": metadata,
}


@st.composite
def bands(draw: st.DrawFn) -> Json:
    name = draw(st.sampled_from(CLASSIFIERS))
    band: Json = {"classifier": name}
    if name != "free" and draw(st.booleans()):
        band["label"] = draw(st.sampled_from(LABELS))
    low, high = sorted([draw(EDGES), draw(EDGES)])
    band |= {"min_score": low} if draw(st.booleans()) else {}
    return band | ({"max_score": high} if draw(st.booleans()) else {})


@st.composite
def leaves(draw: st.DrawFn) -> Json:
    leaf = draw(bands()) if draw(st.booleans()) else {}
    keys = draw(st.lists(st.sampled_from(sorted(plain)), min_size=0 if leaf else 1, max_size=3))
    return leaf | {key: draw(plain[key]) for key in keys}


matches: st.SearchStrategy[Json] = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": WORDS}
)
requests = st.fixed_dictionaries(
    {"messages": st.lists(messages, max_size=4), "route_trace": st.just(value=True)},
    optional={
        "tools": st.lists(st.none(), max_size=1),
        "metadata": st.dictionaries(st.sampled_from("kl"), WORDS, max_size=2),
    },
)
scores = st.one_of(st.none(), st.dictionaries(st.sampled_from(["X", "Y", "Z"]), EDGES, max_size=2))


@st.composite
def policies(draw: st.DrawFn) -> Json:
    rules: list[Json] = []
    for index, match in enumerate(draw(st.lists(matches, min_size=1, max_size=4))):
        route_to = draw(st.sampled_from(["small", "large"]))
        rules.append({"id": f"r{index}", "match": match, "route_to": route_to})
        rules[-1] |= {"outputs": {"n": index}} if draw(st.booleans()) else {}
    return {
        "version": "1",
        "recipe": "collection.router",
        "components": ["small", "large", "m1", "m2", "m3"],
        "routing": {
            "candidates": ["small", "large"],
            "default_model": "small",
            "classifiers": ENTRIES,
            "rules": rules,
        },
    }


@settings(max_examples=300, deadline=None)
@given(policy=policies(), request=requests, said=st.lists(scores, min_size=3, max_size=3))
def test_two_readings_of_the_contract_agree(
    policy: Json, request: Json, said: list[dict[str, float] | None]
) -> None:
    services = StubbedServices({"run_classifier": dict(zip(("m1", "m2", "m3"), said, strict=True))})
    decision = decide(parse_policy(policy), context_of(request), services, trace=True)
    naive = Naive(policy, request, dict(zip(CLASSIFIERS, said, strict=True)))
    assert decision.to_json() == naive.decide()
    assert list(decision.failed) == naive.failed
    asked = [call["run_classifier"] for call in services.calls]
    assert len(asked) == len(set(asked))
