"""The dashboard of a fleet: one line a box, and where the work and the heat are."""

from ops.grafana.panels import BOX, BOX_VARIABLE, RATE, Dashboard, Panel, Query, Row, stat

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
        stat("Waiting", "In all queues.", "short", f"sum(fairlane_requests_waiting{{{BOX}}})"),
        stat("Running", "On all devices.", "short", f"sum(fairlane_seats_used{{{BOX}}})"),
        stat(
            "Refused",
            "Requests a second that were told that a queue is full.",
            "reqps",
            f"sum(instance:fairlane_refused:rate5m{{{BOX}}})",
            empty="no queue was ever full",
        ),
        stat("Power", "Of all sockets.", "watt", f"sum(fairlane_socket_power_watts{{{BOX}}})"),
    ),
)

_BOXES = Row(
    "Boxes",
    (
        Panel(
            "Box by box",
            "One line a box: version, and A ready, B waiting, C running, D Tctl, E watts.",
            "short",
            (
                Query(f"sum by (instance, version) (fairlane_build_info{{{BOX}}})"),
                Query(f"sum by (instance) (fairlane_ready{{{BOX}}})"),
                Query(f"sum by (instance) (fairlane_requests_waiting{{{BOX}}})"),
                Query(f"sum by (instance) (fairlane_seats_used{{{BOX}}})"),
                Query(f"max by (instance) (fairlane_tctl_celsius{{{BOX}}})"),
                Query(f"sum by (instance) (fairlane_socket_power_watts{{{BOX}}})"),
            ),
            kind="table",
            width=16,
        ),
        Panel(
            "Alerts that fire",
            "Each has a section in ops/RUNBOOK.md.",
            "short",
            (
                Query(
                    f"sum by (alertname, instance, severity) ({_ALERTS})", empty="nothing is wrong"
                ),
            ),
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
            (Query(f"sum by (instance) (fairlane_requests_waiting{{{BOX}}})", "{{instance}}"),),
            stacked=True,
        ),
        Panel(
            "Answered by box",
            "Requests a second.",
            "reqps",
            (
                Query(
                    f'sum by (instance) (rate(fairlane_requests_total{{{BOX},outcome="answered"}}{RATE}))',
                    "{{instance}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            "Devices in use",
            "Share of the time, by box and device.",
            "percentunit",
            (
                Query(
                    f"instance_device:fairlane_device_busy:ratio_rate5m{{{BOX}}}",
                    "{{instance}} {{device}}",
                ),
            ),
            top=1.0,
        ),
        Panel(
            "Time in the queue",
            "95th percentile over ten minutes.",
            "s",
            (
                Query(
                    f"instance_device:fairlane_queue_wait:p95_rate10m{{{BOX}}}",
                    "{{instance}} {{device}}",
                ),
            ),
        ),
        Panel(
            "Prompt tokens from a cache",
            "Share by box, over ten minutes.",
            "percentunit",
            (Query(f"instance:fairlane_cache_hit:ratio_rate10m{{{BOX}}}", "{{instance}}"),),
            top=1.0,
        ),
        Panel(
            "Answered off the class's device",
            "Share of the decisions, over a quarter of an hour.",
            "percentunit",
            (
                Query(
                    f"instance:fairlane_fallbacks:ratio_rate15m{{{BOX}}}",
                    "{{instance}}",
                    empty="nothing was moved",
                ),
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
            (Query(f"fairlane_tctl_celsius{{{BOX}}}", "{{instance}}"),),
        ),
        Panel(
            "Power by box",
            "Of the whole socket.",
            "watt",
            (Query(f"fairlane_socket_power_watts{{{BOX}}}", "{{instance}}"),),
            stacked=True,
        ),
        Panel(
            "Time lost on the NPU",
            "Seconds a second that moved answers took longer than waiting was expected to.",
            "percentunit",
            (Query(f"instance:fairlane_npu_lost_seconds:rate30m{{{BOX}}}", "{{instance}}"),),
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
