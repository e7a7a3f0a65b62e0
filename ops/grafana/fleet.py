"""The dashboard of a fleet: one line a box, and where the work and the heat are."""

from ops.grafana.panels import BOX, BOX_VARIABLE, RATE, Dashboard, Panel, Query, Row, one, stat
from ops.grafana.shared import REFUSED, SOCKET, SOCKETS, TCTL, WAITING, WAITING_BY_BOX

_ALERTS = f'ALERTS{{alertstate="firing",{BOX}}}'

_NOW = Row(
    "Now",
    (
        stat(
            "Boxes that answer", "Of those that are scraped.", "short", f"sum(fairlane_up{{{BOX}}})"
        ),
        stat(
            "Boxes that are scraped",
            "Whether or not they answer.",
            "short",
            f'count(up{{job="fairlane",{BOX}}})',
        ),
        WAITING,
        stat("Running", "On all devices.", "short", f"sum(fairlane_seats_used{{{BOX}}})"),
        REFUSED,
        SOCKETS,
    ),
)

_BOXES = Row(
    "Boxes",
    (
        Panel(
            "Box by box",
            "One line a box.",
            "short",
            (
                Query(f"sum by (instance, version) (fairlane_build_info{{{BOX}}})"),
                Query(f"sum by (instance) (fairlane_ready{{{BOX}}})", "ready"),
                Query(f"sum by (instance) (fairlane_draining{{{BOX}}})", "drains"),
                Query(
                    f"time() - max by (instance) (fairlane_start_time_seconds{{{BOX}}})",
                    "up",
                    unit="s",
                ),
                Query(WAITING_BY_BOX, "waiting"),
                Query(f"sum by (instance) (fairlane_seats_used{{{BOX}}})", "running"),
                Query(f"max by (instance) ({TCTL})", "Tctl", unit="celsius"),
                Query(f"sum by (instance) ({SOCKET})", "power", unit="watt"),
            ),
            kind="table",
            width=16,
        ),
        Panel(
            "Alerts that fire",
            "Each has a section in ops/RUNBOOK.md.",
            "short",
            one(f"sum by (alertname, instance, severity) ({_ALERTS})", empty="nothing is wrong"),
            kind="table",
        ),
    ),
)

_WORK = Row(
    "Work",
    (
        Panel(
            "Waiting by box",
            "Tickets that wait for a decision or a seat.",
            "short",
            one(WAITING_BY_BOX, "{{instance}}"),
            stacked=True,
        ),
        Panel(
            "Answered by box",
            "Requests a second.",
            "reqps",
            one(
                f'sum by (instance) (rate(fairlane_requests_total{{{BOX},outcome="answered"}}{RATE}))',
                "{{instance}}",
            ),
            stacked=True,
        ),
        Panel(
            "Devices in use",
            "Share of the time, by box and device.",
            "percentunit",
            one(
                f"instance_device:fairlane_device_busy:ratio_rate5m{{{BOX}}}",
                "{{instance}} {{device}}",
            ),
            top=1.0,
        ),
        Panel(
            "Time in the queue",
            "95th percentile over ten minutes.",
            "s",
            one(
                f"instance_device:fairlane_queue_wait:p95_rate10m{{{BOX}}}",
                "{{instance}} {{device}}",
            ),
        ),
        Panel(
            "Prompt tokens from a cache",
            "Share by box, over ten minutes.",
            "percentunit",
            one(f"instance:fairlane_cache_hit:ratio_rate10m{{{BOX}}}", "{{instance}}"),
            top=1.0,
        ),
        Panel(
            "Answered off the class's device",
            "Share of the decisions, over a quarter of an hour.",
            "percentunit",
            one(
                f"instance:fairlane_fallbacks:ratio_rate15m{{{BOX}}}",
                "{{instance}}",
                empty="no class has an on_busy rule",
            ),
            top=1.0,
        ),
    ),
)

_HEAT = Row(
    "Heat",
    (
        Panel(
            "Tctl by box",
            "The processor's control temperature.",
            "celsius",
            one(TCTL, "{{instance}}"),
        ),
        Panel(
            "Power by box",
            "Of the whole socket.",
            "watt",
            one(SOCKET, "{{instance}}"),
            stacked=True,
        ),
        Panel(
            "Time lost on the NPU",
            "Seconds a second that moved answers took longer than waiting was expected to.",
            "percentunit",
            one(f"instance:fairlane_npu_lost_seconds:rate30m{{{BOX}}}", "{{instance}}"),
            bottom=-1.0,
        ),
    ),
)

BOARD = Dashboard(
    uid="fairlane-fleet",
    title="Fairlane: Fleet",
    text="All boxes that one Prometheus scrapes: where the work is, where the heat is, and what is wrong.",
    variables=(BOX_VARIABLE,),
    rows=(_NOW, _BOXES, _WORK, _HEAT),
    span="6h",
)
