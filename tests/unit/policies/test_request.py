"""Requests: what is cut off, what is classified, and what cannot be looked at."""

import pytest

from policies.errors import RequestError
from policies.request import (
    Body,
    content_text,
    context_of,
    head_of,
    laya_text,
    plain_context,
)

TALK: Body = {
    "model": "auto",
    "tools": [{"type": "function"}],
    "metadata": {"k": "v"},
    "messages": [
        {"role": "system", "content": "be terse"},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "second, and much longer"},
    ],
}


def test_the_head_ends_with_the_first_user_turn_and_keeps_the_rest() -> None:
    head = head_of(TALK)
    assert head["messages"] == TALK["messages"][:2]  # type: ignore[index]  # a list
    assert {key: head[key] for key in ("model", "tools", "metadata")} == {
        key: TALK[key] for key in ("model", "tools", "metadata")
    }
    assert context_of(head).input == "first"


def test_later_turns_never_change_the_head() -> None:
    longer = TALK | {"messages": [*TALK["messages"], {"role": "user", "content": "x"}]}  # type: ignore[misc]
    assert context_of(head_of(longer)) == context_of(head_of(TALK))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "x"},
        {"input": "x"},
        {"messages": []},
        {"messages": [{"role": "system", "content": "x"}, "odd", {"role": 5}]},
    ],
)
def test_a_request_without_a_user_turn_is_its_own_head(body: Body) -> None:
    assert head_of(body) == body


def test_the_head_of_an_input_array_ends_with_its_first_user_item() -> None:
    body: Body = {"input": ["a", {"role": "user", "content": "b"}, {"role": "user"}]}
    assert head_of(body) == {"input": ["a", {"role": "user", "content": "b"}]}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (TALK, "first"),
        ({"messages": [{"role": "system", "content": "x" * 5000}]}, ""),
        ({"messages": [{"role": "user"}, {"role": "user", "content": "a"}]}, "a"),
        ({"messages": [{"role": 1}, {"role": "user", "content": [{"type": 1, "text": "a"}]}]}, ""),
        ({"prompt": ["a", "b"]}, "a\nb"),
        ({"input": "a"}, "a"),
        ({"input": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, "a"),
        ({"input": ["a", {"type": "input_text", "text": "b"}]}, "a\nb"),
        ({"input": [{"role": "developer", "content": "a"}]}, ""),
        ({}, ""),
    ],
)
def test_the_text_that_is_classified_is_the_first_user_turn(body: Body, text: str) -> None:
    assert laya_text(body) == text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"messages": [{"role": None, "content": "x"}]}, "must be string, but is null"),
        ({"messages": [{"role": ["user"]}]}, "must be string, but is array"),
        ({"messages": [{"role": "user", "content": [{"type": {}}]}]}, "but is object"),
        ({"messages": [{"role": "tool", "content": [{"type": True}]}]}, "but is boolean"),
        ({"input": [{"type": 1.5}]}, "but is number"),
        ({"prompt": "x", "route_trace": "true"}, "must be boolean, but is string"),
        ({"prompt": "x", "route_trace": None}, "must be boolean, but is null"),
    ],
)
def test_a_field_of_a_wrong_type_cannot_be_looked_at(body: Body, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        context_of(body)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        ({"type": "text", "text": "a"}, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}], "a\n"),
        ([{"type": "text", "text": ""}, {"type": "text", "text": "b"}], "b"),
        ([{"type": "text", "text": 1}, "b", {"type": "image_url"}], ""),
    ],
)
def test_content_is_text_by_its_parts(content: object, text: str) -> None:
    assert content_text(content) == text


def test_a_lone_surrogate_is_measured_and_not_refused() -> None:
    assert context_of({"prompt": "\ud800"}).chars == 3


@pytest.mark.parametrize(
    ("items", "text", "images"),
    [
        (["a", {"type": "input_text", "text": ""}, "b"], "a\nb", False),
        (["a", "", "b"], "a\n\nb", False),
        ([{"content": []}, {"type": "input_text", "text": "b"}], "b", False),
        ([{"type": "input_image", "content": "a"}], "a", False),
        ([{"type": 5, "content": [{"type": "input_image"}]}], "", True),
        ([{"type": "input_image"}, {"role": "tool", "content": [{"type": 7}]}], "", True),
    ],
)
def test_items_of_an_input_array_are_parts_or_have_content(
    items: list[object], text: str, images: bool
) -> None:
    context = context_of({"input": items})
    assert (context.input, context.has_images) == (text, images)


def test_an_image_ends_the_search_before_a_part_of_a_wrong_type() -> None:
    turns = [
        {"role": "user", "content": [{"type": "image_url"}, {"type": 1}]},
        {"role": "user", "content": "q"},
    ]
    context = context_of({"messages": turns})
    assert (context.input, context.has_images, context.total_chars) == ("q", True, 1)


def test_total_length_counts_every_item_of_an_input_array() -> None:
    items = ["ab", {"type": "input_text", "text": "cd"}, {"role": "tool", "content": "ef"}, 5]
    assert context_of({"input": items}).total_chars == 6


def test_a_context_from_parts_is_that_of_a_prompt() -> None:
    made = plain_context("é", has_tools=True, metadata={"k": "v"})
    body: Body = {"prompt": "é", "tools": [1], "metadata": {"k": "v"}, "route_trace": True}
    assert made == context_of(body)
    assert plain_context("").metadata == {}
