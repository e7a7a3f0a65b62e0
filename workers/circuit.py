"""What decisions ask for a class: a backend, in place or behind a circuit breaker.

`InPlace` is for one that takes a tenth of a millisecond. `Circuit` is for one that may be slow, stuck or
gone: it is asked in one thread, one text at a time, and nobody waits for it past his own deadline. While
its circuit is open nobody waits at all, and its probes are questions of our own, so no request pays for
one. Where it only is too slow, builtin decides in its stead until a probe is fast again.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from scheduler.log import note
from scheduler.settings import Scorer
from workers.backend import Backend, BackendError, NotRunning, Verdict
from workers.backends import open_backend
from workers.breaker import Breaker, Pace, Rules
from workers.question import WARM_UP

log = logging.getLogger(__name__)
_OWN_FAULT_S = (
    0.3  # an answer that took less was late for want of a turn, which is no fault of the backend
)
MARGIN_S = 0.03  # a failure is told this long before the answer is due, so that it still gets there
_BACKOFF_S = (0.2, 30.0)  # first and longest pause before a backend is loaded again, doubling


class Classifier(Protocol):
    """Tells classes apart for whoever decides."""

    @property
    def name(self) -> str:
        """Who decides now, as status shows it."""
        ...

    def may_wait(self) -> bool:
        """Return whether `classify` may take longer than a heartbeat can bear."""
        ...

    def classify(self, text: str, due_at: float) -> Verdict:
        """Return the class of a text, or fail before `due_at` (monotonic seconds).

        Raises:
            BackendError: It cannot be told in time.
        """
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class InPlace:
    """A backend that is asked where the question arises."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def name(self) -> str:
        """Who decides."""
        return self._backend.name

    def may_wait(self) -> bool:
        """Return False: it never does."""
        return False

    def classify(self, text: str, due_at: float) -> Verdict:  # it takes no time
        """Return the class of a text."""
        return self._backend.classify(text)

    def close(self) -> None:
        """Give back what the backend holds."""
        self._backend.close()


class Circuit:
    """A backend behind a breaker."""

    def __init__(
        self,
        backend: Backend,
        stand_in: Backend,
        *,
        slow_ms: float,
        rules: Rules | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start closed.

        Args:
            backend: Loaded and warm.
            stand_in: Decides in place while `backend` is too slow.
            slow_ms: How slow that is, the p99 of its answers; 0: it never is.
            rules: When the circuit opens and closes.
            clock: Monotonic seconds.
        """
        self._backend = backend
        self._stand_in = stand_in
        self._slow_s = slow_ms / 1e3
        self._clock = clock
        self._guard = threading.Lock()  # of all that follows
        self._breaker = Breaker(rules)
        self._pace = Pace()
        self._is_slow = False  # the circuit is open for that reason, and the stand-in decides
        self._stuck_at: float | None = (
            None  # when the answer at hand is late; None: none is at hand
        )
        self._timer: threading.Timer | None = None
        self._is_closed_down = False
        self._turn = ThreadPoolExecutor(1, thread_name_prefix="classify")

    @property
    def name(self) -> str:
        """Who decides now."""
        with self._guard:
            if self._is_slow:
                return f"{self._stand_in.name} (instead of {self._backend.name}, too slow)"
            if not self._breaker.is_closed:
                return f"{self._backend.name} (not asked: it fails)"
            return self._backend.name

    def may_wait(self) -> bool:
        """Return whether the backend would be asked, which may take its time."""
        with self._guard:
            return self._breaker.is_closed and not self._is_stuck()

    def classify(self, text: str, due_at: float) -> Verdict:
        """Return the class of a text; waits for its turn and the answer, until shortly before `due_at`.

        Raises:
            BackendError: It cannot be told in time.
        """
        with self._guard:
            if self._is_slow:
                return self._stand_in.classify(text)
            if not self._breaker.is_closed:
                raise BackendError(f"{self._backend.name} fails; it is not asked for a while")
            if self._is_stuck():
                raise BackendError(f"{self._backend.name} is late with another answer")
            turn = self._turn.submit(self._ask, text, due_at - MARGIN_S)
        return self._answer_of(turn, due_at - MARGIN_S)

    def close(self) -> None:
        """End the backend; a question at hand fails."""
        with self._guard:
            self._is_closed_down = True
            if self._timer is not None:
                self._timer.cancel()
        self._backend.close()
        self._turn.shutdown(cancel_futures=True)

    def _is_stuck(self) -> bool:
        return self._stuck_at is not None and self._clock() >= self._stuck_at

    def _answer_of(self, turn: "Future[Verdict]", due_at: float) -> Verdict:
        try:
            return turn.result(max(0.0, due_at - self._clock()))
        except TimeoutError:
            turn.cancel()  # if it did not get its turn; else the answer only tells how late it was
            raise BackendError(f"{self._backend.name} did not answer in time") from None

    # --- the turn: one text at a time ---

    def _ask(self, text: str, due_at: float) -> Verdict:
        """Ask the backend and draw the consequences for the circuit."""
        with self._guard:
            if not self._breaker.is_closed:
                raise BackendError("the circuit opened while this waited")
            began_at = self._clock()
            if began_at >= due_at:
                raise BackendError("its turn came too late")
            self._stuck_at = due_at
        try:
            verdict = self._backend.classify(text)
        except NotRunning:  # said at once, and it comes back by itself: no reason to stay away
            self._took(None)
            raise
        except (
            Exception
        ):  # a bug of the backend's must not leave its circuit closed and its turn taken
            self._took(began_at, failed=True)
            raise
        now = self._clock()
        self._took(began_at, failed=now >= due_at and now - began_at > _OWN_FAULT_S)
        return verdict

    def _took(self, began_at: float | None, *, failed: bool = False) -> None:
        with self._guard:
            now = self._clock()
            self._stuck_at = None
            if began_at is None:
                return
            if failed:
                self._breaker.failed(now)
            else:
                self._breaker.succeeded(now)
                self._pace.add(slow=now - began_at > self._slow_s)
                if self._slow_s and self._pace.is_slow:
                    self._is_slow = True
                    self._breaker.trip(now)
            if not self._breaker.is_closed:
                self._opened(now)

    def _opened(self, now: float) -> None:
        note(
            log, "circuit_open", level=logging.WARNING, backend=self._backend.name,
            reason="slow" if self._is_slow else "fails",
            instead=self._stand_in.name if self._is_slow else "the default model",
        )  # fmt: skip
        self._probe_later(now)

    # --- probes: questions of our own ---

    def _probe_later(self, now: float) -> None:
        probe_at = self._breaker.probe_at
        if probe_at is None or self._is_closed_down:
            return
        self._timer = threading.Timer(max(0.0, probe_at - now), self._turn_to_probe)
        self._timer.daemon = True
        self._timer.start()

    def _turn_to_probe(self) -> None:
        with self._guard:
            if not self._is_closed_down:
                self._turn.submit(self._probe)

    def _probe(self) -> None:
        with self._guard:
            began_at = self._clock()
            if not self._breaker.probe(began_at):
                self._probe_later(began_at)  # a timer that rang a little early
                return
        try:
            self._backend.classify(WARM_UP)
            failed = False
        except Exception:  # noqa: BLE001  # whatever it is, it is no answer
            failed = True
        with self._guard:
            now = self._clock()
            if failed or (self._is_slow and now - began_at > self._slow_s):
                self._breaker.failed(now)
                self._probe_later(now)
                return
            self._breaker.succeeded(now)
            self._is_slow = False
            self._pace.clear()
            note(log, "circuit_closed", backend=self._backend.name)


def open_classifier(conf: Scorer) -> Classifier:
    """Load what the settings name and return it warm, however often that must be tried.

    A box without a scorer serves all the same, by the default model; so this never gives up.
    """
    if conf.backend == "builtin":
        return InPlace(open_backend(conf))
    backend = _loaded(conf)
    return Circuit(backend, open_backend(Scorer()), slow_ms=conf.slow_ms)


def _loaded(conf: Scorer) -> Backend:
    pause_s = _BACKOFF_S[0]
    while True:
        try:
            return open_backend(conf)
        except BackendError as error:
            note(
                log, "backend_down", level=logging.ERROR,
                backend=conf.backend, reason=str(error), again_in_s=pause_s,
            )  # fmt: skip
        time.sleep(pause_s)
        pause_s = min(_BACKOFF_S[1], pause_s * 2)
