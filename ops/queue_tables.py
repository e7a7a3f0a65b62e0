"""The queue's view as tables for a terminal. Pure: a view in, something rich can print out."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ops.sentences import duration


def tables(view: dict[str, Any]) -> Group:
    """Return the tables of one look at the queue.

    Args:
        view: What `GET /v1/queue` answers.
    """
    totals, bounds = view["totals"], view["bounds"]
    head = (
        f"{totals['waiting']} of at most {bounds['queue_total']} waiting "
        f"(a lane: at most {bounds['queue_per_lane']}), {totals['running']} running"
    )
    parts: list[Text | Table] = [Text(head)]
    for name, device in view["devices"].items():
        parts += [Text(f"\n{name}: {_about(device)}"), _device(device)]
    if view["deciding"]:
        parts += [Text("\nnot placed yet"), _tickets(view["deciding"])]
    if view["lanes"]:
        parts += [Text("\nlanes"), _lanes(view["lanes"])]
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


def _device(device: dict[str, Any]) -> Table:
    table = _tickets([])
    for held in device["holders"]:
        state = "runs" if held["state"] == "running" else held["state"]
        _add(table, state, held, held["held_s"], held["left_s"])
    for ticket in device["waiting"]:
        _add(table, str(ticket["position"]), ticket, ticket["waited_s"], ticket["eta_s"])
    hidden = device["waiting_total"] - len(device["waiting"])
    if hidden:
        table.add_row("...", f"and {hidden} more")
    return table


def _tickets(waiting: list[dict[str, Any]]) -> Table:
    table = _table("", "lane", "priority", "model", "request", "since", "still")
    for ticket in waiting:
        _add(table, "", ticket, ticket["waited_s"], None)
    return table


def _lanes(lanes: dict[str, dict[str, Any]]) -> Table:
    table = _table("lane", "weight", "waiting", "running", "device-seconds", "share")
    for name, lane in lanes.items():
        share = "" if lane["share"] is None else f"{lane['share']:.1%}"
        table.add_row(
            Text(name), f"{lane['weight']:g}", str(lane["waiting"]), str(lane["running"]),
            f"{lane['served_s']:.1f}", share,
        )  # fmt: skip
    return table


def _add(
    table: Table, place: str, ticket: dict[str, Any], since_s: float, still_s: float | None
) -> None:
    # as Text: a lane or model is named by its user, and "[red]" is a name like any other
    named = (Text(str(ticket[key])) for key in ("lane", "priority", "model", "request"))
    table.add_row(place, *named, duration(since_s), duration(still_s))


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, padding=(0, 2, 0, 0))
    for column in table.columns:
        column.overflow = "fold"  # the end of a name is what tells two apart
    return table
