"""The one seam between a device worker and whatever runs its models."""

from collections.abc import Callable
from typing import Protocol

from scheduler.wire.catalogue import CatalogueBody
from workers.job import Job, Outcome, Unloaded

Sink = Callable[[Outcome], None]


class Engine(Protocol):
    """Runs jobs for one device.

    `start` returns at once. What comes of a job goes to the sink, from any thread, in order, and ends
    with exactly one End or Error, also after `cancel`.
    """

    @property
    def backend(self) -> str:
        """What really computes, such as "llama.cpp cpu"."""
        ...

    @property
    def seats(self) -> int:
        """How many jobs it runs at a time, >= 1."""
        ...

    @property
    def slots(self) -> int:
        """How many conversations' prompts it keeps a row at most; 0: none."""
        ...

    @property
    def by_row(self) -> bool:
        """Whether a row takes no more jobs at a time, and keeps no more prompts, than it has slots."""
        ...

    def start(self, job: Job, sink: Sink) -> None:
        """Begin a job."""
        ...

    def cancel(self, lease: int) -> None:
        """Stop a job as soon as can be; a job that is over, or unknown, is no fault."""
        ...

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Let go of a row once nothing uses it, and say so, from any thread, also if it was not loaded."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes that rows take when they are loaded, as far as known."""
        ...

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn which rows there are."""
        ...

    def resident(self) -> list[str]:
        """Return the models that are loaded."""
        ...

    def close(self) -> None:
        """Let go of all, children included; called once, when the process ends."""
        ...
