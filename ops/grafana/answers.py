"""Rows of the queue's dashboard on what comes out: answers, caches, and switching between rows."""

from ops.grafana.panels import BOX, DEVICE, LANE, RATE, Panel, Query, Row, one, quantiles

ANSWERS = Row(
    "Answers",
    (
        Panel(
            "Time to the first token",
            "From asking.",
            "s",
            quantiles("fairlane_time_to_first_token_seconds", "model", BOX),
        ),
        Panel(
            "Time to the end",
            "From asking to the end of an answer.",
            "s",
            quantiles("fairlane_request_seconds", "model", BOX),
        ),
        Panel(
            "Tokens of answers",
            "A second, by lane.",
            "cps",
            one(f"sum by (lane) (rate(fairlane_output_tokens_total{{{LANE}}}{RATE}))", "{{lane}}"),
            stacked=True,
        ),
        Panel(
            "Learned speed",
            "Tokens a second with the fewest tickets at once.",
            "cps",
            (
                Query(
                    f"fairlane_prefill_tokens_per_second{{{DEVICE}}}", "{{device}} {{model}} prompt"
                ),
                Query(
                    f"fairlane_decode_tokens_per_second{{{DEVICE}}}", "{{device}} {{model}} answer"
                ),
            ),
        ),
        Panel(
            "Error of the estimates",
            "Sum of the errors over what the tickets took.",
            "percentunit",
            one(f"instance_model:fairlane_estimate_error:ratio_rate30m{{{BOX}}}", "{{model}}"),
        ),
        Panel(
            "Clients that left",
            "A second, by where their request was.",
            "reqps",
            one(
                f"sum by (stage) (rate(fairlane_cancels_total{{{BOX}}}{RATE}))",
                "{{stage}}",
            ),
        ),
    ),
)

CACHE = Row(
    "Cache and switching",
    (
        Panel(
            "Prompt tokens from a cache",
            "Share by lane, over ten minutes.",
            "percentunit",
            one(f"instance_lane:fairlane_cache_hit:ratio_rate10m{{{LANE}}}", "{{lane}}"),
            top=1.0,
        ),
        Panel(
            "What device time goes into",
            "Device-seconds a second by phase.",
            "percentunit",
            one(
                f"sum by (phase) (rate(fairlane_device_phase_seconds_total{{{DEVICE}}}{RATE}))",
                "{{phase}}",
            ),
            stacked=True,
        ),
        Panel(
            "Reload and re-prefill",
            "Share of device time that buys nothing new.",
            "percentunit",
            one(f"instance_device:fairlane_reload:share_rate10m{{{DEVICE}}}", "{{device}}"),
            top=1.0,
        ),
        Panel(
            "Loads and departures",
            "Rows a second that were loaded, and that left.",
            "cps",
            (
                Query(
                    f"sum by (device, result) (rate(fairlane_model_loads_total{{{DEVICE}}}{RATE}))",
                    "{{device}} load {{result}}",
                ),
                Query(
                    f"sum by (device, reason) (rate(fairlane_swaps_total{{{DEVICE}}}{RATE}))",
                    "{{device}} left: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Time to load",
            "A row's file into memory.",
            "s",
            quantiles("fairlane_model_load_seconds", "device", DEVICE),
        ),
        Panel(
            "Context in use",
            "The longest kept conversation over the row's context.",
            "percentunit",
            one(
                f"fairlane_context_fill_ratio{{{DEVICE}}}",
                "{{device}} {{model}}",
                empty="the engine keeps no conversation",
            ),
            top=1.0,
        ),
    ),
)
