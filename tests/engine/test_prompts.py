"""The prompts that the in-process engine keeps computed, with the real model."""

import time

import pytest

from support.asker import MODEL, Asker, chat, text_of
from workers.job import End, Error, Stage

ROLE = "You are a careful assistant who answers in one short sentence. " * 6
FILLER = {
    "a": "The tide comes in at noon and the boats leave the harbour. ",
    "b": "Every winter the village bakes bread with rye and honey. ",
    "c": "A train crosses the plain twice a day, slowly, without a stop. ",
}
Messages = list[dict[str, str]]


class Talk:
    """A conversation of one lane: each turn holds all of it."""

    def __init__(self, asker: Asker, name: str, *, words: int = 8, role: str = "") -> None:
        self._asker = asker
        self._name = name
        self.messages: Messages = [{"role": "system", "content": role}] if role else []
        self._first = FILLER[name] * words

    def turn(self, text: str = "What is said here?", *, within_s: float = 120.0) -> End:
        """Say something and take the answer in."""
        content = f"{self._first}{text}"
        self._first = ""
        self.messages.append({"role": "user", "content": content})
        body: dict[str, object] = {"messages": self.messages, "max_tokens": 8, "temperature": 0}
        self._asker.start(body, talk=self._name)
        last = self._asker.rest(within_s=within_s)[-1]
        assert isinstance(last, End), last
        self.messages.append({"role": "assistant", "content": text_of(last)})
        return last


@pytest.fixture(scope="module")
def asker() -> Asker:
    return Asker(slots=2)


def share(end: End) -> float:
    """Return the part of a prompt that was there already."""
    return end.cached_tokens / end.prompt_tokens


def test_two_conversations_that_alternate_find_their_prompts_again(asker: Asker) -> None:
    talks = [Talk(asker, "a"), Talk(asker, "b")]
    for talk in talks:
        assert share(talk.turn()) < 0.3
    for _ in range(3):
        for talk in talks:
            end = talk.turn("And then?")
            # all but the line ends of the last answer and the new question
            assert end.prompt_tokens - end.cached_tokens < 25


def test_what_was_used_least_recently_gives_way(asker: Asker) -> None:
    a, b, c = (Talk(asker, name) for name in "abc")
    for talk in (a, b, c):
        talk.turn()
    assert share(b.turn("And then?")) > 0.8
    assert share(c.turn("And then?")) > 0.8
    assert share(a.turn("And then?")) < 0.3


def test_answers_are_those_of_an_engine_that_was_not_disturbed(asker: Asker) -> None:
    quiet = Asker(slots=1)
    alone = Talk(quiet, "a", words=4)
    beside, other = Talk(asker, "a", words=4), Talk(asker, "b", words=4)
    for text in ("What is said here?", "And then?", "Why?", "Who says that?"):
        other.turn(text)
        assert text_of(beside.turn(text)) == text_of(alone.turn(text))


def test_a_new_conversation_begins_with_what_it_has_in_common_with_any_kept_one() -> None:
    asker = Asker(slots=3)
    Talk(asker, "a", role=ROLE).turn()
    Talk(asker, "b").turn()  # the context holds nothing of the instructions now
    first = Talk(asker, "c", role=ROLE).turn()
    assert first.cached_tokens > 60


def test_a_cancelled_prefill_costs_no_other_conversation_its_prompt(asker: Asker) -> None:
    a, b = Talk(asker, "a"), Talk(asker, "b")
    for talk in (a, b):
        talk.turn()
    number = asker.start(chat("word " * 2000), talk="a")
    while not isinstance(outcome := asker.said.get(timeout=60), Stage):
        assert not isinstance(outcome, End | Error), outcome
    time.sleep(0.3)  # let it be inside a batch
    asker.engine.cancel(number)
    last = asker.rest()[-1]
    assert isinstance(last, End)
    assert last.cancelled
    assert share(b.turn("And then?")) > 0.8
    a.turn("And then?")  # from the beginning
    assert share(a.turn("Why?")) > 0.8


def test_an_answer_after_a_cancelled_one_is_right(asker: Asker) -> None:
    a, b = Talk(asker, "a"), Talk(asker, "b")
    a.turn()
    number = asker.start(chat("Count to one thousand.", max_tokens=400, stream=True), talk="a")
    asker.said.get(timeout=60)
    asker.engine.cancel(number)
    asker.rest()
    b.turn()
    assert "Rome" in text_of(asker.end(chat("Capital of Italy?", max_tokens=12), talk="a"))


def test_a_refused_prompt_costs_no_conversation_its_own(asker: Asker) -> None:
    a, b = Talk(asker, "a"), Talk(asker, "b")
    for talk in (a, b):
        talk.turn()
    assert isinstance(asker.end(chat("word " * 9000), talk="c"), Error)
    for talk in (a, b):
        assert share(talk.turn("And then?")) > 0.8


def test_every_slot_of_a_row_counts_in_its_size(asker: Asker) -> None:
    asker.end(chat("Hi", max_tokens=1))
    one = Asker(slots=1)
    one.end(chat("Hi", max_tokens=1))
    context = 8192 * 30 * 2 * 2 * 192  # layers, keys and values in half precision, 3 heads of 64
    assert asker.engine.sizes()[MODEL] - one.engine.sizes()[MODEL] == context


@pytest.mark.slow
def test_two_conversations_of_4000_tokens_are_nine_tenths_cached_from_the_second_turn_on(
    asker: Asker,
) -> None:
    long_talks = [Talk(asker, name, words=345) for name in "ab"]
    for talk in long_talks:
        assert talk.turn(within_s=900).prompt_tokens > 4000
    for _ in range(3):
        for talk in long_talks:
            assert share(talk.turn("And then?")) >= 0.9
