"""What `fairlane top` shows of one instant. Pure: snapshots in, tables of rich out."""

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ops.live_words import headline, landing, reading, sparkline
from ops.queue_tables import tables
from ops.sentences import duration
from scheduler.gateway.curves import Curves, Pulse
from scheduler.harmless import harmless

_WAITING = 8  # of a device's queue, and of its holders
_LANDED = 8
_WIDE = 40  # characters of a curve


class Top:
    """The screen and what it remembers: one point of each curve a look."""

    def __init__(self) -> None:
        self._curves = Curves()

    def take(self, view: dict[str, Any]) -> Group:
        """Take a look in and return the screen of it."""
        self._curves.add(msgspec.convert(view, Pulse))
        seen: dict[str, Any] = harmless(view)
        parts: list[RenderableType] = [
            Text(headline(seen), Style(bold=True)),
            self._vitals(seen),
            Text(""),
            tables(_cut(seen)),
        ]
        if seen["recent"]["ended"]:
            parts += [Text("\nwhere the last ones landed, and why"), _landed(seen)]
        if seen["pulls"]:
            parts += [Text("\npulls"), _pulls(seen)]
        parts += [Text("\nworkers and models"), _workers(seen)]
        return Group(*parts)

    def _vitals(self, view: dict[str, Any]) -> Table:
        points = self._curves.points
        table = _bare()
        hot = any(line["is_hot"] for line in view["heat"])
        curve = [point.curves.get("tctl") for point in points]
        table.add_row(
            "Tctl",
            Text(reading(view, "tctl", 1), "bold red" if hot else ""),
            sparkline(curve, 30.0, 95.0, _WIDE),
            _lines(view["heat"]),
        )
        curve = [point.curves.get("socket_power") for point in points]
        table.add_row(
            "socket power", reading(view, "socket_power"), sparkline(curve, 0.0, 60.0, _WIDE), ""
        )
        for name in view["devices"]:
            busy = [point.busy.get(name) for point in points]
            now = busy[-1]
            text = "?" if now is None else f"{now:.0%}"
            table.add_row(
                f"{name} held",
                text,
                sparkline(busy, 0.0, 1.0, _WIDE),
                view["devices"][name]["state"],
            )
        return table


def _lines(heat: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"no new grant from {line['on_c']:g} °C"
        if line["what"] == "hold"
        else f"{line['class']} moves from {line['on_c']:g} °C"
        for line in heat
    )


def _cut(view: dict[str, Any]) -> dict[str, Any]:
    """Return the view with so few tickets that they fit a terminal; the counts stay those of all."""
    devices = {
        name: {
            **device,
            "waiting": device["waiting"][:_WAITING],
            "holders": device["holders"][:_WAITING],
        }
        for name, device in view["devices"].items()
    }
    return {**view, "devices": devices, "deciding": view["deciding"][:_WAITING]}


def _landed(view: dict[str, Any]) -> Table:
    table = _bare("ago", "lane", "model", "on", "by", "outcome", "waited", "ran")
    for one in view["recent"]["ended"][:_LANDED]:
        cells: Iterable[str] = (
            duration(one["ago_s"]), one["lane"], one["model"], one["device"], landing(one),
            one["outcome"].replace("_", " "), duration(one["waited_s"]), duration(one["ran_s"]),
        )  # fmt: skip
        table.add_row(*map(Text, cells))
    return table


def _pulls(view: dict[str, Any]) -> Table:
    table = _bare("model", "done", "since", "waiting")
    for one in view["pulls"]:
        total = one["total_bytes"]
        done = (
            f"{one['done_bytes'] / total:.0%}" if total else f"{one['done_bytes'] / 2**20:.0f} MiB"
        )
        table.add_row(Text(one["model"]), done, duration(one["since_s"]), str(one["waiting"]))
    return table


def _workers(view: dict[str, Any]) -> Table:
    table = _bare("worker", "backend", "pid", "heard", "loaded")
    for worker in view["workers"]:
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
        table.add_row(*map(Text, cells))
    return table


def _bare(*columns: str) -> Table:
    table = Table(*columns, box=None, padding=(0, 2, 0, 0), show_header=bool(columns))
    for column in table.columns:
        column.overflow = "fold"
    return table
