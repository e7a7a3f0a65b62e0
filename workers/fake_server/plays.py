"""What the fake server does wrong, and when. Pure but for the file that `--once` remembers by."""

import os
import threading
from contextlib import suppress
from pathlib import Path

# Name -> what goes wrong; the help text is made of it.
AT_START = {
    "slow-start": "its health says 503 for --seconds, then 200",
    "no-health": "has no path for its health, as Ollama",
    "never-ready": "its health says 503 for ever",
    "mute": "takes connections and answers none",
    "exits": "says why on stderr and ends with status 3 before it listens",
    "port-taken": "ends as a server does that finds its port taken",
    "stubborn": "ends on nothing but SIGKILL",
    "leaves-child": "starts a process of its own that ignores SIGTERM, in its group",
    "chatty": "talks a lot on stderr, then works",
}
AT_ANSWER = {
    "dies": "ends, with a word on stderr, after the first piece of an answer",
    "dies-early": "ends before the first byte of an answer",
    "hangs": "stops after the first piece and says nothing more, connection open",
    "hangs-early": "takes a request and never answers it",
    "cuts": "closes the connection after the first piece",
    "no-done": "ends a stream in order, but without its last events",
    "no-line-end": "ends a stream without the line ends after its last event",
    "no-last-line": "ends a stream in the middle of its last line",
    "no-model": "says 404 in Ollama's words: it has not got that model",
    "garbage": "says what is no event or no JSON before each piece",
    "huge-line": "says one event of 64 MiB",
    "endless-line": "says an event that never ends",
    "huge-reply": "answers a request that is not streamed with 128 MiB",
    "wrong-type": "answers 200 with a page of HTML",
    "not-json": "answers 200 with what says it is JSON and is not",
    "no-http": "answers with what is no HTTP",
    "error-400": "refuses as one whose context is too short",
    "error-500": "fails in OpenAI's words",
    "error-detail": "refuses with 422 in FastAPI's words",
    "error-html": "fails with a page of HTML, as a proxy does",
    "error-busy": "refuses with 503: no slot is free",
    "error-stream": "says an error instead of the second piece",
    "ignores-cancel": "works on for --seconds after its client has left, its slot busy",
}
PLAYS = {"well": "nothing goes wrong", **AT_START, **AT_ANSWER}


class Play:
    """Which part is played, by this process or only by one of several."""

    def __init__(self, name: str, after: int = 0, once: Path | None = None) -> None:
        """Remember it.

        Args:
            name: One of PLAYS.
            after: So many requests are answered rightly first.
            once: A file by which later processes know that it has happened; None: it always does.
        """
        self._name = name
        self._after = after
        self._once = once
        self._asked = 0
        self._lock = threading.Lock()

    def at_start(self) -> str:
        """Return what is played from the start on, or "well"."""
        return self._name if self._name in AT_START and self._is_mine() else "well"

    def at_answer(self) -> str:
        """Return what is played at this request, or "well"."""
        with self._lock:
            self._asked += 1
            is_due = self._name in AT_ANSWER and self._asked > self._after
            return self._name if is_due and self._is_mine() else "well"

    def _is_mine(self) -> bool:
        if self._once is None:
            return True
        owner = str(os.getpid())
        with suppress(FileExistsError), self._once.open("x", encoding="ascii") as file:
            file.write(owner)
        return self._once.read_text(encoding="ascii") == owner
