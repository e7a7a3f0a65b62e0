"""A look at the devices once a second: which of them idle while tickets wait, and how even their service is.

Rules of this file: it decides nothing; what it sees goes into the meter. A device that idles while a ticket
waits does so for a reason that is named here, or it is a fault of ours and the reason is `none`.
"""

from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.evenness import WINDOWS_S, Evenness
from scheduler.core.forecast import had_s


class Watch:
    """Sees what no single event shows."""

    def __init__(self, box: Box, at: float) -> None:
        self._box = box
        self._seen_at = at
        self.evenness = {
            kind: [Evenness(window_s) for window_s in WINDOWS_S] for kind in box.devices
        }

    def look(self, at: float) -> None:
        """Look at all devices; to be called before what waits for a tick is done."""
        box, since = self._box, self._seen_at
        self._seen_at = at
        for kind, device in box.devices.items():
            if device.depth and not device.active:
                waits_since = min(ticket.queued_at for ticket in device.order())
                idle_s = at - max(since, waits_since)
                box.meter.idled(kind, idle_reason(device), max(0.0, idle_s))
            wanting = device.queue.waiting_lanes()
            if device.peeked is not None:
                wanting.append(device.peeked.lane)
            served_s = service_s(box, device, at)
            for window in self.evenness[kind]:
                window.look(at, wanting, served_s, box.weights)


def idle_reason(device: Device) -> str:
    """Return why a device without a held seat grants none to those that wait; `none`: it should."""
    if device.ending is not None or (device.worker is not None and device.worker.leaving_at):
        return "ending"
    if device.worker is None:
        return "absent"
    if device.is_hot:
        return "hot"
    if device.is_thinking:
        return "thinking"
    return "memory" if device.is_short else "none"


def service_s(box: Box, device: Device, at: float) -> dict[str, float]:
    """Return device-seconds on seats by lane since the broker's start; it never falls."""
    served = {name: lane.served_s for name, lane in box.meter.devices[device.kind].lanes.items()}
    for ticket in device.active.values():
        if ticket.is_canary:
            continue
        served[ticket.lane] = served.get(ticket.lane, 0.0) + had_s(device, ticket, at)
    return served
