"""The question of /tokenize and its reply."""

import json

import pytest

from workers.job import JobError
from workers.tokenizing import Question, read, reply


def asked(**fields: object) -> Question:
    return read(json.dumps(fields).encode())


@pytest.mark.parametrize("field", ["content", "prompt"])
def test_the_text_has_two_names(field: str) -> None:
    question = asked(**{field: "a €", "model": "m", "stream": False})
    assert question.text() == "a €"
    assert (question.add_special, question.parse_special, question.with_pieces) == (
        False,
        True,
        False,
    )


def test_an_empty_text_is_one() -> None:
    assert asked(content="").text() == ""


@pytest.mark.parametrize("body", [
    b"", b"[]", b"{}", b'{"content": 7}', b'{"content": "a", "prompt": "a"}', b'{"content": ["a"]}',
    b'{"content": "a", "with_pieces": "yes"}', b'{"content": "\xff"}', b'{"a":' * 9999,
])  # fmt: skip
def test_what_is_no_question_is_refused(body: bytes) -> None:
    with pytest.raises(JobError) as caught:
        read(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_request")


def test_pieces_are_texts_or_the_bytes_of_a_part_of_a_character() -> None:
    pieces = {1: b"a", 2: b"\xe2\x82"}
    assert reply([1, 2], asked(content="x"), pieces.__getitem__) == {"tokens": [1, 2]}
    told = reply([1, 2], asked(content="x", with_pieces=True), pieces.__getitem__)
    assert told == {"tokens": [{"id": 1, "piece": "a"}, {"id": 2, "piece": [226, 130]}]}
