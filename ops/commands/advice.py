"""What a running box has learned about the rules of a table, for who checks it."""

import msgspec

from policies.learned import Learned, losses
from policies.table import Table


def advice(table: Table) -> list[str]:
    """Return sentences on the table's on_busy rules; none for a table without any.

    What is asked is the box that these settings reach. It never makes a table worse than it is: without a
    box, one sentence says that nothing was looked at.
    """
    if all(entry.on_busy is None for entry in table.classes.values()):
        return []
    from ops.commands.common import load, reach  # what tables without a rule need not wait for
    from scheduler.errors import BrokerUnreachable, FairlaneError

    try:
        with reach(load()) as client:
            costs = client.status().get("costs", [])
        return losses(table, msgspec.convert(costs, list[Learned]))
    except BrokerUnreachable:
        return ["no box runs here, so no learned figures were held against the on_busy rules"]
    except (FairlaneError, msgspec.ValidationError) as error:
        return [f"no learned figures were held against the on_busy rules: {error}"]
