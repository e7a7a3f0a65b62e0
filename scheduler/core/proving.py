"""What is kept of the NPU's canary, and which versions its answer holds for.

Rules of this file: values only; when it is sent and what becomes of it is `canary.py`.
"""

from math import inf

from msgspec import Struct

from policies.canary import Canary, Versions
from scheduler.core.senses import Senses
from scheduler.core.worker import Worker

_UNKNOWN = Versions("", "", "", "")


class Proving(Struct):
    """The canary's state.

    Attributes:
        known: Its answers so far.
        wanted: Row of the NPU that a rule waits for it with; empty: nobody does.
        ticket: Number of the one in hand; 0: none.
        versions: What that one runs under.
        due_at: When it has taken too long, or its worker is ended; inf: never.
        is_judged: Whether its answer is known already and only its seat is still held.
    """

    known: Canary
    wanted: str = ""
    ticket: int = 0
    versions: Versions = _UNKNOWN
    due_at: float = inf
    is_judged: bool = False


def versions_of(senses: Senses, worker: Worker | None) -> Versions:
    """Return what the NPU runs, by the sensors' and its worker's word.

    A version does not grow old: what the sensors said last stands while they are silent.
    """
    engine = f"{worker.backend} {worker.version}".strip() if worker is not None else ""
    return Versions(
        senses.word("kernel"), senses.word("npu_firmware"), senses.word("npu_driver"), engine
    )
