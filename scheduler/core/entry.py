"""What the journal keeps of an event and of what was decided on it.

Rules of this file: pure; no body but a decision's leaves it, so that prompts and answers stay out of the
journal. An error's text is a worker's and may quote a prompt: its code stays, its text does not.
"""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from scheduler.core.effects import Answer, Dispatch, Effect, Ended, Place, Refuse, Relay
from scheduler.core.events import Asked, Event, Failed, Finished, Produced, Served, Shelved

Fact = str | bytes | int | float | None
Verdict = tuple[Fact, ...]  # the kind of effect, then what it says

_replace = structs.replace

# How to take out of an event what must not be kept, and what the core never reads.
_BARE: dict[type[Event], Callable[[Any], Event]] = {
    Asked: lambda e: _replace(e, body=b""),
    Produced: lambda e: _replace(e, body=b""),
    Finished: lambda e: _replace(e, body=b""),
    Served: lambda e: _replace(e, body=b""),
    Shelved: lambda e: _replace(e, policies={}),
    Failed: lambda e: _replace(e, message="", facts=_cause(e)),
}

# What there is to say of an effect that is a decision, a placement, or an end.
_VERDICTS: dict[type[Effect], Callable[[Any], Verdict]] = {
    Place: lambda e: (
        "place", e.rid, e.rule, e.class_, e.confidence, e.model, e.device, e.why, e.wanted,
        e.degraded,
    ),
    Dispatch: lambda e: ("dispatch", e.worker, e.ticket, e.lease, e.op, e.model, e.conversation),
    Answer: lambda e: ("answer", e.client, e.rid, e.queue_ms, e.load_ms, e.ttft_ms, e.status),
    Refuse: lambda e: ("refuse", e.client, e.rid, e.status, e.code, e.retry_after_s, e.began),
    Ended: lambda e: (
        "ended", e.request, e.lane, e.model, e.device, e.rule, e.why, e.outcome, e.waited_s, e.ran_s,
    ),
}  # fmt: skip


def bare(event: Event) -> Event:
    """Return an event without what must not be kept; the core does the same on it."""
    strip = _BARE.get(type(event))
    return strip(event) if strip else event


def verdicts(effects: list[Effect]) -> list[Verdict]:
    """Return what was decided, in order."""
    return [say(effect) for effect in effects if (say := _VERDICTS.get(type(effect)))]


def changes_nothing(event: Event, effects: list[Effect]) -> bool:
    """Return whether an event is one of the many that only pass through: a later piece of an answer."""
    if type(event) is not Produced or len(effects) != 1:
        return False
    effect = effects[0]
    return type(effect) is Relay and not effect.is_first


def _cause(event: Failed) -> dict[str, str | int | float | bool | None]:
    return {"cause": event.facts["cause"]} if "cause" in event.facts else {}
