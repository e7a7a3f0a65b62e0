"""What is said to a classifying child process and what its lines mean: one life of it.

Rules of this file: pure; time is an argument. One question at a time, each with an id of its own; a line
that is not the answer to it is no answer to anything. A child that is late is over: whoever drives this
ends the process, so that what it says later has no reader.

The protocol: one JSON object a line, UTF-8. The child says `{"status":"ready"}` once, then answers
`{"id":..,"state":..,"questions":{..}}` with `{"id":..,"answers":{"cls":{"choice":..,"confidence":..}}}` or
`{"id":..,"error":..}`. Everything else on its output is talk.
"""

import unicodedata
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from workers.backend import Answer, BackendError
from workers.lines import Lines
from workers.question import CRITERIA, INSTRUCTIONS, QUESTION_ID

READY_S = (
    300.0  # a large model on a cold disk and a device that compiles its kernels take their time
)
REPLY_S = 5.0  # the client was answered long before; after this the child is taken for stuck
_FLOOD = 64 * 1024 * 1024  # bytes without an answer among them, after which nobody reads on

_Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Ready(Struct, frozen=True):
    """The child can be asked."""


class Answered(Struct, frozen=True):
    """The question at hand has its answer, or the child said that it has none."""

    answer: Answer | BackendError


class _Line(Struct):
    """What can be told of a line before it is known to be ours."""

    id: object = None
    status: object = None
    error: object = None
    answers: Raw = Raw(b"null")


class _Choice(Struct):
    choice: Literal["code", "prose", "short"]
    confidence: _Share
    probabilities: dict[str, _Share] = {}


class _Answers(Struct):
    cls: _Choice


_read_line = msgspec.json.Decoder(_Line).decode
_read_answers = msgspec.json.Decoder(_Answers).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Dialogue:
    """One life of a child, from its start to the first thing it does wrong beyond repair."""

    def __init__(self, at: float, *, ready_s: float = READY_S, reply_s: float = REPLY_S) -> None:
        """Wait for a child that was just started.

        Args:
            at: Now, seconds.
            ready_s: It must be ready within this.
            reply_s: It must answer a question within this.
        """
        self._lines = Lines()
        self._reply_s = reply_s
        self._is_ready = False
        self._asked = ""  # id of the question at hand
        self._number = 0
        self._unheard = 0  # bytes since the last thing that meant something
        self._due_at: float | None = at + ready_s

    @property
    def is_free(self) -> bool:
        """Whether a question may be asked."""
        return self._is_ready and not self._asked

    @property
    def due_at(self) -> float | None:
        """The instant at which the child is late, or None while nothing is expected of it."""
        return self._due_at

    def fault(self, at: float) -> str:
        """Return why this life must end now, or nothing."""
        if self._due_at is not None and at >= self._due_at:
            return "it did not answer in time" if self._is_ready else "it did not get ready in time"
        if self._unheard > _FLOOD:
            return "it talks without end"
        return ""

    def ask(self, text: str, at: float) -> bytes:
        """Return the line that asks for the class of a text.

        Raises:
            RuntimeError: A question is at hand already, or the child is not ready: our bug.
        """
        if not self.is_free:
            raise RuntimeError("one question at a time")
        self._number += 1
        self._asked = str(self._number)
        self._due_at = at + self._reply_s
        self._unheard = 0
        line = {
            "id": self._asked,
            "state": plain(text),
            "questions": {
                QUESTION_ID: {
                    "type": "choice",
                    "instructions": INSTRUCTIONS,
                    "criteria": CRITERIA,
                }
            },
        }
        return msgspec.json.encode(line) + b"\n"

    def take(self, data: bytes) -> Ready | Answered | None:
        """Return what the child's next bytes mean; at most one thing is ever waited for."""
        self._unheard += len(data)
        meant: Ready | Answered | None = None
        for line in self._lines.feed(data):
            meant = self._meaning(line) or meant
        return meant

    def _meaning(self, raw: bytes) -> Ready | Answered | None:
        try:
            line = _read_line(raw)
        except _UNREADABLE:
            return None
        if not self._is_ready:
            if line.status != "ready":
                return None
            self._is_ready = True
            meant: Ready | Answered = Ready()
        elif self._asked and _is_for(line, self._asked):
            self._asked = ""
            meant = Answered(_answer(line))
        else:
            return None
        self._due_at = None
        self._unheard = 0
        return meant


def plain(text: str) -> str:
    """Return a text as models take it: composed, without NUL, lone surrogates replaced."""
    encodable = text.encode("utf-8", "replace").decode().replace("\0", "")
    return unicodedata.normalize("NFC", encodable)


def _is_for(line: _Line, asked: str) -> bool:
    """Return whether a line answers a question; an error without an id is about the one at hand."""
    if line.id is None:
        return line.error is not None
    return str(line.id) == asked


def _answer(line: _Line) -> Answer | BackendError:
    if line.error is not None:
        return BackendError(f"it says: {str(line.error)[:200]}")
    try:
        said = _read_answers(line.answers).cls
    except _UNREADABLE as error:
        return BackendError(f"its answer is none: {error}")
    return Answer(said.choice, said.confidence, said.probabilities)
