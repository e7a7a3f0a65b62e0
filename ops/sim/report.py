"""The figures of a study as tables for a person."""

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from ops.sim.figures import Figures, LaneFigures
from ops.sim.scenarios import SCENARIOS
from ops.sim.study import Study, merged

Cell = Callable[[dict[str, object]], str]


def _number(name: str, digits: int = 3) -> Cell:
    def cell(figures: dict[str, object]) -> str:
        value = figures.get(name)
        if isinstance(value, int):
            return f"{value:,}"
        return f"{value:,.{digits}f}" if isinstance(value, float) else "-"

    return cell


def _percent(name: str) -> Cell:
    def cell(figures: dict[str, object]) -> str:
        value = figures.get(name)
        return f"{value:.2%}" if isinstance(value, float) else "-"

    return cell


# what a row says, and the goal where there is one
_ROWS: list[tuple[str, Cell, str]] = [
    ("Jain index, worst part", _number("jain", 4), ">= 0.99"),
    ("median box", _number("jain_median", 4), ""),
    ("weighted gap over its bound, worst pair", _number("gap_over_bound"), "<= 1"),
    ("boxes over the bound", _number("boxes_over_bound"), ""),
    ("of which with one seat", _number("one_seat_boxes_over_bound"), "0"),
    ("share off its weight, worst lane", _percent("weight_error"), "<= 2 %"),
    ("light lane's longest wait, s", _number("light_lane_max_wait_s", 1), "<= its bound"),
    ("its bound, s", _number("light_lane_bound_s", 1), ""),
    ("light lane's median wait, s", _number("light_lane_median_wait_s", 1), "<= one hold"),
    ("one hold, s", _number("light_lane_hold_s", 1), ""),
    ("goodput over device time", _percent("goodput"), ""),
    ("idle while somebody waited, s", _number("idle_while_waiting_s", 1), ""),
    ("loads", _number("loads"), ""),
    ("fallbacks", _number("fallbacks"), ""),
    ("tickets served", _number("tickets"), ""),
    ("refused", _number("refused"), ""),
    ("wall seconds", _number("wall_s", 2), ""),
    ("processor seconds", _number("cpu_s", 2), ""),
]


def show(made: Study, console: Console) -> None:
    """Print a study."""
    many = SCENARIOS[made.scenario].many
    runs = {name: merged(parts, with_parts=False) for name, parts in made.parts.items() if parts}
    if not many:
        for figures in runs.values():
            for name in ("jain_median", "boxes_over_bound", "one_seat_boxes_over_bound"):
                figures.pop(name)
    title = f"simulated: {made.scenario}, {made.hours:g} virtual hours, seed {made.seed}"
    table = Table(title=title + (", interrupted" if made.interrupted else ""), title_justify="left")
    table.add_column("")
    for name in runs:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_column("goal")
    for text, cell, goal in _ROWS:
        cells = [cell(figures) for figures in runs.values()]
        if any(one != "-" for one in cells):
            table.add_row(text, *cells, goal)
    console.print(table)
    if not many:
        for part in made.plans:
            _show_part(made, part, console)
    console.print(f"simulated in {made.wall_s:.1f} s; nothing of this was measured on a device")


def _show_part(made: Study, part: str, console: Console) -> None:
    runs = {name: parts[part] for name, parts in made.parts.items() if part in parts}
    if not runs:
        return
    table = Table(title=f"simulated: {part}", title_justify="left")
    for name in ("lane", "weight"):
        table.add_column(name)
    for name in runs:
        short = name.replace("_", " ")
        table.add_column(f"{short}\nshare", justify="right")
        table.add_column("wait, s\np50 / p99 / max", justify="right", no_wrap=True)
    for lane in made.plans[part].lanes:
        cells = [cell for f in runs.values() for cell in _cells(f, lane)]
        table.add_row(lane, f"{made.plans[part].lanes[lane].weight:g}", *cells)
    console.print(table)


def _cells(figures: Figures, lane: str) -> tuple[str, str]:
    one = figures.lanes[lane]
    return f"{one.share:.1%}", _waits(one)


def _waits(one: LaneFigures) -> str:
    values = (one.wait_p50_s, one.wait_p99_s, one.wait_max_s)
    return " / ".join("-" if value is None else _short(value) for value in values)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
