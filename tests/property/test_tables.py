"""Tables: every good one stands for a policy that parses, routes and comes back the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from policies.desugar import to_policy, to_text
from policies.engine import decide
from policies.parse import parse_policy
from policies.request import context_of
from policies.stubs import StubbedServices
from policies.table import CLASSES, check_table, parse_table

DIGEST = "0123456789abcdef" * 4
MODELS = ["A", "B", "C", "D"]
ROWS = [
    {"model": name, "path": f"/{name}", "device": "hrx", "ctx": 1, "template_sha256": DIGEST}
    for name in MODELS
]
models = st.sampled_from(MODELS)


@given(
    chosen=st.tuples(models, models, models, models),
    default=models,
    tools=st.one_of(st.none(), st.sampled_from(CLASSES)),
    asked=st.sampled_from(["short", "prose", "code"]),
    with_tools=st.booleans(),
)
def test_the_policy_of_a_table_routes_as_the_table_says(
    chosen: tuple[str, ...], default: str, tools: str | None, asked: str, *, with_tools: bool
) -> None:
    classes: dict[str, dict[str, str]] = {
        str(name): {"model": model} for name, model in zip(CLASSES, chosen, strict=True)
    }
    document = {"version": "1", "default_model": default, "classes": classes, "rows": ROWS}
    text = json.dumps(document | ({"tools": tools} if tools else {}))
    assert check_table(text, strict=True) == []
    table = parse_table(text)
    policy = parse_policy(to_policy(table))
    assert json.loads(to_text(table)) == to_policy(table)
    assert policy.candidates[0] == policy.default_model == default
    services = StubbedServices({"classify_laya": {"*": {asked: 0.44}}})
    body: dict[str, object] = {"prompt": "hi", "tools": [{}] if with_tools else []}
    decision = decide(policy, context_of(body), services, trace=False)
    wanted = tools if with_tools and tools else asked
    assert decision.route_to == classes[wanted]["model"]
    assert decision.matched_rule == ("agent-tools" if with_tools and tools else f"laya-{asked}")
    document_text = {"prompt": "x" * 1024}
    assert (
        decide(policy, context_of(dict(document_text)), None, trace=False).route_to
        == (classes["long_doc"]["model"])
    )
    dead = decide(policy, context_of({"prompt": "hi"}), None, trace=False)
    assert (dead.default_used, dead.failed) == (True, ("laya",))
