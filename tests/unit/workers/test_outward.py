"""The daemon protocol spoken outward: the form of every line, and an answer to whatever comes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.counting import CountingBackend
from workers.outward import Outward, ready, tell

CRITERIA = {"code": "source code", "prose": None, "short": "one word"}
QUESTION: dict[str, Any] = {"type": "choice", "instructions": "What kind?", "criteria": CRITERIA}
GATE = 1024


def ask(line: object, backend: CountingBackend | None = None) -> dict[str, Any]:
    """Return the answer to a line; anything but bytes is sent as JSON."""
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    answer = Outward(backend or CountingBackend(), lambda: 5.0).answer(raw)
    assert answer is not None
    assert b"\n" not in answer
    reply: dict[str, Any] = json.loads(answer)
    return reply


def asked(state: object = "Why?", **fields: object) -> dict[str, object]:
    return {"state": state, "questions": {"cls": QUESTION}, **fields}


def test_the_ready_line_is_the_daemons_to_the_byte() -> None:
    assert ready(CountingBackend()) == b'{"status":"ready","model":"counting"}'


def test_a_choice_is_answered_in_the_daemons_form() -> None:
    reply = ask(asked(id="7"))
    added = {name: reply.pop(name) for name in ("class", "confidence", "why")}
    assert reply == {
        "model": "counting",
        "answers": {
            "cls": {
                "type": "choice",
                "choice": "prose",
                "probabilities": {"code": 0.1, "prose": 0.8, "short": 0.1},
                "confidence": 0.4183,
                "action": {"act_probability": 1.0},
            }
        },
        "usage": {"input_tokens": 0, "output_tokens": 0, "latency_ms": 0.0},
        "id": "7",
    }
    assert added == {"class": "prose", "confidence": 0.4183, "why": "scorer"}


@pytest.mark.parametrize(
    "own", [7, "7", "", None, 1.5, True, [1, {"a": None}], {"b": 1}, 2**70, "\ud83d"]
)
def test_the_id_comes_back_as_it_was(own: object) -> None:
    assert ask(asked(id=own))["id"] == own
    assert ask({"id": own})["id"] == own


def test_a_request_without_an_id_has_the_daemons_default() -> None:
    assert ask(asked())["id"] == "0"


def test_every_question_gets_an_answer_and_the_model_is_asked_once() -> None:
    backend = CountingBackend()
    reply = ask(asked(questions={"a": QUESTION, "": QUESTION}), backend)
    assert (list(reply["answers"]), len(backend.asked)) == (["a", ""], 1)


def test_probabilities_come_in_the_order_of_the_criteria_asked() -> None:
    mixed = {**QUESTION, "criteria": ["short", "code", "prose"]}
    answer = ask(asked(questions={"cls": mixed}))["answers"]["cls"]
    assert list(answer["probabilities"]) == ["short", "code", "prose"]


def test_a_question_without_a_type_is_a_choice() -> None:
    assert ask(asked(questions={"q": {"criteria": CRITERIA}}))["answers"]["q"]["choice"] == "prose"


def test_a_backend_without_probabilities_reports_none() -> None:
    answer = ask(asked(), CountingBackend(probabilities={}))["answers"]["cls"]
    assert (answer["choice"], answer["probabilities"]) == ("prose", {})


@pytest.mark.parametrize(
    ("state", "seen"),
    [
        ("Why?", "Why?"),
        ("", ""),
        ("\0 \ud83d", "\0 \ud83d"),
        ({"b": 1, "a": "ä"}, '{"b": 1, "a": "ä"}'),
        ([1, None], "[1, null]"),
        (5, "5"),
    ],
)
def test_a_state_that_is_no_string_is_seen_as_json(state: object, seen: str) -> None:
    backend = CountingBackend()
    ask(asked(state), backend)
    assert backend.asked == [seen]


def test_a_text_alone_asks_the_question_that_is_always_asked() -> None:
    reply = ask({"id": 1, "text": "Why?"})
    assert (reply["class"], reply["confidence"], reply["why"]) == ("prose", 0.4183, "scorer")
    assert reply["answers"]["cls"]["choice"] == "prose"


def test_of_text_and_state_the_text_counts() -> None:
    backend = CountingBackend()
    ask(asked("state", text="text"), backend)
    assert backend.asked == ["text"]


# --- the size gate --------------------------------------------------------------------------------

BELOW = {
    "ascii": "a" * (GATE - 1),
    "two bytes a letter": "é" * 511 + "a",
    "four bytes a letter": "\N{GRINNING FACE}" * 255 + "abc",
    "nothing": "",
}
FROM = {
    "ascii": "a" * GATE,
    "two bytes a letter": "é" * 512,
    "a letter that straddles the edge": "a" * (GATE - 1) + "é",
    "four bytes a letter": "a" * (GATE - 2) + "\N{GRINNING FACE}",
    "a lone surrogate is three bytes": "a" * (GATE - 3) + "\ud83d",
}


@pytest.mark.parametrize("text", BELOW.values(), ids=BELOW.keys())
def test_below_the_gate_the_backend_is_asked(text: str) -> None:
    backend = CountingBackend()
    assert ask({"text": text}, backend)["class"] == "prose"
    assert backend.asked == [text]


@pytest.mark.parametrize("text", FROM.values(), ids=FROM.keys())
@pytest.mark.parametrize("form", ["text", "state"])
def test_from_the_gate_on_it_is_a_document_and_nobody_is_asked(text: str, form: str) -> None:
    backend = CountingBackend()
    reply = ask({form: text, "questions": {"cls": QUESTION}}, backend)
    assert (reply["class"], reply["confidence"], reply["why"]) == ("long_doc", 1.0, "size_gate")
    assert backend.asked == []


def test_of_a_document_the_choice_stays_among_the_criteria_and_is_for_nothing_sure() -> None:
    answer = ask(asked("a" * GATE))["answers"]["cls"]
    assert answer["choice"] in CRITERIA
    assert answer["probabilities"] == {"code": 0.3333, "prose": 0.3333, "short": 0.3333}
    assert answer["confidence"] == 0.0


def test_a_document_needs_no_backend_that_works() -> None:
    assert tell(CountingBackend("down"), "a" * GATE).class_ == "long_doc"


# --- what goes wrong ------------------------------------------------------------------------------


def test_a_backend_that_fails_is_an_error_of_that_id() -> None:
    reply = ask(asked(id=3), CountingBackend("the daemon died"))
    assert reply == {"error": "the daemon died", "why": "scorer_down", "id": 3}


UNREADABLE: dict[str, bytes] = {
    "no JSON": b"hello",
    "half a line": b'{"id":1,"text":"a',
    "two objects": b"{} {}",
    "not UTF-8": b'{"text":"\xff"}',
    "NUL": b'{"text":"a"}\0',
    "only NUL": b"\0",
    "a byte order mark": b'\xef\xbb\xbf{"text":"a"}',
    "deep": b"[" * 100_000,
    "a deep state": b'{"text":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a deep id": b'{"id":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "NaN": b'{"id":NaN}',
    "an endless number": b'{"id":' + b"9" * 5000 + b"}",
    "a number that JSON cannot spell": b'{"id":1e999}',
    "a list": b"[1]",
    "a string": b'"text"',
    "null": b"null",
}


@pytest.mark.parametrize("line", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_line_that_cannot_be_read_is_an_error_without_an_id(line: bytes) -> None:
    reply = ask(line)
    assert list(reply) == ["error"]
    assert isinstance(reply["error"], str)


def test_a_deep_id_that_can_be_read_comes_back() -> None:
    own: object = 1
    for _ in range(100):
        own = [own]
    assert ask({"id": own, "text": "a"})["id"] == own


@pytest.mark.parametrize("line", [b"", b"  ", b"\r", b"\t \r"])
def test_a_blank_line_is_passed_over(line: bytes) -> None:
    assert Outward(CountingBackend(), lambda: 0.0).answer(line) is None


@pytest.mark.parametrize(
    "fields", [{}, {"state": "a"}, {"questions": None}, {"questions": {}}, {"state": 1}]
)
def test_no_questions_are_the_daemons_error(fields: dict[str, object]) -> None:
    assert ask({"id": 4, **fields}) == {"error": "missing questions", "id": 4}


def of(**fields: object) -> dict[str, object]:
    """Return a request with one question that is a little other than the usual one."""
    return asked(questions={"q": {**QUESTION, **fields}})


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "questions are no object": (asked(questions=[1]), "must be an object"),
    "a question is none": (asked(questions={"q": 5}), "question 'q' must be an object"),
    "another type": (of(type="score"), "'choice' alone"),
    "a type that is no string": (of(type=[1]), "'choice' alone"),
    "no criteria": (of(criteria=None), "code, prose, short"),
    "criteria that are a string": (of(criteria="code"), "code, prose, short"),
    "other criteria": (of(criteria={"yes": "", "no": ""}), "code, prose, short"),
    "one more": (of(criteria=[*CRITERIA, "long_doc"]), "code, prose, short"),
    "one less": (of(criteria=["code", "prose"]), "code, prose, short"),
    "one twice": (of(criteria=["code", "prose", "code"]), "code, prose, short"),
    "labels that are no strings": (of(criteria=[["code"], 1, None]), "code, prose, short"),
    "a preset": ({"text": "a", "preset": "triage"}, "presets are not known"),
    "no state": ({"questions": {"q": QUESTION}}, "missing state"),
    "a text that is no string": (asked(text=["a"]), "'text' must be a string"),
}


@pytest.mark.parametrize(("line", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_answered_is_an_error_that_says_so(
    line: dict[str, object], said: str
) -> None:
    backend = CountingBackend()
    reply = ask({**line, "id": 5}, backend)
    assert reply.keys() == {"error", "id"}
    assert reply["id"] == 5
    assert said in reply["error"]
    assert backend.asked == []


def test_an_error_repeats_no_more_than_the_beginning_of_a_name() -> None:
    reply = ask(asked(questions={"x" * 100_000: 1}))
    assert len(reply["error"]) < 200


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
shaped = st.fixed_dictionaries(
    {},
    optional={
        "id": anything,
        "text": anything,
        "state": anything,
        "preset": anything,
        "questions": anything
        | st.dictionaries(
            st.text(max_size=3),
            st.fixed_dictionaries(
                {}, optional={"type": st.just("choice") | anything, "criteria": anything}
            ),
        ),
    },
)


@given(anything | shaped)
def test_any_json_gets_one_line_of_json(value: object) -> None:
    reply = ask(value)
    assert ("error" in reply) != ("class" in reply)


@given(st.binary(max_size=60).filter(lambda raw: b"\n" not in raw and raw.strip()))
def test_any_bytes_get_one_line_of_json(raw: bytes) -> None:
    assert ask(raw)
