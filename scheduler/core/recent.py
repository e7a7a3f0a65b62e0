"""What ended last, for people who look: where it landed, why, and how it went.

It costs a request one append; everything else is read out when somebody looks.
"""

from collections import deque
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from scheduler.core.effects import Ended
from scheduler.core.story import Stories, Story

KEEP = 64  # endings that are kept
REFUSED = 16  # refusals at the door that are shown

Ending = tuple[float, Ended]


class FrozenEnded(Ended, frozen=True, gc=False, array_like=True):
    """An ending at rest: without the names of its fields, which would be three quarters of it."""


class FrozenRecent(Struct, frozen=True, array_like=True):
    """What ended last, at rest."""

    total: int
    endings: list[tuple[float, FrozenEnded]]


class Recent:
    """The latest endings, oldest first."""

    def __init__(self) -> None:
        self.total = 0  # ever, so that whoever follows knows what it missed
        self.endings: deque[Ending] = deque(maxlen=KEEP)

    def add(self, at: float, ended: Ended) -> None:
        """Take in that a request ended."""
        self.total += 1
        self.endings.append((at, ended))

    def freeze(self) -> FrozenRecent:
        """Return all of it."""
        endings = [(at, FrozenEnded(*astuple(ended))) for at, ended in self.endings]
        return FrozenRecent(self.total, endings)

    def thaw(self, frozen: FrozenRecent) -> None:
        """Become what was frozen."""
        self.total = frozen.total
        self.endings.extend((at, Ended(*astuple(ended))) for at, ended in frozen.endings)

    def inherit(self, old: "Recent", shift_s: float) -> None:
        """Take over from an earlier start of the broker."""
        self.total = old.total
        self.endings.extend((at + shift_s, ended) for at, ended in old.endings)


def recent_view(recent: Recent, stories: Stories, refusals: Stories, at: float) -> dict[str, Any]:
    """Return what ended last, newest first, and what was refused at the door.

    Args:
        recent: The endings.
        stories: Of requests that ended; one that is not kept any more tells nothing.
        refusals: Of requests that were never accepted.
        at: Now.
    """
    newest = [
        _ended(recent.total - back, ended_at, ended, stories, at)
        for back, (ended_at, ended) in enumerate(reversed(recent.endings))
    ]
    refused = [_refused(*one, at) for one in islice(refusals.newest(), REFUSED)]
    return {"total": recent.total, "ended": newest, "refused": refused}


def stays(story: Story) -> str:
    """Return why a rule that would have moved a request let it stay; empty: none would have."""
    return next((detail for _, what, detail in reversed(story) if what == "stays"), "")


def _ended(number: int, ended_at: float, ended: Ended, stories: Stories, at: float) -> Any:
    past = stories.of(ended.request)
    return {
        "n": number,
        "ago_s": round(at - ended_at, 3),
        "request": ended.request,
        "lane": ended.lane,
        "op": ended.op,
        "model": ended.model,
        "device": ended.device,
        "rule": ended.rule,
        "why": ended.why,
        "stays": stays(past[1]) if past else "",
        "degraded": ended.degraded,
        "wanted": ended.wanted,
        "outcome": ended.outcome,
        "waited_s": round(max(0.0, ended.waited_s), 3),
        "ran_s": round(ended.ran_s, 3),
        "pulled_s": _rounded(ended.pulled_s),
        "loaded_s": _rounded(ended.loaded_s),
        "output_tokens": ended.output_tokens,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _refused(rid: str, lane: str, story: Story, at: float) -> Any:
    (asked_at, _, name), (_, _, message) = story[0], story[-1]
    return {
        "ago_s": round(at - asked_at, 3),
        "request": rid,
        "lane": lane,
        "name": name,
        "message": message,
    }
