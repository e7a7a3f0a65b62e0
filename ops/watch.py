"""Which worker processes live and say nothing: stopped, deadlocked, or waiting for ever in the kernel. Pure.

The broker lets go of a worker that misses its heartbeats, but while its process lives no other is started in
its place. Only what the broker knew once is judged: who still loads a model has not registered yet.
Looks are counted, not seconds, so that a box that slept has as many of them left as before.
"""

from collections.abc import Collection, Mapping
from typing import Any

LOOKS = 3  # a process the broker does not know any more is given up after so many looks in a row


class Watch:
    """What was seen of the worker processes."""

    def __init__(self, looks: int = LOOKS) -> None:
        """Begin.

        Args:
            looks: How often in a row a process may be unknown.
        """
        self._looks = looks
        self._misses: dict[int, int] = {}  # pid that the broker knew once -> looks since then

    def stuck(self, running: Mapping[str, int], known: Collection[int]) -> list[str]:
        """Take one look, and return the kinds whose process is to be ended.

        Args:
            running: Kind -> pid of its process.
            known: Pids of the workers that are registered with the broker.
        """
        before = self._misses
        self._misses = {
            pid: 0 if pid in known else before[pid] + 1
            for pid in running.values()
            if pid in known or pid in before
        }
        return [kind for kind, pid in running.items() if self._misses.get(pid, 0) >= self._looks]


def registered(status: Mapping[str, Any]) -> set[int]:
    """Return the pids of all workers in the broker's status."""
    devices = [device["worker"] for device in status["devices"].values()]
    workers = [*status["scorers"], *status["store"], *filter(None, devices)]
    return {worker["pid"] for worker in workers}
