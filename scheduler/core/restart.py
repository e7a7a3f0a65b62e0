"""What a broker takes over from the one before it, and what it does not.

It takes over what was learned and promised: bindings, costs, the accounts of the lanes, counters, stories.
It drops open tickets and workers: clients send again what has not begun to be answered, workers register
again, and both say it with routes that the old broker could not know.
"""

from scheduler.core.box import Box
from scheduler.core.effects import Record
from scheduler.core.events import Restarted
from scheduler.core.story import shifted
from scheduler.core.ticket import Ticket

OUTCOME = "broker_restarted"


def successor(old: Box, event: Restarted) -> Box:
    """Return the box that goes on from an old one, under the settings in force now."""
    box = Box(
        event.catalogue, event.limits, event.weights, event.boot, event.at, memory=event.memory
    )
    box.out = old.out
    box.lanes |= old.lanes  # their accounts go on
    box.numbers = old.numbers  # a number is never used again
    box.counts = dict(old.counts)
    box.bindings.inherit(old.bindings, event.at, event.shift_s)
    box.costs.inherit(old.costs)
    box.residency.inherit(old.residency)
    box.stories.inherit(old.stories, event.shift_s)
    box.refusals.inherit(old.refusals, event.shift_s)
    box.holds.inherit(old.holds, event.shift_s)
    for kind, device in box.devices.items():
        before = old.devices.get(kind)
        if before is not None:
            device.inherit(before, event.shift_s)
    dropped = [ticket for ticket in old.tickets.values() if not _survives(ticket, event)]
    for ticket in dropped:
        story = [*shifted(ticket.story, event.shift_s), (event.at, "ended", OUTCOME)]
        box.stories.keep(ticket.asked.rid, ticket.lane, story)
    box.count("restarts")
    facts = {"dropped": len(dropped), "bindings": len(box.bindings), "boot": old.boot}
    box.out.append(Record("restored", {**facts, "same_kernel": event.same_kernel}))
    return box


def _survives(_ticket: Ticket, _event: Restarted) -> bool:
    """Return whether a ticket outlives the broker that granted it: none of those there are now does."""
    return False
