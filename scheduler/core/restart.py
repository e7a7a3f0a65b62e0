"""What a broker takes over from the one before it, and what it does not.

It takes over what was learned and promised: bindings, costs, the accounts of the lanes, counters, stories.
It drops open tickets and workers: clients send again what has not begun to be answered, workers register
again, and both say it with routes that the old broker could not know. A program of an outside lane goes on
computing meanwhile: whoever restarts the broker looks which of them live, and says so by `HoldKept`.
"""

from msgspec import structs

from policies.quarantine import Quarantine
from scheduler.core.box import Box
from scheduler.core.effects import Record
from scheduler.core.events import Restarted
from scheduler.core.story import shifted

OUTCOME = "broker_restarted"


def successor(old: Box, event: Restarted) -> Box:
    """Return the box that goes on from an old one, under the settings in force now."""
    box = Box(
        event.catalogue, event.limits, event.weights, event.boot, event.at,
        memory=event.memory, npu=event.npu,
    )  # fmt: skip
    box.out = old.out
    box.lanes |= old.lanes  # their accounts go on
    box.numbers = old.numbers  # a number is never used again
    box.counts = dict(old.counts)
    box.bindings.inherit(old.bindings, event.at, event.shift_s)
    box.costs.inherit(old.costs)
    box.quarantine = moved_by(old.quarantine, event.shift_s)
    box.proving.known = old.proving.known
    if event.same_kernel:
        box.climate.inherit(old.climate)
    box.residency.inherit(old.residency)
    box.pulls.inherit(old.pulls)
    box.stories.inherit(old.stories, event.shift_s)
    box.refusals.inherit(old.refusals, event.shift_s)
    box.holds.inherit(old.holds, event.shift_s)
    box.recent.inherit(old.recent, event.shift_s)
    for kind, device in box.devices.items():
        before = old.devices.get(kind)
        if before is not None:
            device.inherit(before, event.shift_s)
    box.meter.since({kind: (d.busy_s, d.thinking_s) for kind, d in box.devices.items()})
    for ticket in old.tickets.values():
        story = [*shifted(ticket.story, event.shift_s), (event.at, "ended", OUTCOME)]
        box.stories.keep(ticket.asked.rid, ticket.lane, story)
    box.count("restarts")
    facts = {"dropped": len(old.tickets), "bindings": len(box.bindings), "boot": old.boot}
    box.out.append(Record("restored", {**facts, "same_kernel": event.same_kernel}))
    return box


def moved_by(old: Quarantine, shift_s: float) -> Quarantine:
    """Return a quarantine by this start's clock; its probe is gone with the tickets."""
    until = None if old.until is None else old.until + shift_s
    opened_at = None if old.opened_at is None else old.opened_at + shift_s
    return structs.replace(old, until=until, opened_at=opened_at, probe=None)
