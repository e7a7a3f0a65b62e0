"""`python -m workers.fake_daemon`: speaks the daemon's protocol without a model, well or badly.

It tells classes apart by two words and is no scorer. It is shipped so that a site can see what its box does
when the daemon misbehaves, and so that tests misbehave like a real process.

    --play NAME     what goes wrong; default: nothing
    --after N       answer so many questions rightly first (default 1: the warm-up)
    --once FILE     go wrong in one life only: the file tells the next life that it has happened
    --count FILE    add each question, as it came, to a file
    --seconds S     how long `slow` and `late` take (default 1)

Plays:
    well               nothing goes wrong
    slow               each answer takes its time
    late               answers one question after the other has been asked, or after --seconds at most
    silent             reads on, answers no more
    wrong-id           answers, under an id that was not asked
    garbage            says what is no JSON, or no answer, instead of the answer
    noise              says all that and then answers rightly
    dies               ends in the middle of a question
    ready-then-exits   says that it is ready and ends
    no-ready           never says that it is ready
    huge-line          says one line of 16 MiB instead of the answer
    error              answers with an error
    nameless-error     answers with an error that names no id
    wrong-label        chooses what was not among the criteria
    wrong-confidence   is more than certain
    stubborn           answers, but ends neither at the end of its input nor on SIGTERM
    chatty             answers, and talks a lot on stderr
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PLAYS = (
    "well", "slow", "late", "silent", "wrong-id", "garbage", "noise", "dies", "ready-then-exits",
    "no-ready", "huge-line", "error", "nameless-error", "wrong-label", "wrong-confidence",
    "stubborn", "chatty",
)  # fmt: skip
_FROM_START = frozenset({"ready-then-exits", "no-ready"})
_NOISE = ("[laya] loading", "", "{", '"text"', "[1,2]", "null", '{"status":"ready"}', '{"id":"0"}')


def _label(text: str) -> str:
    """Tell classes apart by one word each, as the daemon's public test double does."""
    lower = text.lower()
    if "function" in lower:
        return "code"
    return "prose" if "explain" in lower else "short"


def _answers(text: str) -> dict[str, object]:
    chosen = _label(text)
    shares = dict.fromkeys(("code", "prose", "short"), 0.05) | {chosen: 0.9}
    cls = {"type": "choice", "choice": chosen, "probabilities": shares, "confidence": 0.8}
    return {"cls": cls}


class _Player:
    """One life of the fake."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._play: str = options.play
        self._after: int = options.after
        self._seconds: float = options.seconds
        self._once = Path(options.once) if options.once else None
        self._count = Path(options.count) if options.count else None
        self._asked = 0
        self._waiting: threading.Timer | None = None
        self._owed: Callable[[], None] | None = None  # what `late` has not said yet

    def run(self) -> int:
        """Serve until the input ends."""
        if self._play == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._play in _FROM_START and self._goes_wrong():
            if self._play == "no-ready":
                _wait_for_ever()
            _say({"status": "ready", "model": "fake"})
            return 0
        _say({"status": "ready", "model": "fake"})
        for line in sys.stdin:
            if line.strip():
                self._hear(line)
        if self._play == "stubborn":
            _wait_for_ever()
        return 0

    def _hear(self, line: str) -> None:
        if self._count is not None:
            with self._count.open("a", encoding="utf-8") as file:
                file.write(line)
        try:
            question = dict(json.loads(line))
        except (ValueError, TypeError) as error:
            _say({"error": str(error)})
            return
        self._asked += 1
        reply: dict[str, object] = {
            "model": "fake",
            "answers": _answers(str(question.get("state", question.get("text", "")))),
            "usage": {"input_tokens": 1, "output_tokens": 0, "latency_ms": 0.0},
            "id": question.get("id", "0"),
        }
        if self._asked <= self._after or not self._goes_wrong():
            _say(reply)
        else:
            self._misbehave(reply)

    def _goes_wrong(self) -> bool:
        """Return whether to misbehave now; with --once only in one life."""
        if self._play == "well":
            return False
        if self._once is None:
            return True
        owner = str(os.getpid())
        with suppress(FileExistsError), self._once.open("x", encoding="ascii") as file:
            file.write(owner)
        return self._once.read_text(encoding="ascii") == owner

    def _misbehave(self, reply: dict[str, object]) -> None:
        match self._play:
            case "slow" | "noise" | "chatty" | "stubborn":
                if self._play == "slow":
                    time.sleep(self._seconds)
                if self._play == "noise":
                    _say_lines(_NOISE)
                if self._play == "chatty":
                    _talk("talk\n[fake] " * 2000 + "all said")
                _say(reply)
            case "late":
                self._owe(reply)
            case "garbage":
                _say_lines(_NOISE)
            case "dies":
                _talk("dies now")
                os._exit(3)
            case "huge-line":
                _write("x" * 16 * 1024 * 1024 + "\n")
            case "silent":
                pass
            case _:
                _say(_spoilt(self._play, reply))

    def _owe(self, reply: dict[str, object]) -> None:
        """Say this when the next question comes, and what was owed before now."""
        before, waiting = self._owed, self._waiting
        self._owed = lambda: _say(reply)
        self._waiting = threading.Timer(self._seconds, self._owed)
        self._waiting.daemon = True
        self._waiting.start()
        if before is not None and waiting is not None and waiting.is_alive():
            waiting.cancel()
            before()


def _spoilt(play: str, reply: dict[str, object]) -> dict[str, object]:
    match play:
        case "wrong-id":
            return reply | {"id": f"not {reply['id']}"}
        case "error":
            return {"id": reply["id"], "error": "out of memory"}
        case "nameless-error":
            return {"error": "out of memory"}
        case "wrong-label":
            return reply | {"answers": {"cls": {"choice": "poem", "confidence": 0.8}}}
        case _:
            return reply | {"answers": {"cls": {"choice": "code", "confidence": 1.8}}}


def _say(line: dict[str, object]) -> None:
    _write(json.dumps(line) + "\n")


def _talk(text: str) -> None:
    sys.stderr.write(f"[fake] {text}\n")
    sys.stderr.flush()


def _say_lines(lines: tuple[str, ...]) -> None:
    _write("".join(line + "\n" for line in lines))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _wait_for_ever() -> None:
    while True:
        signal.pause()


def main() -> int:
    """Play one life."""
    parser = argparse.ArgumentParser(
        prog="python -m workers.fake_daemon",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--play", choices=PLAYS, default="well")
    parser.add_argument("--after", type=int, default=1)
    parser.add_argument("--once")
    parser.add_argument("--count")
    parser.add_argument("--seconds", type=float, default=1.0)
    return _Player(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
