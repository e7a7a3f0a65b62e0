"""What `fairlane top` shows of one instant, as much of it as a terminal has room for. Pure: snapshots in.

A line is a line: what is too long for its column is cut with an ellipsis, and where the terminal is narrow
the columns that say the least are left out. Where it is low, lists become shorter before anything is cut off.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ops import columns
from ops.live_words import headline, landing, reading, sparkline
from ops.sentences import duration
from scheduler.gateway.curves import Curves, Pulse
from scheduler.harmless import harmless

_CURVE = 40  # characters of a curve at most


class Plan(Struct, frozen=True):
    """How much is shown of each list; 0: not even its title."""

    tickets: int  # of a device that wait, and that hold
    landed: int
    lanes: int
    workers: int


_PLANS = (
    Plan(8, 8, 12, 12), Plan(6, 5, 8, 12), Plan(4, 4, 5, 12), Plan(4, 3, 4, 0), Plan(3, 2, 3, 0),
    Plan(2, 2, 0, 0), Plan(2, 0, 0, 0), Plan(1, 0, 0, 0),
)  # fmt: skip


class Top:
    """The screen and what it remembers: one point of each curve a look."""

    def __init__(self) -> None:
        self._curves = Curves()

    def take(self, view: dict[str, Any], console: Console, *, whole: bool) -> Group:
        """Take a look in and return the screen of it.

        Args:
            view: A snapshot.
            console: Where it is to be shown.
            whole: Show it all, however high the console is.
        """
        self._curves.add(msgspec.convert(view, Pulse))
        seen: dict[str, Any] = harmless(view)
        for plan in _PLANS[:-1]:
            screen = self._screen(seen, plan, console.width)
            if whole or len(console.render_lines(screen)) <= console.height:
                return screen
        return self._screen(seen, _PLANS[-1], console.width)

    def _screen(self, view: dict[str, Any], plan: Plan, wide: int) -> Group:
        parts: list[RenderableType] = [
            Text(headline(view), Style(bold=True)),
            self._vitals(view, wide),
            Text(""),
            columns.line(_totals(view)),
        ]
        for name, device in view["devices"].items():
            parts.append(columns.line(f"\n{name}: {_about(device)}"))
            if device["holders"] or device["waiting"]:
                parts.append(_device(device, plan.tickets, wide))
        lists = (
            ("lanes", _lanes(view, plan.lanes)),
            ("where the last ones landed, and why", _landed(view, plan.landed, wide)),
            ("pulls", _pulls(view, plan.lanes)),
            ("workers and models", _workers(view, plan.workers, wide)),
        )
        for title, table in lists:
            if table.rows:
                parts += [columns.line(f"\n{title}"), table]
        return Group(*parts)

    def _vitals(self, view: dict[str, Any], wide: int) -> Table:
        points = self._curves.points
        curve = max(8, min(_CURVE, wide - 44))
        table = columns.table(("", "", "", ""), fixed=(0, 1, 2))
        hot = any(line["is_hot"] for line in view["heat"])
        tctl = [point.curves.get("tctl") for point in points]
        power = [point.curves.get("socket_power") for point in points]
        columns.row(
            table, "Tctl", Text(reading(view, "tctl", 1), "bold red" if hot else ""),
            sparkline(tctl, 30.0, 95.0, curve), _lines(view["heat"]),
        )  # fmt: skip
        power_curve = sparkline(power, 0.0, 60.0, curve)
        columns.row(table, "socket power", reading(view, "socket_power"), power_curve, "")
        for name, device in view["devices"].items():
            busy = [point.busy.get(name) for point in points]
            now = busy[-1]
            text = "?" if now is None else f"{now:.0%}"
            columns.row(
                table, f"{name} held", text, sparkline(busy, 0.0, 1.0, curve), device["state"]
            )
        return table


def _lines(heat: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"no new grant from {line['on_c']:g} °C"
        if line["what"] == "hold"
        else f"{line['class']} moves from {line['on_c']:g} °C"
        for line in heat
    )


def _totals(view: dict[str, Any]) -> str:
    totals, bounds = view["totals"], view["bounds"]
    deciding = f", {totals['deciding']} of them not placed yet" if totals["deciding"] else ""
    return (
        f"{totals['waiting']} of at most {bounds['queue_total']} waiting "
        f"(a lane: at most {bounds['queue_per_lane']}){deciding}, {totals['running']} running"
    )


def _about(device: dict[str, Any]) -> str:
    measured = device["measured"]
    late = f", {duration(measured['held_s'])} each of late" if measured["endings"] else ""
    held = f"{len(device['holders'])} of {device['seats']} seats held"
    return f"{device['backend'] or 'no worker'}, {held}, {device['waiting_total']} waiting{late}"


def _device(device: dict[str, Any], many: int, wide: int) -> Table:
    """Return who holds a device and who waits for it."""
    table = columns.table(
        _some(("", "lane", "by", "model", "since", "still"), wide), fixed=(0, -2, -1)
    )
    for held in device["holders"][:many]:
        state = "runs" if held["state"] == "running" else held["state"]
        _ticket(table, state, held, (held["held_s"], held["left_s"]), wide)
    columns.rest(table, len(device["holders"]) - many, "hold it")
    for ticket in device["waiting"][:many]:
        times = ticket["waited_s"], ticket["eta_s"]
        _ticket(table, str(ticket["position"]), ticket, times, wide)
    columns.rest(table, device["waiting_total"] - many, "wait")
    return table


def _ticket(
    table: Table, place: str, one: dict[str, Any], times: tuple[float, float | None], wide: int
) -> None:
    batch = " (batch)" if one["priority"] == "batch" else ""
    cells = place, one["lane"] + batch, landing(one), one["model"], *map(duration, times)
    columns.row(table, *_some(cells, wide))


def _lanes(view: dict[str, Any], many: int) -> Table:
    """Return the lanes, those with most to do first."""
    table = columns.table(
        ("lane", "weight", "waiting", "running", "served", "share"), fixed=(1, 2, 3, 4, 5)
    )
    lanes = sorted(
        view["lanes"].items(),
        key=lambda one: (-one[1]["running"] - one[1]["waiting"], -one[1]["served_s"]),
    )
    for name, lane in lanes[:many]:
        columns.row(
            table, name, f"{lane['weight']:g}", str(lane["waiting"]), str(lane["running"]),
            duration(lane["served_s"]), "" if lane["share"] is None else f"{lane['share']:.1%}",
        )  # fmt: skip
    columns.rest(table, view["lanes_total"] - many if many else 0, "", at=0)
    return table


def _landed(view: dict[str, Any], many: int, wide: int) -> Table:
    titles = "ago", "lane", "by", "model", "on", "outcome", "waited", "ran"
    table = columns.table(_some(titles, wide), fixed=(0, -4, -2, -1))
    for one in view["recent"]["ended"][:many]:
        cells = (
            duration(one["ago_s"]), one["lane"], landing(one), one["model"], one["device"],
            one["outcome"].replace("_", " "), duration(one["waited_s"]), duration(one["ran_s"]),
        )  # fmt: skip
        columns.row(table, *_some(cells, wide))
    return table


def _pulls(view: dict[str, Any], many: int) -> Table:
    table = columns.table(("model", "done", "since", "waiting"), fixed=(1, 2, 3))
    for one in view["pulls"][: many or 1]:
        total = one["total_bytes"]
        done = (
            f"{one['done_bytes'] / total:.0%}" if total else f"{one['done_bytes'] / 2**20:.0f} MiB"
        )
        columns.row(table, one["model"], done, duration(one["since_s"]), str(one["waiting"]))
    return table


def _workers(view: dict[str, Any], many: int, wide: int) -> Table:
    titles = "worker", "backend", "pid", "heard", "loaded"
    table = columns.table(
        titles if wide >= columns.MIDDLE else titles[:2] + titles[3:], fixed=(0, -2)
    )
    for worker in view["workers"][:many]:
        kind = worker["kind"]
        loaded = [
            m["id"]
            for m in view["models"]
            if m["loaded"] and worker["device"] and m["device"] == kind
        ]
        there = worker["backend"] is not None
        cells = (
            worker["device"] or kind, worker["backend"] or "none", str(worker["pid"]) if there else "",
            f"{duration(worker['silent_s'])} ago" if there else "", ", ".join(loaded),
        )  # fmt: skip
        columns.row(table, *(cells if wide >= columns.MIDDLE else cells[:2] + cells[3:]))
    return table


def _some(cells: Sequence[str], wide: int) -> tuple[str, ...]:
    """Return those of a ticket's cells that have room; the third is by what it came, the fourth its model."""
    if wide >= columns.WIDE:
        return (*cells,)
    return (*cells[:3], *cells[4:]) if wide >= columns.MIDDLE else (*cells[:2], *cells[4:])
