"""The seam between the jobs of an engine and the server that does them."""

from collections.abc import Callable, Mapping
from typing import Protocol

from workers.upstream.call import Target


class GivenUp(Exception):
    """Whoever waited for a server wants it no more."""


class Place(Protocol):
    """One row at one server."""

    @property
    def name(self) -> str:
        """The name under which the server knows the row."""
        ...

    @property
    def target(self) -> Target:
        """Where it is, once it is ready."""
        ...

    @property
    def is_resident(self) -> bool:
        """Whether a job would find it ready."""
        ...

    @property
    def size(self) -> int:
        """Bytes that it takes of this box while it is ready; 0: none, or not known."""
        ...

    def ready(self, on_load: Callable[[], None], is_wanted: Callable[[], bool]) -> float | None:
        """Wait until it serves; return the seconds a load took that this caller began, else None.

        Args:
            on_load: Called before waiting for a load.
            is_wanted: Asked again and again while waiting.

        Raises:
            JobError: 503, it does not serve; says why and what would help.
            GivenUp: `is_wanted` said no.
        """
        ...

    def enter(self, conversation: str, op: str) -> tuple[object, Mapping[str, bytes]]:
        """A job begins: return what `leave` needs, and members to add to its body."""
        ...

    def leave(self, entered: object) -> None:
        """The job is over."""
        ...

    def is_idle(self, entered: object) -> bool | None:
        """Return whether nothing works any more on the job that entered; None: unknown."""
        ...

    def progress(self) -> object | None:
        """Return what is another value once it has worked for a while; None: unknown."""
        ...

    def give_up(self, entered: object) -> bool:
        """Make the work of a job stop that did not stop by itself; return whether it has stopped."""
        ...

    def fault(self, wait_s: float) -> str:
        """Return how the server ended, if it has or does so within `wait_s`; empty: it has not."""
        ...

    def stop(self) -> None:
        """Let go of the row; returns when its memory is free."""
        ...
