"""What a dashboard is made of: rows of panels, each with its queries and unit. Pure data.

`BOX` and its like are the label matchers of the dashboards' variables; `RATE` is the window that Grafana
chooses for the zoom and the scrape interval.
"""

from typing import Final, Literal

from msgspec import Struct

BOX: Final = 'instance=~"$box"'
DEVICE: Final = f'{BOX},device=~"$device"'
LANE: Final = f'{BOX},lane=~"$lane"'
BOTH: Final = f'{DEVICE},lane=~"$lane"'
RATE: Final = "[$__rate_interval]"
WIDTH: Final = 24  # columns of a dashboard

Kind = Literal["timeseries", "stat", "table", "heatmap", "state-timeline"]
# Grafana's names: seconds, ratio 0 to 1, count, per second, requests a second, and the base units
Unit = Literal[
    "s",
    "percentunit",
    "short",
    "cps",
    "reqps",
    "celsius",
    "watt",
    "bytes",
    "hertz",
    "joule",
    "none",
]


class Query(Struct, frozen=True):
    """One expression.

    Attributes:
        expr: It.
        legend: How its series are named; in a table the title of its column, without one there is none.
        empty: Why it may have no data on a sound box that works; empty: it always has.
        unit: Of its column of a table; empty: the panel's.
    """

    expr: str
    legend: str = ""
    empty: str = ""
    unit: Unit | Literal[""] = ""


class Panel(Struct, frozen=True):
    """One panel.

    Attributes:
        title: What it shows, a few words.
        text: What to read from it; Grafana shows it on the i.
        unit: Of all its values.
        queries: At least one.
        kind: Grafana's type.
        width: Columns of the 24.
        height: Grid units.
        stacked: Whether series are added up.
        top: Upper end of the axis; None: as the data is.
        bottom: Lower end; None: 0.
    """

    title: str
    text: str
    unit: Unit
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    top: float | None = None
    bottom: float | None = None


class Row(Struct, frozen=True):
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


class Variable(Struct, frozen=True):
    """A choice at the top: the values of a label."""

    name: str
    label: str
    values: str  # `label_values(metric, label)`


class Dashboard(Struct, frozen=True, kw_only=True):
    """One dashboard."""

    uid: str
    title: str
    text: str
    variables: tuple[Variable, ...]
    rows: tuple[Row, ...]
    span: str = "1h"  # time shown at first


BOX_VARIABLE: Final = Variable("box", "Box", "label_values(fairlane_up, instance)")
DEVICE_VARIABLE: Final = Variable(
    "device", "Device", 'label_values(fairlane_seats_used{instance=~"$box"}, device)'
)
LANE_VARIABLE: Final = Variable(
    "lane", "Lane", 'label_values(fairlane_requests_total{instance=~"$box"}, lane)'
)


def one(expr: str, legend: str = "", *, empty: str = "") -> tuple[Query, ...]:
    """Return the queries of a panel that has one."""
    return (Query(expr, legend, empty),)


def stat(title: str, text: str, unit: Unit, expr: str, *, empty: str = "") -> Panel:
    """Return a panel of one number."""
    return Panel(title, text, unit, one(expr, empty=empty), kind="stat", width=4, height=4)


def quantiles(name: str, by: str, where: str) -> tuple[Query, ...]:
    """Return median and 95th percentile of a histogram.

    Args:
        name: Of the metric, without `_bucket`.
        by: Labels that stay, such as "device".
        where: Matchers.
    """
    rates = f"sum by ({by}, le) (rate({name}_bucket{{{where}}}{RATE}))"
    legend = f"{{{{{by}}}}} " if by != "instance" else ""
    return tuple(
        Query(f"histogram_quantile({q}, {rates})", f"{legend}p{q * 100:.0f}") for q in (0.5, 0.95)
    )
