"""The queue's view as tables for a terminal. Pure: a view in, something rich can print out.

Where the terminal is narrow the columns that say the least are left out. A request's id is never cut, because
`fairlane explain` wants it whole.
"""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ops import columns
from ops.sentences import duration

_MIDDLE = 72  # columns of a terminal from which on an id has room on its line
_LANE = 10  # columns of a lane's name where there is little room


def tables(view: dict[str, Any], wide: int) -> Group:
    """Return the tables of one look at the queue.

    Args:
        view: What `GET /v1/queue` answers.
        wide: Columns of the terminal.
    """
    totals, bounds = view["totals"], view["bounds"]
    head = (
        f"{totals['waiting']} of at most {bounds['queue_total']} waiting "
        f"(a lane: at most {bounds['queue_per_lane']}), {totals['running']} running"
    )
    parts: list[Text | Table] = [Text(head)]
    for name, device in view["devices"].items():
        parts += [Text(f"\n{name}: {_about(device)}"), _device(device, wide)]
    if view["deciding"]:
        parts += [Text("\nnot placed yet"), _undecided(view["deciding"], wide)]
    if view["lanes"]:
        parts += [Text("\nlanes"), _lanes(view["lanes"], wide)]
    return Group(*(part for part in parts if isinstance(part, Text) or part.rows))


def _about(device: dict[str, Any]) -> str:
    measured = device["measured"]
    return (
        f"{device['backend'] or 'no worker'}, "
        f"{len(device['holders'])} of {device['seats']} seats held, "
        + (
            f"{duration(measured['held_s'])} each of late"
            if measured["endings"]
            else "nothing measured of late"
        )
    )


def _device(device: dict[str, Any], wide: int) -> Table:
    table = _tickets(wide)
    for held in device["holders"]:
        state = "runs" if held["state"] == "running" else held["state"]
        _add(table, state, held, (held["held_s"], held["left_s"]), wide)
    for ticket in device["waiting"]:
        times = ticket["waited_s"], ticket["eta_s"]
        _add(table, str(ticket["position"]), ticket, times, wide)
    columns.rest(table, device["waiting_total"] - len(device["waiting"]), "wait")
    return table


def _undecided(waiting: list[dict[str, Any]], wide: int) -> Table:
    table = _tickets(wide)
    for ticket in waiting:
        _add(table, "", ticket, (ticket["waited_s"], None), wide)
    return table


def _lanes(lanes: dict[str, dict[str, Any]], wide: int) -> Table:
    titles = "lane", "waiting", "running", "share", "weight", "device-seconds"
    shown = len(titles) if wide >= _MIDDLE else 4
    table = columns.table(titles[:shown], fixed=range(1, shown))
    for name, lane in lanes.items():
        share = "" if lane["share"] is None else f"{lane['share']:.1%}"
        cells = (
            name, str(lane["waiting"]), str(lane["running"]), share, f"{lane['weight']:g}",
            f"{lane['served_s']:.1f}",
        )  # fmt: skip
        columns.row(table, *cells[:shown])
    return table


def _tickets(wide: int) -> Table:
    table = columns.table(_some(("", "lane", "model", "since", "still", "request"), wide), fixed=())
    *_, request = table.columns
    if wide >= _MIDDLE:
        request.no_wrap = True
    else:
        table.columns[1].max_width = _LANE
    request.overflow = "fold"
    return table


def _add(
    table: Table, place: str, ticket: dict[str, Any], times: tuple[float, float | None], wide: int
) -> None:
    batch = " (batch)" if ticket["priority"] == "batch" else ""
    since, still = map(duration, times)
    cells = [
        columns.line(cell)
        for cell in _some((place, ticket["lane"] + batch, ticket["model"], since, still), wide)
    ]
    table.add_row(*cells, Text(ticket["request"], overflow="fold"))


def _some(cells: tuple[str, ...], wide: int) -> tuple[str, ...]:
    """Return those of a ticket's cells that have room; the third is its model, the fourth since when."""
    if wide >= columns.WIDE:
        return cells
    return cells[:2] + cells[3 if wide >= _MIDDLE else 4 :]
