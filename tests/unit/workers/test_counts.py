"""What replies say of their tokens, in the words of several engines."""

from typing import Any

import pytest

from workers.upstream.counts import Counts, ends, failure, has_token

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}}


@pytest.mark.parametrize(
    ("told", "counts"),
    [
        ({"usage": USAGE}, Counts(9, 7, 4)),
        ({"timings": {"cache_n": 7, "prompt_n": 2, "predicted_n": 4}}, Counts(9, 7, 4)),
        ({"usage": {"prompt_tokens": 9, "completion_tokens": 4}}, Counts(9, 0, 4)),
        (
            {"response": {"usage": {"input_tokens": 9, "output_tokens": 4,
                                    "input_tokens_details": {"cached_tokens": 7}}}},
            Counts(9, 7, 4),
        ),
        (
            {"message": {"usage": {"input_tokens": 2, "cache_read_input_tokens": 7, "output_tokens": 4}}},
            Counts(9, 7, 4),
        ),
        (
            {"message": {"usage": {"input_tokens": 2, "cache_read_input_tokens": 0,
                                    "cache_creation_input_tokens": 7, "output_tokens": 4}}},
            Counts(9, 0, 4),
        ),
        ({"usage": {**USAGE, "cache_read_input_tokens": 7}}, Counts(9, 7, 4)),
        ({"usage": None}, Counts()),
        ({"usage": {"prompt_tokens": "9", "completion_tokens": True}}, Counts()),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 1e9}}, Counts()),
        ({"usage": {"prompt_tokens_details": []}, "timings": "fast"}, Counts()),
    ],
)  # fmt: skip
def test_tokens_are_counted_as_they_are_told(told: dict[str, Any], counts: Counts) -> None:
    seen = Counts()
    seen.take(told)
    assert seen == counts


def test_what_is_said_later_counts() -> None:
    seen = Counts()
    for told in ({"timings": {"cache_n": 7, "prompt_n": 2}}, {"usage": USAGE}, {"usage": None}):
        seen.take(told)
    assert seen == Counts(9, 7, 4)


def test_what_anthropics_end_says_again_is_counted_once() -> None:
    seen = Counts()
    seen.take(
        {
            "message": {
                "usage": {"input_tokens": 2, "cache_read_input_tokens": 7, "output_tokens": 1}
            }
        }
    )
    for told in ({"output_tokens": 4}, {"output_tokens": 4, "cache_read_input_tokens": 7},
                 {"input_tokens": 2, "output_tokens": 4, "cache_read_input_tokens": 7}):  # fmt: skip
        seen.take({"type": "message_delta", "usage": told})
        assert seen == Counts(9, 7, 4)


@pytest.mark.parametrize(
    ("told", "is_token"),
    [
        ({"choices": [{"delta": {"role": "assistant", "content": None}}]}, False),
        ({"choices": [{"delta": {"role": "assistant", "content": ""}}]}, False),
        ({"choices": [{"delta": {"content": "a"}}]}, True),
        ({"choices": [{"delta": {"reasoning_content": "a"}}]}, True),
        ({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}, True),
        ({"choices": [{"text": "a"}]}, True),
        ({"choices": []}, False),
        ({"choices": "no"}, False),
        ({"type": "response.output_text.delta"}, True),
        ({"type": "response.created"}, False),
        ({"type": "content_block_delta"}, True),
        ({"type": "message_delta"}, False),
    ],
)
def test_the_first_token_is_told_from_its_frame(told: dict[str, Any], is_token: bool) -> None:
    assert has_token(told) is is_token


def test_an_end_and_an_error_are_told() -> None:
    assert ends({"choices": [{"finish_reason": "stop"}]})
    assert not ends({"choices": [{"finish_reason": None}]})
    assert ends({"type": "message_stop"})
    assert failure({"error": "boom"}) == {"message": "boom"}
    assert failure({"error": {"code": 1}}) == {"code": 1}
    assert failure({"error": None}) is None
