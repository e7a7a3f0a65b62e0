"""The daemon's protocol, without a daemon: what is asked, what counts as an answer, when it is over."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.backend import Answer, BackendError
from workers.dialogue import Answered, Dialogue, Ready, plain

READY = b'{"status":"ready","model":"laya"}\n'
SHARES = {"code": 0.9, "prose": 0.05, "short": 0.05}


def reply(number: object = "1", **other: object) -> bytes:
    """Return an honest answer, with other fields if wanted."""
    cls = {"type": "choice", "choice": "code", "confidence": 0.8, "probabilities": SHARES}
    line: dict[str, object] = {
        "model": "laya", "answers": {"cls": cls}, "id": number,
        "usage": {"input_tokens": 70, "output_tokens": 0, "latency_ms": 24.1}, **other,
    }  # fmt: skip
    return json.dumps(line).encode() + b"\n"


def answered(**fields: object) -> bytes:
    """Return an answer whose `cls` has these fields."""
    cls = {"choice": "code", "confidence": 0.8, **fields}
    return reply(answers={"cls": {k: v for k, v in cls.items() if v is not None}})


def warm() -> Dialogue:
    """Return a dialogue with a child that is ready."""
    dialogue = Dialogue(0.0)
    assert dialogue.take(READY) == Ready()
    return dialogue


def asking(text: str = "hi", at: float = 10.0) -> Dialogue:
    """Return a dialogue with a question at hand."""
    dialogue = warm()
    dialogue.ask(text, at)
    return dialogue


def said(dialogue: Dialogue, data: bytes) -> Answer | BackendError | None:
    """Return the answer in what a child says."""
    meant = dialogue.take(data)
    assert meant is None or isinstance(meant, Answered)
    return meant.answer if meant else None


def test_the_question_is_the_one_of_the_engine_to_the_letter() -> None:
    line = warm().ask("Write a Rust function.", 1.0)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    question: dict[str, Any] = json.loads(line)
    assert question == {
        "id": "1",
        "state": "Write a Rust function.",
        "questions": {
            "cls": {
                "type": "choice",
                "instructions": "What kind of answer does this request need?",
                "criteria": {
                    "code": "source code, a script, a fix to a program, or an explanation of code",
                    "prose": "several paragraphs of explanation, writing, advice or a story",
                    "short": "one word, one number or one sentence",
                },
            }
        },
    }
    assert list(question["questions"]["cls"]["criteria"]) == ["code", "prose", "short"]


@pytest.mark.parametrize(
    ("text", "state"),
    [("a\nb", "a\nb"), ("nul\0nul", "nulnul"), ("e\u0301", "é"), ("\ud800", "?"), ("", "")],
)
def test_any_text_makes_one_line_that_a_daemon_can_read(text: str, state: str) -> None:
    line = warm().ask(text, 1.0)
    assert line.count(b"\n") == 1
    assert json.loads(line)["state"] == state == plain(text)


def test_the_answer_is_taken_as_it_is() -> None:
    assert said(asking(), reply()) == Answer("code", 0.8, SHARES)


@pytest.mark.parametrize("number", ["1", 1])
def test_an_id_is_compared_as_a_string(number: object) -> None:
    assert isinstance(said(asking(), reply(number)), Answer)


@pytest.mark.parametrize("number", ["2", 0, 1.5, "", None, [1], {"a": 1}, True])
def test_another_id_is_another_question(number: object) -> None:
    dialogue = asking()
    assert said(dialogue, reply(number)) is None
    assert not dialogue.is_free


@pytest.mark.parametrize(
    "talk",
    [b"[laya] loading\n", b"\n", b"{\n", b'"text"\n', b"[]\n", b"null\n", b"\xff\xfe\n", b"1\n",
     b"[" * 3000 + b"\n", READY, b'{"id":"1"', b"NaN\n"],
)  # fmt: skip
def test_talk_is_no_answer(talk: bytes) -> None:
    dialogue = asking()
    assert said(dialogue, talk) is None
    if talk.endswith(b"\n"):
        assert isinstance(said(dialogue, reply()), Answer)


@pytest.mark.parametrize(
    "line",
    [
        answered(choice="poem"), answered(choice="long_doc"), answered(choice=None),
        answered(choice=1), answered(confidence=None), answered(confidence="0.8"),
        answered(confidence=1.01), answered(confidence=-0.1), answered(probabilities={"code": 2}),
        reply(answers={}), reply(answers=None), reply(answers={"other": {}}), reply(answers=[]),
        b'{"id":"1"}\n',
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_a_failure_and_the_child_goes_on(line: bytes) -> None:
    dialogue = asking()
    assert isinstance(said(dialogue, line), BackendError)
    assert dialogue.is_free
    assert dialogue.due_at is None


@pytest.mark.parametrize("confidence", [0, 0.0, 1, 1.0, 0.4417])
def test_the_edges_of_confidence_are_answers(confidence: float) -> None:
    got = said(asking(), answered(confidence=confidence))
    assert isinstance(got, Answer)
    assert got.confidence == confidence
    assert got.probabilities == {}


@pytest.mark.parametrize("line", [b'{"error":"x"}\n', b'{"id":"1","error":"x"}\n'])
def test_an_error_with_our_id_or_none_is_about_the_question_at_hand(line: bytes) -> None:
    got = said(asking(), line)
    assert isinstance(got, BackendError)
    assert "x" in str(got)


def test_an_error_about_another_question_is_not() -> None:
    assert said(asking(), b'{"id":"9","error":"x"}\n') is None


def test_a_late_answer_never_answers_the_next_question() -> None:
    dialogue = asking()
    assert isinstance(said(dialogue, b'{"error":"busy"}\n'), BackendError)
    dialogue.ask("another", 11.0)
    assert said(dialogue, reply("1")) is None
    assert isinstance(said(dialogue, reply("2")), Answer)


def test_nobody_is_asked_before_it_is_ready_or_twice_at_once() -> None:
    dialogue = Dialogue(0.0)
    assert not dialogue.is_free
    assert dialogue.take(reply()) is None
    with pytest.raises(RuntimeError):
        dialogue.ask("early", 0.0)
    dialogue.take(READY)
    dialogue.ask("one", 0.0)
    with pytest.raises(RuntimeError):
        dialogue.ask("two", 0.0)


def test_it_is_late_when_it_is_not_ready_or_has_not_answered_in_time() -> None:
    dialogue = Dialogue(100.0)
    assert dialogue.due_at == 400.0
    assert dialogue.fault(399.9) == ""
    assert dialogue.fault(400.0) == "it did not get ready in time"
    dialogue.take(READY)
    assert dialogue.fault(1e9) == ""  # nothing is expected of it
    dialogue.ask("x", 500.0)
    assert dialogue.due_at == 505.0
    assert dialogue.fault(504.9) == ""
    assert dialogue.fault(505.0) == "it did not answer in time"


def test_talk_does_not_buy_time_and_endless_talk_ends_it() -> None:
    dialogue = asking(at=10.0)
    for _ in range(65):
        assert dialogue.take(b"x" * 1024 * 1024) is None
        assert dialogue.due_at == 15.0
    assert dialogue.fault(11.0) == "it talks without end"


# --- whatever comes, in whatever pieces ---

LINES = st.sampled_from(
    [READY, reply("1"), reply("2"), reply("3"), reply(1), b"talk\n", b"\n", b"{}\n",
     b'{"error":"x"}\n', b'{"id":"2","error":"y"}\n', answered(choice="poem")]
)  # fmt: skip


@given(
    st.lists(LINES | st.binary(max_size=30).map(lambda raw: raw + b"\n"), max_size=12), st.data()
)
def test_pieces_mean_what_the_lines_mean_and_each_question_has_at_most_one_answer(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole, cut = _heard(lines), _heard(pieces)
    assert whole[:1] == cut[:1]  # ready or not
    asked = 0
    dialogue = Dialogue(0.0)
    for piece in pieces:
        meant = dialogue.take(piece)
        if isinstance(meant, Answered):
            asked -= 1
        assert asked >= 0
        if dialogue.is_free:
            dialogue.ask("x", 1.0)
            asked += 1
        assert asked <= 1


def _heard(pieces: list[bytes]) -> list[object]:
    dialogue = Dialogue(0.0)
    return [meant for piece in pieces if (meant := dialogue.take(piece)) is not None]
