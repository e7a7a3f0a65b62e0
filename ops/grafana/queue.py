"""The dashboard of the queue: who waits, who holds, whether it is fair, and what it costs."""

from ops.grafana.answers import ANSWERS, CACHE
from ops.grafana.panels import (
    BOTH,
    BOX,
    BOX_VARIABLE,
    DEVICE,
    DEVICE_VARIABLE,
    LANE,
    LANE_VARIABLE,
    RATE,
    Dashboard,
    Panel,
    Query,
    Row,
    one,
    quantiles,
    stat,
)
from ops.grafana.shared import HELD, REFUSED, WAITING

_NO_RULE = "no class has an on_busy rule"
_NEEDS_TWO = "fairness is of two lanes or more that have had work waiting all through a window"

_NOW = Row(
    "Now",
    (
        WAITING,
        stat(
            "Running", "Tickets that hold a seat.", "short", f"sum(fairlane_seats_used{{{DEVICE}}})"
        ),
        stat(
            "Longest wait",
            "Of the oldest ticket that waits.",
            "s",
            f"max(fairlane_queue_oldest_seconds{{{BOTH}}})",
            empty="nothing waits",
        ),
        stat(
            "Longest hold",
            "Of the oldest ticket that holds a seat.",
            "s",
            f"max(fairlane_hold_longest_seconds{{{DEVICE}}})",
            empty="nobody holds a seat",
        ),
        REFUSED,
        stat(
            "Fairness",
            "Jain's index of the last minute; 1 is even.",
            "percentunit",
            f'min(fairlane_fairness_jain{{{DEVICE},window="60s"}})',
            empty=_NEEDS_TWO,
        ),
    ),
)

_QUEUE = Row(
    "Queue",
    (
        Panel(
            "Waiting by lane",
            "Tickets in each device's fair queue.",
            "short",
            one(f"sum by (device, lane) (fairlane_queue_depth{{{BOTH}}})", "{{device}} {{lane}}"),
            stacked=True,
        ),
        Panel(
            "Held by lane",
            "Seats that a lane holds: who has the device.",
            "short",
            one(
                f"sum by (device, lane) (fairlane_seats_held{{{BOTH}}})",
                "{{device}} {{lane}}",
                empty="nobody holds a seat",
            ),
            stacked=True,
        ),
        Panel(
            "Longest wait by lane",
            "How long the oldest waiting ticket has waited.",
            "s",
            one(
                f"fairlane_queue_oldest_seconds{{{BOTH}}}",
                "{{device}} {{lane}}",
                empty="nothing waits",
            ),
        ),
        Panel(
            "Time in the queue",
            "From queueing to the seat, of tickets that got one.",
            "s",
            quantiles("fairlane_queue_wait_seconds", "device", BOTH),
        ),
        Panel(
            "How long tickets waited",
            "Each column: the tickets that got a seat then, by their wait.",
            "short",
            one(
                f"sum by (le) (increase(fairlane_queue_wait_seconds_bucket{{{BOTH}}}{RATE}))",
                "{{le}}",
            ),
            kind="heatmap",
        ),
        Panel(
            "Requests by how they ended",
            "queue_full is the 429; client_gone: the client left.",
            "reqps",
            one(f"sum by (outcome) (rate(fairlane_requests_total{{{LANE}}}{RATE}))", "{{outcome}}"),
            stacked=True,
        ),
        Panel(
            "Seats",
            "Held, and all of the loaded row.",
            "short",
            (
                Query(f"fairlane_seats_used{{{DEVICE}}}", "{{device}} held"),
                Query(f"fairlane_seats{{{DEVICE}}}", "{{device}} of"),
            ),
        ),
        Panel(
            "Device in use",
            "Share of the time with at least one seat held.",
            "percentunit",
            one(HELD, "{{device}}"),
            top=1.0,
        ),
        Panel(
            "Idle while tickets wait",
            "By what for; `none` must stay 0.",
            "percentunit",
            one(
                f"rate(fairlane_device_idle_waiting_seconds_total{{{DEVICE}}}{RATE})",
                "{{device}} {{reason}}",
            ),
            stacked=True,
        ),
    ),
)

_FAIR = Row(
    "Fairness",
    (
        Panel(
            "Share of the device by lane",
            "Of the device-seconds served in ten minutes.",
            "percentunit",
            one(
                f"instance_device_lane:fairlane_lane_service:share_rate10m{{{BOTH}}}",
                "{{device}} {{lane}}",
            ),
            stacked=True,
            top=1.0,
        ),
        Panel(
            "Device-seconds by lane",
            "Served a second; all of a device never pass 1.",
            "percentunit",
            one(
                f"rate(fairlane_lane_service_seconds_total{{{BOTH}}}{RATE})", "{{device}} {{lane}}"
            ),
            stacked=True,
        ),
        Panel(
            "Lead of the waiting lanes",
            "Weighted device-seconds to the device's virtual time; the smallest goes next.",
            "s",
            one(
                f"fairlane_lane_lead_seconds{{{BOTH}}}",
                "{{device}} {{lane}}",
                empty="nothing waits",
            ),
        ),
        Panel(
            "Jain's index",
            "Over lanes with work waiting all through the window; 1 is even.",
            "percentunit",
            one(f"fairlane_fairness_jain{{{DEVICE}}}", "{{device}} {{window}}", empty=_NEEDS_TWO),
            top=1.0,
        ),
    ),
)

_DECISIONS = Row(
    "Decisions",
    (
        Panel(
            "Decisions by class",
            "Conversations placed, by what was asked for.",
            "reqps",
            one(
                f"sum by (class, outcome) (rate(fairlane_decisions_total{{{BOX}}}{RATE}))",
                "{{class}} {{outcome}}",
            ),
            stacked=True,
        ),
        Panel(
            "Why they landed elsewhere",
            "`none`: on the class's own device.",
            "reqps",
            one(
                f"sum by (device, why) (rate(fairlane_decisions_total{{{DEVICE}}}{RATE}))",
                "{{device}} {{why}}",
            ),
            stacked=True,
        ),
        Panel(
            "Time to decide",
            "From asking to the decision.",
            "s",
            quantiles("fairlane_decision_seconds", "instance", BOX),
        ),
        Panel(
            "Fallbacks",
            "Placements off the class's device, and what kept others from it.",
            "reqps",
            (
                Query(
                    f"sum by (from, to, why) (rate(fairlane_fallbacks_total{{{BOX}}}{RATE}))",
                    "{{from}} to {{to}}: {{why}}",
                    empty=_NO_RULE,
                ),
                Query(
                    f"sum by (reason) (rate(fairlane_fallbacks_suppressed_total{{{BOX}}}{RATE}))",
                    "suppressed: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Stand-ins",
            "Answers of another row because the wanted one could not be used.",
            "reqps",
            one(
                f"sum by (reason) (rate(fairlane_stand_ins_total{{{BOX}}}{RATE}))",
                "{{reason}}",
            ),
        ),
        Panel(
            "Conversations remembered",
            "By how long they have been idle.",
            "short",
            one(f"sum by (age) (fairlane_bindings{{{BOX}}})", "{{age}}"),
            stacked=True,
        ),
    ),
)

BOARD = Dashboard(
    uid="fairlane-queue",
    title="Fairlane: Queue",
    text="Who waits for which device, who holds it, whether the lanes get their shares, what it costs.",
    variables=(BOX_VARIABLE, DEVICE_VARIABLE, LANE_VARIABLE),
    rows=(_NOW, _QUEUE, _FAIR, _DECISIONS, ANSWERS, CACHE),
)
