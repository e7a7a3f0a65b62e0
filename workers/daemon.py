"""The `laya-daemon` backend: a model in a child process that speaks JSON lines.

One thread keeps the child: starts it, asks it, ends it when it is late, starts it again after a pause that
doubles. Callers only hand over a text and wait; while the child is not warm they are told so at once.
"""

import logging
import queue
import selectors
import shlex
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress

from scheduler.log import note
from scheduler.settings import Scorer
from workers.backend import Answer, BackendError, NotRunning
from workers.child import Child
from workers.dialogue import READY_S, REPLY_S, Answered, Dialogue, Ready
from workers.lines import Lines
from workers.question import WARM_UP

log = logging.getLogger(__name__)
BACKOFF_S = (0.1, 30.0)  # first and longest pause before the child is started again, doubling
STEADY_S = 30.0  # a child that lived this long has earned the first pause again
_TALK = 4096  # bytes of one line of stderr that go to the log
_TALK_LINES = (
    200  # lines of stderr of one life that go to the log; a chatty child must not fill the disk
)


def load(conf: Scorer) -> "Daemon":
    """Start the daemon that the settings name and return it warm.

    Raises:
        BackendError: It did not get warm; the message says why.
    """
    daemon = Daemon(command_of(conf), f"laya-daemon {conf.device}")
    try:
        daemon.wait_until_warm()
    except BackendError:
        daemon.close()
        raise
    return daemon


def command_of(conf: Scorer) -> list[str]:
    """Return program and arguments. Values are filled in after the split, so a path may hold spaces."""
    filled = {"{gguf}": conf.gguf, "{device}": conf.device}
    return [_fill(word, filled) for word in shlex.split(conf.command)]


def _fill(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


class Daemon:
    """A child that classifies, kept alive."""

    def __init__(
        self,
        command: Sequence[str],
        name: str,
        *,
        ready_s: float = READY_S,
        reply_s: float = REPLY_S,
    ) -> None:
        """Start it; `wait_until_warm` tells when it can be asked.

        Args:
            command: Program and arguments.
            name: What status shows.
            ready_s: It must be ready within this, seconds.
            reply_s: It must answer within this, seconds, or it is killed and started again.
        """
        self.name = name
        self._command = list(command)
        self._limits = (ready_s, reply_s)
        self._questions: queue.SimpleQueue[tuple[str, Future[Answer]]] = queue.SimpleQueue()
        self._at_hand: Future[Answer] | None = None
        self._first: Future[None] = Future()  # how the first life began
        self._is_warm = False
        self._stop = threading.Event()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._keeper = threading.Thread(target=self._keep, name="laya-daemon", daemon=True)
        self._keeper.start()

    def wait_until_warm(self) -> None:
        """Return when the first child has answered the first question.

        Raises:
            BackendError: It ended before; the message says why.
        """
        self._first.result()

    def classify(self, text: str) -> Answer:
        """Return what the child says of a text.

        Raises:
            NotRunning: It starts, or is down; told at once.
            BackendError: It failed at this text, or did not answer in time.
        """
        if not self._is_warm:
            raise NotRunning(f"{self.name} is not running")
        future: Future[Answer] = Future()
        self._questions.put((text, future))
        self._wake()
        if self._stop.is_set() or not self._is_warm:
            self._refuse_waiting("it ended")  # the keeper may have looked for the last time
        return future.result()

    def close(self) -> None:
        """End the child: no more input, then SIGTERM, then SIGKILL; a bit more than a second at worst."""
        self._stop.set()
        self._wake()
        self._keeper.join()
        self._wake_read.close()
        self._wake_write.close()

    def _wake(self) -> None:
        with suppress(OSError):  # full of wake-ups already, or closed
            self._wake_write.send(b"x")

    # --- the keeper's thread ---

    def _keep(self) -> None:
        pause_s = BACKOFF_S[0]
        try:
            while not self._stop.is_set():
                lived_s = self._live_once()
                if lived_s >= STEADY_S:
                    pause_s = BACKOFF_S[0]
                self._stop.wait(pause_s)
                pause_s = min(BACKOFF_S[1], pause_s * 2)
        finally:  # after a bug of ours, too, nobody is left waiting
            self._is_warm = False
            self._fail(f"{self.name} is closed")

    def _live_once(self) -> float:
        """Live one life of the child and return how long it was, seconds."""
        began_at = time.monotonic()
        status: int | None = None
        try:
            with _Life(self._command, self._limits) as life:
                reason = self._live(life)
            status = life.status
            if not self._is_warm and life.last_words:
                reason = f"{reason}; it said: {life.last_words}"
        except BackendError as error:  # at the first question
            reason = str(error)
        except OSError as error:  # no process, no pipe, no descriptor left
            reason = f"it cannot be talked to: {error.strerror or error}"
        self._is_warm = False
        lived_s = time.monotonic() - began_at
        self._fail(f"{self.name}: {reason}")
        if not self._stop.is_set():
            note(
                log, "backend_down", level=logging.WARNING, backend=self.name,
                reason=reason, status=status, after_s=round(lived_s, 3),
            )  # fmt: skip
        return lived_s

    def _live(self, life: "_Life") -> str:
        """Talk with one child until it or we must end; return why.

        Raises:
            BackendError: It failed at the first question.
            OSError: It does not read.
        """
        life.selector.register(self._wake_read, selectors.EVENT_READ)
        while not self._stop.is_set():
            ready = life.wait()
            if self._wake_read in ready:
                self._wake_read.recv(4096)
            if life.child.stderr in ready:
                life.hear_talk()
            if life.child.stdout in ready:
                data = life.child.read(life.child.stdout)
                if data == b"":
                    life.ends_itself = True
                    return "it ended"
                self._heard(life, life.dialogue.take(data or b""))
            fault = life.dialogue.fault(time.monotonic())
            if fault:
                return fault
            if self._is_warm and life.dialogue.is_free:
                self._ask_next(life)
        life.ends_itself = True
        return "it was stopped"

    def _heard(self, life: "_Life", meant: Ready | Answered | None) -> None:
        match meant:
            case Ready():
                life.ask(WARM_UP)
            case Answered(answer=answer) if not self._is_warm:
                if isinstance(answer, BackendError):
                    raise answer
                self._is_warm = True
                life.note_up(self.name)
                if not self._first.done():
                    self._first.set_result(None)
            case Answered(answer=answer):
                at_hand, self._at_hand = self._at_hand, None
                _settle(at_hand, answer)
            case None:
                pass

    def _ask_next(self, life: "_Life") -> None:
        with suppress(queue.Empty):
            text, self._at_hand = self._questions.get_nowait()
            life.ask(text)

    def _fail(self, reason: str) -> None:
        if not self._first.done():
            self._first.set_exception(BackendError(reason))
        at_hand, self._at_hand = self._at_hand, None
        _settle(at_hand, BackendError(reason))
        self._refuse_waiting(reason)

    def _refuse_waiting(self, reason: str) -> None:
        with suppress(queue.Empty):
            while True:
                _settle(self._questions.get_nowait()[1], NotRunning(reason))


class _Life:
    """One child with its dialogue. `with` ends it, gently where it did nothing wrong."""

    def __init__(self, command: Sequence[str], limits: tuple[float, float]) -> None:
        ready_s, reply_s = limits
        self._began_at = time.monotonic()
        self.child = Child(command)
        self.dialogue = Dialogue(self._began_at, ready_s=ready_s, reply_s=reply_s)
        self.selector = selectors.DefaultSelector()
        for pipe in (self.child.stdout, self.child.stderr):
            self.selector.register(pipe, selectors.EVENT_READ)
        self.ends_itself = False  # it is let go; else it is killed
        self.status: int | None = None  # how it ended
        self.last_words = ""  # its last line on stderr, cut short
        self._talk = Lines(_TALK)
        self._talked = 0

    def __enter__(self) -> "_Life":
        return self

    def __exit__(self, *_error: object) -> None:
        self.selector.close()
        self._hear_last_words()
        self.status = self.child.end(gently=self.ends_itself)

    def wait(self) -> set[object]:
        """Return what can be read, at the latest when the child is late."""
        due_at = self.dialogue.due_at
        timeout_s = None if due_at is None else max(0.0, due_at - time.monotonic())
        return {key.fileobj for key, _ in self.selector.select(timeout_s)}

    def ask(self, text: str) -> None:
        """Put a question."""
        self.child.write(self.dialogue.ask(text, time.monotonic()))

    def note_up(self, name: str) -> None:
        """Log that it is warm."""
        after_s = round(time.monotonic() - self._began_at, 3)
        note(log, "backend_up", backend=name, pid=self.child.pid, after_s=after_s)

    def hear_talk(self) -> None:
        """Take what waits on its stderr to the log."""
        data = self.child.read(self.child.stderr)
        if data == b"":
            self.selector.unregister(self.child.stderr)
        self._note_talk(data or b"")

    def _hear_last_words(self) -> None:
        """Take why it ended to the log; its last lines say most."""
        while data := self.child.read(self.child.stderr):
            self._note_talk(data)
            if self._talked >= _TALK_LINES:
                break
        self._note_talk(b"\n")

    def _note_talk(self, data: bytes) -> None:
        for line in self._talk.feed(data):
            if not line.strip():
                continue
            text = line.decode("utf-8", "replace")
            self.last_words = text[:200]
            self._talked += 1
            if self._talked <= _TALK_LINES:
                note(log, "backend_said", pid=self.child.pid, line=text)


def _settle(future: Future[Answer] | None, answer: Answer | BackendError) -> None:
    if future is None or future.done():
        return
    if isinstance(answer, BackendError):
        future.set_exception(answer)
    else:
        future.set_result(answer)
