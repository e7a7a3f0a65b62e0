"""The token sequence of a question and a state, and where its options are marked: pure.

    [CLS] question [SEP] ([MASK] option)... [SEP] state [SEP]

The model answers at the [MASK] in front of each option, so an option whose mark is cut off cannot be
answered. Every length here is bounded before llama.cpp sees it: an encoder batch longer than its
micro-batch ends the process.

Source of the layout and of all its numbers: the decision model's `build_sequence`, version 0.4.15.
"""

import unicodedata
from collections.abc import Callable

from msgspec import Struct

from policies.shape import is_array
from workers.encoder.errors import FailedDecision
from workers.encoder.questions import Question, state_text

Tokenize = Callable[[str], list[int]]  # plain text -> ids, with no special token among them

_OPTION_TOKENS = 48  # of an option, beside its mark
_QUESTION_ROOM = 16  # fewer tokens than this left for the question: the options are cut further
_QUESTION_MIN = 8
_OPTION_MIN = 4  # the mark included
# No token of a known vocabulary is longer than 128 characters, so twice that many a token hold all that may
# be kept of a text; the rest need not be tokenised.
_CHARS_PER_TOKEN = 256


class Limits(Struct, frozen=True):
    """What the model was trained with, in tokens."""

    max_len: int = 512
    head_max_len: int = 192  # of the question and its options together


class Special(Struct, frozen=True):
    """Ids of the tokens that give the sequence its structure."""

    cls: int
    sep: int
    mask: int
    mask_text: str = "[MASK]"  # as the vocabulary spells it


class Sequence(Struct, frozen=True):
    """What the encoder reads.

    Attributes:
        ids: At most `max_len` token ids.
        markers: Position of each option's mark, in the options' order.
    """

    ids: tuple[int, ...]
    markers: tuple[int, ...]


class Layout:
    """Lays out questions for one vocabulary and one model's limits."""

    def __init__(self, tokenize: Tokenize, special: Special, limits: Limits) -> None:
        self._tokenize = tokenize
        self._special = special
        self._limits = limits

    def prefix(self, question: Question) -> Sequence:
        """Return all that stands before the state; constant for a question.

        Raises:
            FailedDecision: Not all options fit, or there are none.
        """
        special, limits = self._special, self._limits
        options = [
            [special.mask, *self._first(f" {option}", _OPTION_TOKENS)]
            for option in question.options
        ]
        budget = limits.head_max_len - sum(map(len, options))
        if budget < _QUESTION_ROOM:
            room = (limits.head_max_len - _QUESTION_ROOM) // max(1, len(options))
            options = [option[: max(_OPTION_MIN, room)] for option in options]
            budget = limits.head_max_len - sum(map(len, options))
        ids = [special.cls, *self._first(question.text, max(_QUESTION_MIN, budget)), special.sep]
        markers: list[int] = []
        for option in options:
            markers.append(len(ids))
            ids += option
        ids.append(special.sep)
        seen = tuple(marker for marker in markers if marker < limits.max_len)
        if not seen or len(seen) < len(question.options):
            raise FailedDecision(
                f"{len(seen)} of the question's {len(question.options)} options fit into "
                f"the model's {limits.max_len} tokens"
            )
        return Sequence(tuple(ids), seen)

    def complete(self, prefix: Sequence, state: object) -> Sequence:
        """Return the whole sequence.

        Args:
            prefix: Of the question.
            state: Text, or any JSON value. Of a list, which is a conversation, the end is kept where
                it does not fit; of anything else the beginning.
        """
        room = max(0, self._limits.max_len - len(prefix.ids) - 1)
        keep = self._last if is_array(state) else self._first
        ids = (*prefix.ids, *keep(state_text(state), room), self._special.sep)
        return Sequence(ids[: self._limits.max_len], prefix.markers)

    def _first(self, text: str, count: int) -> list[int]:
        plain = cleaned(text, self._special.mask_text)
        return self._tokenize(plain[: count * _CHARS_PER_TOKEN])[:count]

    def _last(self, text: str, count: int) -> list[int]:
        plain = cleaned(text, self._special.mask_text)
        tokens = self._tokenize(plain[max(0, len(plain) - count * _CHARS_PER_TOKEN) :])
        return tokens[max(0, len(tokens) - count) :]


def cleaned(text: str, mask_text: str) -> str:
    """Return a text as the tokenizer gets it.

    NUL ends a text for llama.cpp; NFC is what the model's own tokenizer normalises to and llama.cpp does
    not. A mark spelled out in a text becomes a blank, after both, so that neither can put it together.
    """
    return unicodedata.normalize("NFC", text.replace("\0", "")).replace(mask_text, " ")
