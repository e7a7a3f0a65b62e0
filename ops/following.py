"""Following the live feed: what is new in each snapshot, oldest first. Pure.

A ticket is told when it is first seen in a queue or on a device, when it begins to run, and when it ended.
What came and went between two snapshots is told by its ending alone; endings that no snapshot still held
are counted.
"""

from collections.abc import Iterator
from typing import Any

Told = dict[str, Any]
_SEEN = 4096  # tickets remembered


class Follower:
    """Tells each thing once."""

    def __init__(self, last: int = 10) -> None:
        """Begin.

        Args:
            last: So many endings of the time before are told first.
        """
        self._last = last
        self._ended = -1  # number of the newest ending told; -1: none was looked at
        self._seen: dict[tuple[str, str], None] = {}  # (what, request), oldest first

    def take(self, view: dict[str, Any]) -> list[Told]:
        """Take a snapshot in and return what is new in it.

        Each has `what`: ended, refused, waits, runs or missed; `ago_s`; and the fields of the snapshot.
        """
        told = sorted([*self._endings(view), *self._refusals(view)], key=lambda one: -one["ago_s"])
        told += sorted(self._open(view), key=lambda one: -one["ago_s"])
        while len(self._seen) > _SEEN:
            del self._seen[next(iter(self._seen))]
        return told

    def _endings(self, view: dict[str, Any]) -> Iterator[Told]:
        recent = view["recent"]
        ended = recent["ended"]
        if (
            self._ended < 0 or recent["total"] < self._ended
        ):  # the first, or of a box without its past
            fresh = ended[: self._last]
        else:
            fresh = [one for one in ended if one["n"] > self._ended]
            missed = recent["total"] - self._ended - len(fresh)
            if missed:
                yield {"what": "missed", "ago_s": fresh[-1]["ago_s"] + 0.001, "endings": missed}
        self._ended = recent["total"]
        for one in reversed(fresh):
            self._seen["refused", one["request"]] = None
            yield {"what": "ended", **one}

    def _refusals(self, view: dict[str, Any]) -> Iterator[Told]:
        for one in reversed(view["recent"]["refused"]):
            if self._is_new("refused", one["request"]):
                yield {"what": "refused", **one}

    def _open(self, view: dict[str, Any]) -> Iterator[Told]:
        for name, device in view["devices"].items():
            for one in device["holders"]:
                if self._is_new("runs", one["request"]):
                    yield {"what": "runs", "ago_s": one["held_s"], "on": name, **one}
            hot = device["state"] == "hot"
            for one in device["waiting"]:
                if self._is_new("waits", one["request"]):
                    yield {"what": "waits", "ago_s": one["waited_s"], "on": name, "hot": hot, **one}

    def _is_new(self, what: str, request: str) -> bool:
        key = (what, request)
        is_new = key not in self._seen
        self._seen[key] = None
        return is_new
