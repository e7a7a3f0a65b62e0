"""The queue for people: who holds each device, who waits for it in which order, and whose share is what.

Rules of this file: pure, and no text of any request - ids, names and numbers only.
"""

from itertools import islice
from typing import Any

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.forecast import ends_in_s, had_s, starts
from scheduler.core.recent import stays
from scheduler.core.ticket import Ticket

SHOWN = 500  # waiting tickets shown by device and in deciding; the counts are of all


def queue_view(box: Box, at: float, shown: int = SHOWN) -> dict[str, Any]:
    """Return what `fairlane queue --json` and `GET /v1/queue` show. Seconds are of the clock unless said.

    Args:
        box: Is only looked at.
        at: Now.
        shown: So many of those that wait are listed, by device and in deciding.
    """
    limits = box.limits
    deciding = [ticket for question in box.questions.open() for ticket in question.tickets]
    return {
        "devices": {d.name: _device(box, d, at, shown) for d in box.devices.values()},
        "deciding": [_waits(ticket, at) for ticket in deciding[:shown]],
        "lanes": _lanes(box, at),
        "totals": {
            "waiting": box.waiting_total,
            "deciding": len(deciding),
            "running": sum(len(d.active) for d in box.devices.values()),
        },
        "bounds": {
            "queue_total": limits.queue_total,
            "queue_per_lane": limits.queue_per_lane,
            "retry_after_max_s": limits.retry_after_max_s,
        },
    }


def _device(box: Box, device: Device, at: float, shown: int) -> dict[str, Any]:
    per_seat_s = device.drain.per_seat_s(at)
    return {
        "backend": device.worker.backend if device.worker else None,
        "seats": device.seats(),
        "loaded": device.row or None,
        "holders": [_holds(device, ticket, at) for ticket in device.active.values()],
        "waiting_total": device.depth,
        "waiting": [
            {"position": position, **_waits(ticket, at), "eta_s": _rounded(eta_s)}
            for position, (ticket, eta_s) in enumerate(islice(starts(box, device, at), shown), 1)
        ],
        "measured": {
            "endings": device.drain.endings(at),
            "held_s": _rounded(per_seat_s),  # mean of the latest, by ticket
        },
    }


def _holds(device: Device, ticket: Ticket, at: float) -> dict[str, Any]:
    return {
        "lane": ticket.lane,
        "request": ticket.asked.rid,
        "model": "" if ticket.hold else ticket.model,
        **_landed(ticket),
        "state": str(ticket.state),
        "held_s": _rounded(at - ticket.granted_at),
        "left_s": _rounded(ends_in_s(device, ticket, at)),
    }


def _waits(ticket: Ticket, at: float) -> dict[str, Any]:
    return {
        "lane": ticket.lane,
        "request": ticket.asked.rid,
        "model": "" if ticket.hold else ticket.model or ticket.asked.name,
        **_landed(ticket),
        "waited_s": _rounded(at - ticket.asked.at),
    }


def _lanes(box: Box, at: float) -> dict[str, dict[str, Any]]:
    """Return by lane its weight, what waits and runs, and the device-seconds it was served."""
    served: dict[str, dict[str, float]] = {}
    for device in box.devices.values():
        for lane, seconds in _served_s(device, at).items():
            served.setdefault(lane, {})[device.name] = seconds
    running = [ticket.lane for device in box.devices.values() for ticket in device.active.values()]
    total_s = sum(sum(by_device.values()) for by_device in served.values())
    names = sorted(served.keys() | {lane for lane, n in box.waiting.items() if n})
    return {
        lane: {
            "weight": box.weights.get(lane, 1.0),
            "waiting": box.waiting.get(lane, 0),
            "running": running.count(lane),
            "served_s": _rounded(sum(served.get(lane, {}).values())),
            "share": _rounded(sum(served.get(lane, {}).values()) / total_s if total_s else None),
            "served_by_device_s": {name: _rounded(s) for name, s in served.get(lane, {}).items()},
        }
        for lane in names
    }


def _served_s(device: Device, at: float) -> dict[str, float]:
    """Return device-seconds served by lane: what was charged, of what is not settled the truth so far."""
    served = device.queue.served_s()
    active = [ticket for ticket in device.active.values() if not ticket.is_canary]
    for ticket in [*active, *([device.peeked] if device.peeked else [])]:
        served[ticket.lane] -= ticket.cost_s
    for ticket in active:
        served[ticket.lane] += had_s(device, ticket, at)
    return served


def _landed(ticket: Ticket) -> dict[str, Any]:
    """Return what it is and why it is where it is; an explicit name has no rule."""
    return {
        "priority": "batch" if ticket.asked.batch else "interactive",
        "outside": ticket.hold is not None,
        "rule": ticket.rule,
        "why": ticket.why,
        "stays": stays(ticket.story),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds), 3)
