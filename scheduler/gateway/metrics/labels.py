"""What bounds each label of the metrics, and the bounds of their buckets. Pure data."""

from typing import Final

from policies.why import Reason, Suppressed, Why

OUTCOMES: Final = (
    "answered", "decided", "served", "released", "client_gone", "hold_lost", "queue_full",
    "deadline_exceeded", "worker_lost", "device_unavailable", "model_not_usable", "draining",
    "bad_request", "failed",
)  # fmt: skip
STATES: Final = ("absent", "ending", "quarantined", "hot", "busy", "idle")
IDLE_REASONS: Final = ("none", "absent", "ending", "hot", "thinking", "memory")
PHASES: Final = ("load", "prefill", "reprefill", "decode", "lost", "outside", "other")
AGES: Final = ("1m", "10m", "1h")
WINDOWS: Final = ("60s", "600s")

# label -> what bounds its values
LABELS: Final[dict[str, str]] = {
    "age": f"{', '.join(AGES)}: idle for at most so long and not for at most the one before",
    "bound": "total, lane",
    "cause": "thermal, power",
    "class": "the table's classes; `none` where no class was named, `other` for those of users' policies",
    "device": "instances: hrx0, npu0, cpu0; those that the table has rows for",
    "from": "kinds: hrx, npu, cpu",
    "kind": "scorer, store, sensors, hrx, npu, cpu",
    "lane": "the settings' lanes and the first names that came, `limits.lanes` in all; else `default`",
    "model": "rows of the table",
    "model_name": "as `model`; `undecided` while no row is known",
    "outcome": f"of a request: {', '.join(OUTCOMES)}; of a decision: decided, kept, fell_open",
    "phase": ", ".join(PHASES),
    "python": "one: the gateway's",
    "reason": f"of a suppression: {', '.join(Suppressed)}; "
    f"of a stand-in: {', '.join([*Reason, Why.TEMPLATE_MISMATCH])}; "
    f"of idling: {', '.join(IDLE_REASONS)}; of a swap: grant, told; "
    "of a requeue: worker_lost, handed_back; of a sensor: those of SENSORS.md",
    "result": "ok, failed; of a pull also pull_failed, template_mismatch",
    "says": "busy, idle",
    "sensor": "readings of SENSORS.md",
    "source": "driver, firmware",
    "stage": "deciding, pulling, queued, running",
    "state": ", ".join(STATES),
    "to": "kinds: hrx, npu, cpu",
    "version": "one: the gateway's",
    "why": f"{', '.join(Why)}; `none`",
    "window": ", ".join(WINDOWS),
    "worker": "names of the live workers",
}
