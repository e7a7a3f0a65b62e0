"""All metrics, as a table: what each is, by which labels, and where it comes from.

Rules of this file: pure data. Base units, named at the end of the name (before `_total`, which counters and
only counters have). A label is one of LABELS and so bounded; no request, prompt, process id or path is ever
one. ops/METRICS.md is made from here, and what the broker says is held to it.
"""

from typing import Final, Literal

from msgspec import Struct

from scheduler.core.meter import (
    ANSWER_BUCKETS,
    CANCEL_BUCKETS,
    DECISION_BUCKETS,
    LOAD_BUCKETS,
    PULL_BUCKETS,
    WAIT_BUCKETS,
)

PREFIX: Final = "fairlane_"
_UNITS = ("seconds", "bytes", "joules", "watts", "celsius", "hertz", "ratio")
Kind = Literal["counter", "gauge", "histogram"]
Source = Literal["core", "broker", "sensors", "gateway"]


class Metric(Struct, frozen=True, kw_only=True):
    """One metric.

    Attributes:
        name: As it is exposed, `_total` of a counter included.
        kind: Its type.
        labels: Names of LABELS, in the order of a sample's values.
        help: What it says, one sentence.
        absent: When there is no such series; empty: there is one for each label set that is known.
        source: Who knows it.
        buckets: Upper bounds of a histogram, without +Inf.
        alias_of: The metric of this table that it repeats under another project's name.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...] = ()
    help: str
    absent: str = ""
    source: Source = "core"
    buckets: tuple[float, ...] = ()
    alias_of: str = ""

    @property
    def key(self) -> str:
        """Its name in the broker's snapshot."""
        return (self.alias_of or self.name).removeprefix(PREFIX)

    @property
    def unit(self) -> str:
        """Its unit, one of the base units; empty: a plain number."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")


def _counter(
    name: str, text: str, *labels: str, absent: str = "", source: Source = "core"
) -> Metric:
    full = f"{PREFIX}{name}_total"
    return Metric(name=full, kind="counter", labels=labels, help=text, absent=absent, source=source)


def _gauge(name: str, text: str, *labels: str, absent: str = "", source: Source = "core") -> Metric:
    full = PREFIX + name
    return Metric(name=full, kind="gauge", labels=labels, help=text, absent=absent, source=source)


def _histogram(
    name: str, buckets: tuple[float, ...], text: str, *labels: str, absent: str = ""
) -> Metric:
    full = PREFIX + name
    return Metric(
        name=full, kind="histogram", labels=labels, help=text, absent=absent, buckets=buckets
    )


def _alias(name: str, of: str, kind: Kind, buckets: tuple[float, ...] = ()) -> Metric:
    meant = PREFIX + of
    return Metric(
        name=name, kind=kind, labels=("model_name",), help=f"As {meant}.",
        buckets=buckets, alias_of=meant,
    )  # fmt: skip


def _reading(name: str, text: str, *labels: str) -> Metric:
    return _gauge(name, text, *labels, absent="the reading is unknown", source="sensors")


_NO_WORKER = "no worker serves the device"
_UNSAID = "neither the store nor the device's worker spoke of it"
_UNLEARNED = "nothing was learned yet"

_BOX = (
    _gauge("up", "1 if the broker answered this scrape, else 0.", source="gateway"),
    _gauge("build_info", "1, with what serves this page.", "version", "python", source="gateway"),
    _gauge("ready", "1 if a scorer and a worker for every device are there."),
    _gauge("draining", "1 if the box takes no new work and ends what it has."),
    _gauge("start_time_seconds", "When the broker started, in seconds since 1970: counters begin anew then.",
           source="broker"),
    _gauge("uptime_seconds", "Since the broker's start.", source="broker"),
    _counter("broker_starts", "Starts of the broker with this state directory."),
    _gauge("journal_up", "1 if the journal is written, 0 if it failed.",
           absent="it is switched off", source="broker"),
    _gauge("journal_bytes", "Size of the journal's segment.", absent="none is written", source="broker"),
    _counter("bus_bad_messages", "Messages that could not be read.", source="broker"),
    _counter("bus_unroutable", "Messages whose peer was gone.", source="broker"),
    _counter("bus_fenced", "Messages under a lease or epoch that was over."),
    _counter("bus_expelled", "Workers that were told to register again, or not at all."),
)  # fmt: skip

_REQUESTS = (
    _counter("requests", "Requests that ended; `queue_full` is the 429, `client_gone` left.",
             "lane", "outcome"),
    _gauge("requests_running", "Requests that hold a seat.", "model"),
    _gauge("requests_waiting", "Requests that wait, for a decision or a seat.", "model"),
    _gauge("requests_deciding", "Of those, the ones that wait for a decision."),
    _histogram("request_seconds", ANSWER_BUCKETS, "From asking to the end of an answer.", "model"),
    _histogram("time_to_first_token_seconds", ANSWER_BUCKETS, "From asking to the first token.", "model",
               absent="the engine does not tell"),
    _alias("vllm:num_requests_running", "requests_running", "gauge"),
    _alias("vllm:num_requests_waiting", "requests_waiting", "gauge"),
    _alias("vllm:time_to_first_token_seconds", "time_to_first_token_seconds", "histogram", ANSWER_BUCKETS),
    _alias("vllm:e2e_request_latency_seconds", "request_seconds", "histogram", ANSWER_BUCKETS),
    _counter("cancels", "Requests whose client left, by where they were.", "stage"),
    _histogram("cancel_seconds", CANCEL_BUCKETS, "From a client's leaving to the free seat."),
    _counter("requeues", "Tickets that went back from a seat to the queue.", "reason"),
)  # fmt: skip

_DECISIONS = (
    _counter("decisions", "Routed requests placed: by a decision, by their conversation's binding (kept), or "
             "by default since nobody decided (fell_open).", "class", "device", "why", "outcome"),
    _histogram("decision_seconds", DECISION_BUCKETS, "From asking to the decision, where there was one."),
    _gauge("scorer_up", "1 if a scorer may be asked; 0 if none is there, or all are suspect."),
    _gauge("bindings", "Conversations remembered, by where they are and by idle time.", "device", "age"),
    _counter("fallbacks", "Placements off the class's own device, and returns from a lost NPU.",
             "from", "to", "why"),
    _counter("fallbacks_suppressed", "on_busy rules that did not fire.", "reason"),
    _counter("stand_ins", "Answers of another row because the wanted one could not be used.", "reason"),
    _counter("npu_moved_seconds", "What answers moved to the NPU took, from placing to end."),
    _counter("npu_alternative_seconds", "What waiting for the GPU and running there was expected to take "
             "for the same answers; the difference is the time lost."),
)  # fmt: skip

_QUEUE = (
    _gauge("queue_depth", "Tickets that wait.", "device", "lane", absent="the lane never had work there"),
    _gauge("queue_oldest_seconds", "How long the longest waiting ticket waits.", "device", "lane",
           absent="nothing of the lane waits there"),
    _histogram("queue_wait_seconds", WAIT_BUCKETS, "From queueing to the seat.", "device", "lane"),
    _gauge("queue_limit", "Tickets that may wait, in all and of one lane.", "bound"),
    _counter("lane_service_seconds", "Device-seconds in which the lane's tickets held seats; the sum of a "
             "device never passes the clock.", "device", "lane"),
    _gauge("lane_lead_seconds", "Weighted device-seconds by which the start of the lane's next ticket lies "
           "after the device's virtual time; the smallest goes next.", "device", "lane",
           absent="nothing of the lane waits there"),
    _gauge("lane_weight", "The lane's share beside the others.", "lane",
           absent="the settings do not name it: 1"),
    _gauge("fairness_jain", "Jain's index over the weighted service of the lanes with work waiting all "
           "through the last whole window; 1 is even.", "device", "window",
           absent="there were not two such lanes"),
)  # fmt: skip

_DEVICES = (
    _gauge("device_state", "1 for the state that the device is in, 0 for the others.", "device", "state"),
    _gauge("seats", "Seats of the loaded row.", "device", absent=_NO_WORKER),
    _gauge("seats_used", "Seats that are held.", "device"),
    _gauge("seats_held", "Seats that a lane holds: who has the device.", "device", "lane",
           absent="it holds none"),
    _gauge("hold_longest_seconds", "How long the oldest holder has had its seat.", "device",
           absent="nobody holds one"),
    _gauge("stream_silent_seconds", "The longest time since a streamed answer's last piece, or its grant.",
           "device", absent="no streamed answer holds a seat"),
    _counter("device_busy_seconds", "Wall seconds with at least one seat held.", "device"),
    _counter("device_phase_seconds", "Device-seconds by what they went into; lost: with a worker, "
             "for a client that left, or in a failure.", "device", "phase"),
    _counter("device_thinking_seconds", "Wall seconds kept free for a conversation to come back.", "device"),
    _counter("device_idle_waiting_seconds", "Wall seconds idle while tickets wait, by what for; `none` must "
             "stay 0.", "device", "reason"),
    _counter("device_energy_joules", "The device's own power, summed up second by second.", "device",
             absent="its power was never readable"),
)  # fmt: skip

_MODELS = (
    _counter("prompt_tokens_computed", "Prompt tokens that were computed.", "lane"),
    _counter("prompt_tokens_cached", "Prompt tokens that the engine still had.", "lane"),
    _counter("output_tokens", "Tokens of answers.", "lane"),
    _gauge("prefill_tokens_per_second", "Learned, with the fewest tickets at once.", "device", "model",
           absent=_UNLEARNED),
    _gauge("decode_tokens_per_second", "Learned, with the fewest tickets at once.", "device", "model",
           absent=_UNLEARNED),
    _gauge("context_fill_ratio", "The longest kept conversation over the row's context.", "device", "model",
           absent="the engine keeps none"),
    _counter("estimate_error_seconds", "Sum of |estimate - truth|, device-seconds.", "model"),
    _counter("estimated_seconds", "Sum of the estimates, device-seconds.", "model"),
    _counter("measured_seconds", "Sum of what those tickets took, device-seconds.", "model"),
    _gauge("model_resident_bytes", "Size of a loaded row.", "device", "model",
           absent="it is not loaded, or its worker names no size"),
    _counter("model_loads", "Rows loaded for a request.", "device", "result"),
    _histogram("model_load_seconds", LOAD_BUCKETS, "How long loading took.", "device"),
    _counter("swaps", "Rows that left: evicted by a grant, or told to for room elsewhere or idleness.",
             "device", "reason"),
    _gauge("row_ready", "1 if the row's files are here and may be used, else 0.", "model", absent=_UNSAID),
    _gauge("default_model_ready", "The same of the table's default model.", absent=_UNSAID),
    _gauge("pulling", "Rows on their way here."),
    _counter("pulls", "Pulls that ended.", "result"),
    _histogram("pull_seconds", PULL_BUCKETS, "How long those took that ended well."),
)  # fmt: skip

_MEMORY = (
    _gauge("memory_budget_bytes", "What loaded rows and outside lanes may take.", absent="there is no bound"),
    _gauge("memory_claimed_bytes", "What they take."),
    _gauge("memory_reserved_bytes", "Of that, what outside lanes take."),
    _gauge("memory_reserve_bytes", "What the settings keep free of the machine's memory.", source="gateway"),
    _reading("host_memory_available_bytes", "MemAvailable."),
    _reading("gtt_used_bytes", "Memory of the host that the iGPU has mapped."),
    _reading("gpu_memory_used_bytes", "VRAM and GTT together."),
)  # fmt: skip

_HEAT = (
    _reading("tctl_celsius", "The processor's control temperature."),
    _gauge("heat_stop_celsius", "Tctl from which on the iGPU gets no new grant.", absent="none is set"),
    _reading("gpu_edge_celsius", "The iGPU's temperature."),
    _reading("socket_power_watts", "The whole socket, not the GPU alone."),
    _reading("gfx_power_watts", "The iGPU's share."),
    _reading("npu_power_watts", "The NPU's share."),
    _reading("gfx_clock_hertz", "The iGPU's clock."),
    _reading("gpu_busy_ratio", "What others say of it: a cross-check, the tickets are the truth.", "source"),
    _counter("gpu_busy_disagreement_seconds", "Seconds in which the driver's figure was half or more and no "
             "ticket held a seat (busy), or less and one did (idle).", "says"),
    _reading("npu_activity_ratio", "Mean of the NPU's columns."),
    _counter("package_energy_joules", "The package's energy counter.",
             absent="the reading is unknown", source="sensors"),
    _counter("throttle_residency", "The firmware's throttle counters in a unit of its own: only their growth "
             "tells.", "cause", absent="the reading is unknown", source="sensors"),
    _reading("kfd_processes", "Processes that hold the compute driver; two idle ones pin the busy figure."),
    _reading("machine_uptime_seconds", "Since the machine's start."),
    _gauge("sensor_age_seconds", "How old the value is.", "sensor",
           absent="no sensors worker speaks of it", source="sensors"),
    _counter("sensor_invalid", "How often a reading was unknown, once a second.", "sensor", "reason",
             source="sensors"),
)  # fmt: skip

_WORKERS = (
    _gauge("worker_last_seen_seconds", "Since its last heartbeat.", "worker", "kind",
           absent="it is not registered"),
    _counter("worker_starts", "Workers that registered.", "kind"),
    _counter("workers_lost", "Workers that ended, left or fell silent.", "kind"),
    _counter("npu_crashes", "Times that the NPU was shut after a crash."),
    _gauge("npu_quarantine_left_seconds", "Until the NPU may be tried again; 0: it is open."),
    _gauge("outside_holds", "Programs of outside lanes that hold the device.", "device"),
    _gauge("outside_hold_left_seconds", "Until its longest time is over; below 0: it is being ended.",
           "device", absent="none holds it"),
    _counter("outside_holds_lost", "Holds that ended without a release."),
)  # fmt: skip

TABLE: Final = (
    *_BOX, *_REQUESTS, *_DECISIONS, *_QUEUE, *_DEVICES, *_MODELS, *_MEMORY, *_HEAT, *_WORKERS,
)  # fmt: skip
BY_NAME: Final = {metric.name: metric for metric in TABLE}
