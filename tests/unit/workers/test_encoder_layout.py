"""Where the marks of a question's options stand, and what is cut when there is no room."""

import pytest

from workers.encoder.errors import FailedDecision
from workers.encoder.layout import Layout, Limits, Sequence, Special, cleaned
from workers.encoder.questions import ROUTING, Question, choice, noul, score

SPECIAL = Special(cls=50281, sep=50282, mask=50284)
CLS, SEP, MASK = 50281, 50282, 50284

# A published example of the English model: these ids are what its own tokenizer makes of each piece.
STATE = "My laptop won't turn on after the latest update. I need it for a demo in an hour!"
STATE_IDS = (
    "3220 16556 1912 626 1614 327 846 253 6323 5731 15 309 878 352 323 247 22020 275 271 4964 2"
)
PIECES = {
    "choice question: What kind of issue is this?": "22122 1953 27 1737 2238 273 2523 310 436 32",
    " hardware": "10309",
    " software": "3694",
    " billing": "33484",
    " account": "2395",
    STATE: STATE_IDS,
    "": "",
}
ISSUE = choice(
    "What kind of issue is this?", dict.fromkeys(["hardware", "software", "billing", "account"])
)
ISSUE_IDS = (
    "50281 22122 1953 27 1737 2238 273 2523 310 436 32 50282 "
    "50284 10309 50284 3694 50284 33484 50284 2395 50282"
)


def known(text: str) -> list[int]:
    return numbers(PIECES[text])


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]


def letters(text: str) -> list[int]:
    """Tokenise into one token a character."""
    return [ord(letter) for letter in text]


def sequence(
    question: Question, state: object = "", *, max_len: int = 512, head_max_len: int = 192
) -> Sequence:
    layout = Layout(letters, SPECIAL, Limits(max_len, head_max_len))
    return layout.complete(layout.prefix(question), state)


def options(said: Sequence) -> list[int]:
    """Return the length of each option, its mark included."""
    ends = [*said.markers[1:], said.ids.index(SEP, said.markers[-1])]
    return [end - begin for begin, end in zip(said.markers, ends, strict=True)]


def state_of(said: Sequence) -> str:
    """Return the state's characters."""
    begin = said.ids.index(SEP, said.markers[-1]) + 1
    return "".join(chr(token) for token in said.ids[begin:-1])


def test_the_published_example_is_laid_out_to_the_id() -> None:
    layout = Layout(known, SPECIAL, Limits())
    said = layout.complete(layout.prefix(ISSUE), STATE)
    assert said.ids == (*numbers(ISSUE_IDS), *numbers(STATE_IDS), SEP)
    assert said.markers == (12, 14, 16, 18)


def test_an_empty_state_leaves_two_separators() -> None:
    layout = Layout(known, SPECIAL, Limits())
    assert layout.complete(layout.prefix(ISSUE), "").ids[-2:] == (SEP, SEP)


def test_an_option_keeps_its_mark_and_48_tokens() -> None:
    said = sequence(choice("?", {"x" * 47: None, "y" * 48: None, "z": None}))
    assert options(said) == [49, 49, 3]


@pytest.mark.parametrize(("used", "first"), [(176, 1), (177, 0)])
def test_options_are_cut_further_where_fewer_than_16_tokens_are_left(used: int, first: int) -> None:
    labels = {"a" * 47: None, "b" * 47: None, "c" * 47: None, "d" * (used - 3 * 49 - 2): None}
    said = sequence(choice("?", labels))
    untouched, cut = [49, 49, 49, used - 147], [44, 44, 44, used - 147]
    assert options(said) == [cut, untouched][first]


def test_many_options_keep_four_tokens_each_their_mark_included() -> None:
    said = sequence(choice("?", {f"label {number}": None for number in range(60)}), max_len=1024)
    assert options(said) == [4] * 60


@pytest.mark.parametrize(("length", "kept"), [(20, 40), (400, 184)])
def test_the_question_gets_what_its_options_leave(length: int, kept: int) -> None:
    said = sequence(choice("q" * length, {"a": None, "b": None}))
    prefix = len("choice question: ")
    assert said.markers[0] == 2 + min(prefix + length, 192 - 6)
    assert kept >= min(length, 184)


def test_the_question_keeps_eight_tokens_where_the_options_take_all() -> None:
    said = sequence(choice("q" * 99, {f"label {n}": None for n in range(60)}), max_len=1024)
    assert said.markers[0] == 1 + 8 + 1


def test_text_keeps_its_beginning_and_the_last_token_is_a_separator() -> None:
    said = sequence(ROUTING, "a" * 300 + "b" * 9999, head_max_len=96)
    assert len(said.ids) == 512
    assert said.ids[-1] == SEP
    assert state_of(said).startswith("a" * 300 + "b")


def test_a_conversation_keeps_its_end() -> None:
    said = sequence(ROUTING, ["a" * 9999, "b" * 300], head_max_len=96)
    assert len(said.ids) == 512
    assert state_of(said).endswith("a" + '", "' + "b" * 300 + '"]')


def test_an_object_is_read_as_json_with_its_own_letters() -> None:
    assert state_of(sequence(ISSUE, {"où": [1, None]})) == '{"où": [1, null]}'


def test_no_room_for_the_state_leaves_none_of_it() -> None:
    prefix = len(sequence(ISSUE).ids) - 1
    assert len(sequence(ISSUE, "abc", max_len=prefix + 1).ids) == prefix + 1
    assert len(sequence(ISSUE, ["abc"], max_len=prefix).ids) == prefix


@pytest.mark.parametrize(("max_len", "fit"), [(64, 1), (65, 2), (67, 2)])
def test_an_option_whose_mark_does_not_fit_fails_the_question(max_len: int, fit: int) -> None:
    with pytest.raises(FailedDecision, match=f"{fit} of the question's 3 options fit"):
        sequence(choice("q" * 40, {"a" * 3: None, "b": None, "c": None}), max_len=max_len)


def test_a_mark_that_just_fits_is_enough() -> None:
    said = sequence(choice("q" * 40, {"a" * 3: None, "b": None, "c": None}), max_len=68)
    assert (len(said.ids), said.markers) == (68, (59, 64, 67))


def test_a_question_without_options_fails() -> None:
    with pytest.raises(FailedDecision, match="0 of the question's 0 options"):
        sequence(choice("?", {}))


def test_a_text_far_too_long_is_not_tokenised_whole() -> None:
    seen: list[int] = []

    def counting(text: str) -> list[int]:
        seen.append(len(text))
        return letters(text)

    layout = Layout(counting, SPECIAL, Limits())
    layout.complete(layout.prefix(ISSUE), "x" * 10**7)
    assert max(seen) <= 256 * 512


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("e\u0301t\u00e9", "\u00e9t\u00e9"),
        ("a\0b", "ab"),
        ("say [MASK] twice [MASK]", "say   twice  "),
        ("[MA\0SK]", " "),
        ("[MAS\u212a]", " "),  # the Kelvin sign is K in NFC
        ("[mask] [CLS]", "[mask] [CLS]"),
    ],
)
def test_a_text_is_normalised_and_holds_no_mark(text: str, plain: str) -> None:
    assert cleaned(text, "[MASK]") == plain


def test_a_mark_in_any_text_marks_nothing() -> None:
    question = choice("which [MASK]?", {"a [MASK]": "[MASK]", "b": None})
    assert sequence(question, "[MASK] [MASK]").ids.count(MASK) == 2


def test_options_are_worded_as_the_model_knows_them() -> None:
    said = choice("?", {"a": "first", "b": None, "c": "", "d": {"k": "ü"}, "e": 0})
    assert said.options == ("a: first", "b", "c", 'd: {"k": "ü"}', "e: 0")
    assert score("?", ["none", "some"]).options == ("level 0: none", "level 1: some")
    usual = ("false: no, the statement does not hold", "true: yes, the statement holds")
    assert noul("?").options == usual
    assert noul("?", {"true": "it rains"}).options == (usual[0], "true: it rains")


def test_instructions_that_are_no_text_are_read_as_json() -> None:
    assert choice({"ask": "où"}, {}).text == 'choice question: {"ask": "où"}'


def test_the_routing_question_has_three_options_in_their_order() -> None:
    assert ROUTING.text == "choice question: What kind of answer does this request need?"
    assert ROUTING.labels == ("code", "prose", "short")
    assert ROUTING.options[2] == "short: one word, one number or one sentence"
