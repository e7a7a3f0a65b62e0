"""What the journal keeps of an event and of what was decided on it.

Rules of this file: pure; no body but a decision's leaves it, so that prompts and answers stay out of the
journal. An error's text is a worker's and may quote a prompt: its code stays, its text does not.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from scheduler.core.effects import (
    Answer,
    Dispatch,
    Effect,
    Ended,
    Grant,
    Place,
    Refuse,
    Relay,
    Revoke,
)
from scheduler.core.events import (
    Asked,
    Event,
    Failed,
    Finished,
    Produced,
    Sensed,
    Served,
    Shelved,
)
from scheduler.core.senses import deciding

Fact = str | bytes | int | float | None
Verdict = tuple[Fact, ...]  # the kind of effect, then what it says

# How to take out of an event what must not be kept, and what decides nothing.
_BARE: dict[type[Event], Callable[[Any], Event]] = {
    Asked: partial(structs.replace, body=b""),
    Produced: partial(structs.replace, body=b""),
    Finished: partial(structs.replace, body=b""),
    Served: partial(structs.replace, body=b""),
    Shelved: partial(structs.replace, policies={}),
    Sensed: lambda e: structs.replace(e, readings=deciding(e.readings)),
    Failed: lambda e: structs.replace(e, message="", facts=_cause(e)),
}

# What there is to say of an effect that is a decision, a placement, or an end: no more than tells one
# from another, because three of these are written for every request.
_VERDICTS: dict[type[Effect], Callable[[Any], Verdict]] = {
    Place: lambda e: (
        "place", e.rid, e.rule, e.class_, e.confidence, e.model, e.device, e.why, e.wanted,
        e.degraded, e.is_open,
    ),
    Dispatch: lambda e: ("dispatch", e.worker, e.ticket, e.lease, e.model),
    Grant: lambda e: ("grant", e.rid, e.lease),
    Revoke: lambda e: ("revoke", e.rid, e.lease, e.reason),
    Answer: lambda e: ("answer", e.rid, e.status, e.queue_ms, e.load_ms, e.ttft_ms),
    Refuse: lambda e: ("refuse", e.rid, e.status, e.code, e.retry_after_s, e.began),
    Ended: lambda e: ("ended", e.request, e.outcome, e.waited_s, e.ran_s),
}  # fmt: skip


def kept(event: Event, effects: list[Effect]) -> tuple[Event, list[Verdict]]:
    """Return an event without what must not be kept - the core does the same on it - and what was decided."""
    strip = _BARE.get(type(event))
    return strip(event) if strip else event, verdicts(effects)


def verdicts(effects: list[Effect]) -> list[Verdict]:
    """Return what was decided, in order."""
    return [say(effect) for effect in effects if (say := _VERDICTS.get(type(effect)))]


def changes_nothing(produced: list[Effect]) -> bool:
    """Return whether a piece of an answer only passed through, as all but the first of each do."""
    if len(produced) != 1:
        return False
    effect = produced[0]
    return type(effect) is Relay and not effect.is_first


def _cause(event: Failed) -> dict[str, str | int | float | bool | None]:
    return {"cause": event.facts["cause"]} if "cause" in event.facts else {}
