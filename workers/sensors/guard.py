"""Calls that may never come back, made so that they hold up nobody else.

Rules of this file: each call has a deadline and a name. A call that misses its deadline keeps its thread,
which is left alone; until it comes back the same name is not called again, and others get another thread.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from workers.sensors.raw import Hung

T = TypeVar("T")
DEADLINE_S = 0.2
HUNG_MAX = 32  # threads that may be stuck at once; past it nothing new is tried

_Outcome = tuple[bool, object]  # (it returned, what it returned or raised)


class _Hand(threading.Thread):
    """One thread that makes one call after another."""

    def __init__(self) -> None:
        super().__init__(name="sensor-read", daemon=True)  # a stuck one must not keep the process
        self.calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        """Make calls until told to stop."""
        while (call := self.calls.get()) is not None:
            try:
                self.outcomes.put((True, call()))
            except Exception as error:  # noqa: BLE001  # a driver's wrapper raises anything; it is handed on
                self.outcomes.put((False, error))


class Guard:
    """Makes calls with a deadline. Belongs to one thread."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._hand: _Hand | None = None
        self._hung: dict[str, _Hand] = {}

    @property
    def hung(self) -> list[str]:
        """Names of the calls that have not come back."""
        return list(self._hung)

    def call(self, name: str, call: Callable[[], T]) -> T:
        """Return what a call returns.

        Raises:
            Hung: It is not back in time, or the last one of that name is not back yet.
            Exception: Whatever the call raised.
        """
        stuck = self._hung.get(name)
        if stuck is not None:
            if stuck.outcomes.empty():
                raise Hung(name)
            del self._hung[
                name
            ]  # it came back late: what it says is old, but it may be asked again
        if len(self._hung) >= HUNG_MAX:
            raise Hung(name)
        try:
            hand = self._hand or _Hand()
        except RuntimeError as error:  # the machine gives no more threads
            raise Hung(name) from error
        self._hand = hand
        hand.calls.put(call)
        try:
            returned, outcome = hand.outcomes.get(timeout=self._deadline_s)
        except queue.Empty:
            hand.calls.put(None)  # should it come back, it ends
            self._hung[name], self._hand = hand, None
            raise Hung(name) from None
        if not returned:
            assert isinstance(outcome, Exception)  # noqa: S101  # see _Hand
            raise outcome
        return outcome  # type: ignore[return-value]  # what `call` returned

    def close(self) -> None:
        """Let the idle thread end."""
        if self._hand is not None:
            self._hand.calls.put(None)
            self._hand = None
