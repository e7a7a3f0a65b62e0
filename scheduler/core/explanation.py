"""Why a request waited and where it landed, read out of its story and of who held its device meanwhile.

Rules of this file: pure; facts, not sentences, those are made where people read them (ops/sentences.py).
Seconds count from the instant the request was asked.
"""

import math
from collections import Counter
from typing import Any

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.forecast import starts
from scheduler.core.holds import Hold

_NAMED = 8  # holders named at most; their number is told in any case


def explanation(box: Box, rid: str, at: float) -> dict[str, Any]:
    """Return what is known of a request, or how far back anything is known.

    Returns:
        `known` false, `kept` and `reaches_back_s` where the request is unknown; else its lane, name, outcome
        (None: it has not ended) and its passages, oldest first, beside the story itself.
    """
    ticket = next((t for t in box.tickets.values() if t.asked.rid == rid), None)
    past = (ticket.lane, ticket.story) if ticket else box.stories.of(rid) or box.refusals.of(rid)
    if past is None:
        return {
            "request": rid,
            "known": False,
            "kept": box.limits.stories,
            "reaches_back_s": _rounded(at - max(box.started_at, box.stories.oldest_at())),
        }
    lane, story = past
    reading = _Reading(box, rid, lane, story[0][0], at)
    for entry in story:
        reading.take(*entry)
    return reading.told() | {"story": list(story)}


class _Reading:
    """Goes through a story entry by entry and collects the passages it tells of."""

    def __init__(self, box: Box, rid: str, lane: str, began_at: float, now: float) -> None:
        self._box = box
        self._rid = rid
        self._lane = lane
        self._began_at = began_at
        self._now = now
        self._name = ""
        self._model = ""
        self._outcome: str | None = None
        self._ended_at = now
        self._passages: list[dict[str, Any]] = []
        self._queued_at: float | None = None  # it waits since then
        self._running_at: float | None = None  # it runs since then
        self._pulling_at: float | None = None  # its row's files are waited for since then
        # lanes that went past it while it was the fair head, and those a slot was kept for meanwhile
        self._passed: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()

    def take(self, at: float, what: str, detail: str) -> None:
        """Take the next entry."""
        if what == "asked":
            self._name = detail
        elif what == "queued":
            self._queued(at, detail)
        elif what == "running":
            self._close(at, detail)
            self._running_at = at
            self._add("ran", at, device=detail, model=self._model)
        elif what == "pulling":
            self._close(at)
            self._model, self._pulling_at = detail, at
        elif what == "stand-in":
            self._close(at)
            self._add(what, at, detail=detail)
        elif what in {"passed over", "kept waiting"}:
            (self._passed if what == "passed over" else self._kept)[detail] += 1
        elif what == "ended":
            self._close(at)
            self._outcome, self._ended_at = detail, at
        elif what == "refused":  # at the door
            self._add(what, at, detail=detail)
            self._outcome, self._ended_at = what, at
        elif self._running_at is not None and what in {"load", "prefill", "first token"}:
            after_s = _rounded(at - self._running_at)
            self._last_run().setdefault(f"{what.replace(' ', '_')}_after_s", after_s)
        else:
            self._add(what, at, detail=detail)

    def told(self) -> dict[str, Any]:
        """Return what was told, up to now where it has not ended."""
        if self._outcome is None:
            self._close(self._now, lasts=True)
        return {
            "request": self._rid,
            "known": True,
            "lane": self._lane,
            "name": self._name,
            "outcome": self._outcome,
            "took_s": _rounded(self._ended_at - self._began_at),
            "passages": self._passages,
        }

    def _add(self, what: str, at: float, **facts: object) -> None:
        self._passages.append({"what": what, "after_s": _rounded(at - self._began_at), **facts})

    def _queued(self, at: float, detail: str) -> None:
        """It waits: for the row that the entry names, or once more, for the reason that it names."""
        self._close(at)
        if detail in self._box.catalogue.rows or self._box.device_named(detail):
            self._model = detail  # a hold of an outside lane names its device here
        else:
            self._add("requeued", at, detail=detail)
        self._queued_at = at

    def _close(self, at: float, device: str = "", *, lasts: bool = False) -> None:
        """End the passage that is open: at the grant on a device, otherwise, or not yet (`lasts`)."""
        if self._running_at is not None:
            self._ran(self._running_at, at)
            self._running_at = None
        if self._pulling_at is not None:
            self._pulled(self._pulling_at, at, lasts=lasts)
            self._pulling_at = None
        if self._queued_at is not None:
            self._waited(self._queued_at, at, device, lasts=lasts)
            self._queued_at = None

    def _last_run(self) -> dict[str, Any]:
        return next(p for p in reversed(self._passages) if p["what"] == "ran")

    def _ran(self, since: float, until: float) -> None:
        passage = self._last_run()
        passage["for_s"] = _rounded(until - since)
        own = [
            h
            for h in self._box.holds.on(passage["device"], since, math.inf)
            if h.request == self._rid
        ]
        if own and own[0].load_s is not None:
            passage["load_s"] = _rounded(own[0].load_s)

    def _pulled(self, since: float, until: float, *, lasts: bool) -> None:
        pull = self._box.pulls.running.get(self._model) if lasts else None
        so_far = {"done_bytes": pull.done, "total_bytes": pull.total} if pull is not None else {}
        self._add(
            "pulled", since, model=self._model, for_s=_rounded(until - since), lasts=lasts, **so_far
        )

    def _waited(self, since: float, until: float, name: str, *, lasts: bool) -> None:
        """Add a wait: who held the device when it came, and who was granted it before."""
        device = self._device(name)
        if device is None:
            return
        others = [h for h in _holds(self._box, device, since, until) if h.request != self._rid]
        held = [h for h in others if h.granted_at <= since]
        before = Counter(h.lane for h in others if since < h.granted_at < until)
        self._add(
            "waited", since,
            for_s=_rounded(until - since),
            device=device.name,
            model=self._model,
            held_by=[
                {
                    "lane": h.lane,
                    "request": h.request,
                    "model": h.model,
                    "held_s": _rounded(since - h.granted_at),  # already, when this one came
                    "still_s": _rounded(min(h.ended_at, self._now) - since),
                    "load_s": _rounded(h.load_s),
                }
                for h in held[:_NAMED]
            ],
            holders=len(held),
            ran_before=dict(sorted((before - self._passed).items())),
            passed_over_by=dict(sorted(self._passed.items())),
            kept_waiting_for=dict(sorted(self._kept.items())),
            **self._heat(device, since, until),
            complete=self._box.holds.reach_back_to(since),
            **(self._place(device) if lasts else {}),
        )  # fmt: skip

        self._passed, self._kept = Counter(), Counter()

    def _heat(self, device: Device, since: float, until: float) -> dict[str, object]:
        """Return how long the heat hold kept a device from starting anything, and its lines."""
        hot_s, hold = device.heat.within_s(since, until), self._box.climate.hold
        if not hot_s and not device.is_hot:
            return {"hot_s": 0.0}
        lines = {"stop_c": hold.lines.on_c, "resume_c": hold.lines.off_c} if hold else {}
        return {"hot_s": _rounded(hot_s), **lines}

    def _place(self, device: Device) -> dict[str, object]:
        """Return where a request stands that waits now."""
        ahead: Counter[str] = Counter()
        for position, (ticket, eta_s) in enumerate(starts(self._box, device, self._now), 1):
            if ticket.asked.rid == self._rid:
                return {
                    "position": position,
                    "ahead": dict(sorted(ahead.items())),
                    "eta_s": _rounded(eta_s),
                    "has_worker": device.worker is not None,
                    "is_hot": device.is_hot,
                    "is_short": device.is_short,
                }
            ahead[ticket.lane] += 1
        return {}

    def _device(self, name: str) -> Device | None:
        """Return the device of that name, else the one the row runs on."""
        row = self._box.catalogue.rows.get(self._model)
        named = self._box.device_named(name) or self._box.device_named(self._model)
        return named or (self._box.devices.get(row.device) if row else None)


def _holds(box: Box, device: Device, since: float, until: float) -> list[Hold]:
    """Return who held a device in a time, whether it still does or not."""
    ended = list(box.holds.on(device.name, since, until))
    lasting = [
        Hold(device.name, t.asked.rid, t.lane, t.model, t.granted_at, math.inf, t.load_s)
        for t in device.active.values()
        if t.granted_at < until
    ]
    return ended + lasting


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
