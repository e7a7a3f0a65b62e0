"""Members of a JSON object changed, and every other byte left as it was."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from workers.upstream.splice import edited, members, renamed, replaced

KEYS = ("model", "x", 'a"b', "response", "\\", "}", "é")
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6)
SPACES = st.sampled_from([None, 0, 1, 3, "\t"])


@given(OBJECTS, SPACES, st.booleans())
def test_each_member_is_found_where_it_stands(
    value: dict[str, Any], indent: Any, ascii_only: bool
) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    found = members(raw)
    assert [one.key for one in found] == list(value)
    for one in found:
        assert json.loads(raw[one.value_at : one.end]) == value[one.key]
        assert json.loads(raw[one.at : one.value_at].rstrip(b": \t\n")) == one.key


@given(OBJECTS, SPACES)
@example({"model": "x", "a": {"model": "kept"}}, None)
def test_only_the_models_bytes_are_others(value: dict[str, Any], indent: Any) -> None:
    raw = json.dumps(value, indent=indent).encode()
    new = replaced(raw, b'"served"')
    model = next((one for one in members(raw) if one.key == "model"), None)
    if model is None:
        assert new == raw
    else:
        assert new == raw[: model.value_at] + b'"served"' + raw[model.end :]


@given(OBJECTS, SPACES)
@example({"x": {"model": "deeper"}}, None)
@example({"x": {"model": "deeper"}, "model": "m"}, None)
@example({"x": "model", "model": 7}, None)
@example({"response": {"model": "m"}}, 1)
@example({"response": {"model": "m"}, "model": "m"}, None)
@example({"response": {"x": {"model": "deeper"}}}, None)
@example({"model": 'a"b'}, None)
def test_the_short_way_comes_to_the_same(value: dict[str, Any], indent: Any) -> None:
    raw = json.dumps(value, indent=indent).encode()
    wrappers = ("response", "message")
    assert renamed(raw, value, b'"s"', wrappers) == replaced(raw, b'"s"', wrappers)


def test_a_wrapped_model_is_replaced_and_a_deeper_one_is_not() -> None:
    raw = b'{ "response":{"model" : "a","x":{"model":"a"}}, "message": null, "model":"a"}'
    assert replaced(raw, b'"s"', ("response", "message")) == (
        b'{ "response":{"model" : "s","x":{"model":"a"}}, "message": null, "model":"s"}'
    )


@given(OBJECTS, SPACES)
def test_an_edit_puts_and_drops_and_keeps_the_rest(value: dict[str, Any], indent: Any) -> None:
    raw = json.dumps(value, indent=indent).encode()
    new = json.loads(edited(raw, {"model": b'"m"', "id_slot": b"3"}, lambda key: key == "x"))
    kept = {key: one for key, one in value.items() if key != "x"}
    assert new == kept | {"model": "m", "id_slot": 3}
    assert list(new)[: len(kept)] == list(kept)


def test_what_is_kept_keeps_its_bytes() -> None:
    raw = b'{"n":1.50, "model":"auto" ,"route_trace" :true,\n "t": "\\u00e9{,}"}'
    new = edited(raw, {"model": b'"m"'}, lambda key: key == "route_trace")
    assert new == b'{"n":1.50,"model":"m","t": "\\u00e9{,}"}'


def test_a_key_that_is_given_twice_is_put_once() -> None:
    raw = b'{"model":"a","model":"b"}'
    assert edited(raw, {"model": b'"m"'}, lambda _: False) == b'{"model":"m"}'
    assert replaced(raw, b'"m"') == b'{"model":"m","model":"m"}'
