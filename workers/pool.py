"""Threads in which helpers work on questions that may take long."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from scheduler.log import note
from workers.session import Judge

log = logging.getLogger(__name__)


class Pool:
    """Runs work beside the loop. What fails is in the log; its question falls open or times out."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def begin(self, question: Judge, work: Callable[[], None]) -> None:
        """Work on a question, unless it is due before its turn comes."""

        def run() -> None:
            if time.monotonic() < question.expires_at:
                work()

        self.submit(run)

    def submit(self, work: Callable[[], None]) -> None:
        """Do something that no question waits for."""
        self._threads.submit(_logged, work)


def _logged(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception as error:  # the boundary of a thread that nobody waits for
        note(log, "helper_failed", level=logging.ERROR, error=f"{type(error).__name__}: {error}")
        raise
