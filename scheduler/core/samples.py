"""The state of a box as samples for `/metrics`: by the metric's name, label values and the figure.

Rules of this file: pure, one look; nothing is shown that is not known. Names, labels and their order are
those of the gateway's table, less the prefix; a histogram's figure is its counts by bucket and its sum.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from policies.why import Reason, Suppressed, Why
from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.dispatch import NPU
from scheduler.core.helpers import HELPERS
from scheduler.core.meter import COUNTER_SAYS, OTHER, PULL_FAULTS, Histogram, Tally
from scheduler.core.ticket import Ticket
from scheduler.core.watch import Watch, service_s

Sample = list[str | float | list[int]]  # label values, then a number, or counts and sum
Samples = dict[str, list[Sample]]

IDLE_BOUNDS_S: Final = {"1m": 60.0, "10m": 600.0, "1h": 3600.0}
SUPPRESSED: Final = frozenset(map(str, Suppressed))
STAND_INS: Final = frozenset({*map(str, Reason), str(Why.TEMPLATE_MISMATCH)})
STATES: Final = ("absent", "ending", "quarantined", "hot", "busy", "idle")
# Ends of a lane that are shown from 0 on: a counter that comes with its first one did not grow by it.
WATCHED_ENDS: Final = ("queue_full", "client_gone")
STAGES: Final = ("deciding", "pulling", "queued", "running")
REQUEUES: Final = ("worker_lost", "handed_back")
SWAPS: Final = ("grant", "told")
PULLS: Final = ("ok", "failed", *map(str, PULL_FAULTS))

# reading -> metric, label values, and what one of its units is in the metric's
_READINGS: Final[dict[str, tuple[str, tuple[str, ...], float]]] = {
    "tctl": ("tctl_celsius", (), 1.0),
    "gpu_edge": ("gpu_edge_celsius", (), 1.0),
    "socket_power": ("socket_power_watts", (), 1.0),
    "gfx_power": ("gfx_power_watts", (), 1.0),
    "npu_power": ("npu_power_watts", (), 1.0),
    "gfx_clock": ("gfx_clock_hertz", (), 1e6),
    "gpu_busy": ("gpu_busy_ratio", ("driver",), 0.01),
    "gfx_activity": ("gpu_busy_ratio", ("firmware",), 0.01),
    "npu_activity": ("npu_activity_ratio", (), 0.01),
    "memory_used": ("gpu_memory_used_bytes", (), 1.0),
    "gtt_used": ("gtt_used_bytes", (), 1.0),
    "memory_available": ("host_memory_available_bytes", (), 1.0),
    "package_energy": ("package_energy_joules_total", (), 1.0),
    "throttle_thermal": ("throttle_residency_total", ("thermal",), 1.0),
    "throttle_power": ("throttle_residency_total", ("power",), 1.0),
    "kfd_processes": ("kfd_processes", (), 1.0),
    "uptime": ("machine_uptime_seconds", (), 1.0),
}


def samples(box: Box, watch: Watch, at: float) -> Samples:
    """Return all that the core knows, as of one instant."""
    out: Samples = {}
    _box(out, box)
    _requests(out, box)
    _models(out, box)
    _stock(out, box)
    _bindings(out, box, at)
    for device in box.devices.values():
        _queue(out, box, device, at)
        _device(out, box, device, at)
        _holders(out, box, device, at)
        for window in watch.evenness[device.kind]:
            if window.index is not None:
                _put(out, "fairness_jain", device.name, f"{window.window_s:.0f}s", window.index)
    _senses(out, box, at)
    _workers(out, box, at)
    return out


def _put(out: Samples, name: str, *row: str | float | list[int]) -> None:
    out.setdefault(name, []).append(list(row))


def _tally(out: Samples, name: str, tally: Tally, known: Iterable[tuple[str, ...]] = ()) -> None:
    """Show sums by their labels; those of `known` from 0 on."""
    sums = dict.fromkeys(known, 0.0) | tally
    out[name] = [[*labels, number] for labels, number in sums.items()]


def _counted(
    out: Samples, name: str, prefix: str, counts: dict[str, int], closed: frozenset[str]
) -> None:
    """Show what the box counts under names with a prefix; names that are not known are one."""
    tally = Tally()
    for what, number in counts.items():
        if what.startswith(prefix):
            reason = what.removeprefix(prefix)
            tally.add(reason if reason in closed else OTHER, by=number)
    _tally(out, name, tally, _each(sorted(closed)))


def _each(values: Iterable[str]) -> list[tuple[str, ...]]:
    return [(value,) for value in values]


def _spread(out: Samples, name: str, histogram: Histogram, *labels: str) -> None:
    _put(out, name, *labels, histogram.counts, histogram.total)


def _box(out: Samples, box: Box) -> None:
    counts, meter, limits = box.counts, box.meter, box.limits
    scorers = box.roster.scorers()
    ready = bool(scorers) and all(device.worker for device in box.devices.values())
    _put(out, "ready", float(ready))
    _put(out, "draining", float(box.is_draining))
    _put(out, "scorer_up", float(any(scorer.is_open for scorer in scorers)))
    _put(out, "broker_starts_total", box.boot)
    _put(out, "bus_fenced_total", counts.get("fenced", 0))
    _put(out, "bus_expelled_total", counts.get("expelled", 0))
    _put(out, "outside_holds_lost_total", counts.get("holds_lost", 0))
    _put(out, "queue_limit", "total", limits.queue_total)
    _put(out, "queue_limit", "lane", limits.queue_per_lane)
    for lane, weight in box.weights.items():
        _put(out, "lane_weight", lane, weight)
    if limits.stop_tctl_c is not None:
        _put(out, "heat_stop_celsius", limits.stop_tctl_c)
    if box.residency.budget is not None:
        _put(out, "memory_budget_bytes", box.residency.budget)
    _put(out, "memory_claimed_bytes", box.residency.used())
    _put(out, "memory_reserved_bytes", sum(box.residency.reserved.values()))
    _counted(out, "fallbacks_suppressed_total", "suppressed_", counts, SUPPRESSED)
    _counted(out, "stand_ins_total", "degraded_", counts, STAND_INS)
    out["decisions_total"] = [
        [class_, box.devices[kind].name, why, outcome, number]
        for (class_, kind, why, outcome), number in meter.decisions.items()
    ]
    kinds = _each([*box.devices, *sorted(HELPERS)])
    names = [device.name for device in box.devices.values()]
    _tally(out, "fallbacks_total", meter.fallbacks, _moves(box))
    _tally(out, "cancels_total", meter.cancels, _each(STAGES))
    _tally(out, "requeues_total", meter.requeues, _each(REQUEUES))
    _tally(out, "swaps_total", meter.swaps, [(name, why) for name in names for why in SWAPS])
    _tally(out, "worker_starts_total", meter.starts, kinds)
    _tally(out, "workers_lost_total", meter.losses, kinds)
    _spread(out, "decision_seconds", meter.decided)
    _spread(out, "cancel_seconds", meter.cancelled)
    _tally(out, "gpu_busy_disagreement_seconds_total", meter.disagreed_s, _each(COUNTER_SAYS))
    _put(out, "npu_moved_seconds_total", meter.moved_s)
    _put(out, "npu_alternative_seconds_total", meter.alternative_s)


def _moves(box: Box) -> set[tuple[str, ...]]:
    """Return the fallbacks that rules of this table may make."""
    rows = (
        box.catalogue.rows.get(box.catalogue.classes.get(name, ""))
        for name in box.catalogue.on_busy
    )
    kinds = {row.device for row in rows if row is not None}
    return {
        move
        for kind in kinds
        for move in (
            (kind, NPU, str(Why.GPU_BUSY)),
            (kind, NPU, str(Why.GPU_HOT)),
            (NPU, kind, str(Why.NPU_QUARANTINED)),
        )
    }


def _requests(out: Samples, box: Box) -> None:
    """Show what runs and waits by row, and what ended by lane; tokens too."""
    running: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for ticket in box.tickets.values():
        group = running if ticket.granted_at else waiting
        group["undecided" if not ticket.model else "" if ticket.hold else ticket.model] += 1
    deciding = sum(len(question.tickets) for question in box.questions.open())
    _put(out, "requests_deciding", deciding)
    for model in box.catalogue.rows:
        _put(out, "requests_running", model, running[model])
        _put(out, "requests_waiting", model, waiting[model])
    _put(out, "requests_waiting", "undecided", waiting["undecided"])
    by_lane: dict[str, list[int]] = {}
    for device in box.meter.devices.values():
        for name, lane in device.lanes.items():
            sums = by_lane.setdefault(name, [0, 0, 0, 0])
            for place, more in enumerate((lane.answered, lane.computed, lane.cached, lane.output)):
                sums[place] += more
    lanes = {*by_lane, *(lane for lane, _ in box.meter.ends)}
    ends = [(lane, outcome) for lane in sorted(lanes) for outcome in WATCHED_ENDS]
    _tally(out, "requests_total", box.meter.ends, ends)
    for name, (answered, computed, cached, output) in by_lane.items():
        _put(out, "requests_total", name, "answered", answered)
        _put(out, "prompt_tokens_computed_total", name, computed)
        _put(out, "prompt_tokens_cached_total", name, cached)
        _put(out, "output_tokens_total", name, output)
    for model, row in box.meter.models.items():
        _spread(out, "request_seconds", row.took, model)
        if any(row.first.counts):
            _spread(out, "time_to_first_token_seconds", row.first, model)


def _models(out: Samples, box: Box) -> None:
    """Show what was learned of rows, and which are loaded."""
    shown: set[tuple[str, str]] = set()
    for learned in box.costs.learned():  # sorted: of one row and device, the fewest seats first
        where = learned["device"], learned["row"]
        for what in ("prefill", "decode"):
            rate, name = learned[f"{what}_tok_s"], f"{what}_tokens_per_second"
            if rate is not None and where not in shown:
                _put(out, name, *where, rate)
        shown.add(where)
    for model, habit in box.costs.habits.items():
        _put(out, "estimate_error_seconds_total", model, habit.error_s)
        _put(out, "estimated_seconds_total", model, habit.estimated_s)
        _put(out, "measured_seconds_total", model, habit.actual_s)
    for (name, model), resident in box.residency.rows.items():
        if resident.size:
            _put(out, "model_resident_bytes", name, model, resident.size)


def _stock(out: Samples, box: Box) -> None:
    """Show which rows are on this machine, and what is on its way."""
    _put(out, "pulling", len(box.pulls.running))
    _tally(out, "pulls_total", box.meter.pulls, _each(PULLS))
    _spread(out, "pull_seconds", box.meter.pulling)
    defaults = {box.catalogue.default_of(name) for name in box.catalogue.shipped}
    for row in box.catalogue.rows.values():
        device, stock = box.devices[row.device], box.pulls.stock.get(row.model)
        if stock is not None or device.worker is not None:
            is_there = float((device.name, row.model) in box.residency.sizes)
            if stock is not None:
                is_there = float(stock.state == "ready")
            _put(out, "row_ready", row.model, is_there)
            if row.model in defaults:
                _put(out, "default_model_ready", is_there)


def _bindings(out: Samples, box: Box, at: float) -> None:
    counts = {kind: [0] * len(IDLE_BOUNDS_S) for kind in box.devices}
    for (model, moved), idle in box.bindings.idle(at, tuple(IDLE_BOUNDS_S.values())).items():
        row = box.catalogue.rows.get(model)
        kind = NPU if moved else row.device if row is not None else ""
        if kind in counts:
            counts[kind] = [a + b for a, b in zip(counts[kind], idle, strict=True)]
    for kind, idle in counts.items():
        for age, number in zip(IDLE_BOUNDS_S, idle, strict=True):
            _put(out, "bindings", box.devices[kind].name, age, number)


def _queue(out: Samples, box: Box, device: Device, at: float) -> None:
    """Show who waits for a device and what each lane had of it."""
    depth = dict.fromkeys(device.queue.lanes(), 0)
    oldest: dict[str, float] = {}
    for ticket in [*device.queue.waiting(), *([device.peeked] if device.peeked else [])]:
        lane = ticket.lane
        depth[lane] = depth.get(lane, 0) + 1
        oldest[lane] = max(oldest.get(lane, 0.0), at - ticket.queued_at)
    name, queue = device.name, device.queue
    for lane in queue.waiting_lanes():
        _put(out, "lane_lead_seconds", name, lane, queue.start_of(lane) - queue.virtual)
    out.setdefault("queue_depth", []).extend([name, lane, n] for lane, n in depth.items())
    out.setdefault("queue_oldest_seconds", []).extend([name, *row] for row in oldest.items())
    out.setdefault("queue_wait_seconds", []).extend(
        [name, lane, sums.waits, sums.waits_s]
        for lane, sums in box.meter.devices[device.kind].lanes.items()
    )
    out.setdefault("lane_service_seconds_total", []).extend(
        [name, *row] for row in service_s(box, device, at).items()
    )


def _device(out: Samples, box: Box, device: Device, at: float) -> None:
    name, sums = device.name, box.meter.devices[device.kind]
    now = _state(box, device, at)
    for state in STATES:
        _put(out, "device_state", name, state, float(state == now))
    if device.worker is not None:
        _put(out, "seats", name, device.seats())
    busy_s = device.busy_s + (at - device.shared_at if device.active else 0.0)
    thinking_s = device.thinking_s + (at - device.thinking_since if device.is_thinking else 0.0)
    busy_before_s, thinking_before_s = sums.since
    _put(out, "device_busy_seconds_total", name, busy_s - busy_before_s)
    _put(out, "device_thinking_seconds_total", name, thinking_s - thinking_before_s)
    for phase, seconds in sums.phases().items():
        _put(out, "device_phase_seconds_total", name, phase, seconds)
    _put(out, "device_idle_waiting_seconds_total", name, "none", sums.idle_s.get("none", 0.0))
    for reason, seconds in sums.idle_s.items():
        if reason != "none":
            _put(out, "device_idle_waiting_seconds_total", name, reason, seconds)
    joules = box.meter.energy_j.get((device.kind,))
    if joules is not None:
        _put(out, "device_energy_joules_total", name, joules)
    _put(out, "model_loads_total", name, "ok", sum(sums.loads.counts))
    _put(out, "model_loads_total", name, "failed", box.meter.loads_failed.get((device.kind,), 0))
    _spread(out, "model_load_seconds", sums.loads, name)
    for model, tokens in device.slots.fullest().items():
        _put(out, "context_fill_ratio", name, model, tokens / box.catalogue.rows[model].ctx)


def _holders(out: Samples, box: Box, device: Device, at: float) -> None:
    """Show who has a device, for how long, and whether anything comes of it."""
    name = device.name
    active = [ticket for ticket in device.active.values() if not ticket.is_canary]
    _put(out, "seats_used", name, len(active))
    for lane, held in Counter(ticket.lane for ticket in active).items():
        _put(out, "seats_held", name, lane, held)
    if active:
        _put(out, "hold_longest_seconds", name, at - min(t.granted_at for t in active))
    silent = [at - box.meter.signs.get(t.number, t.granted_at) for t in active if _streams(t)]
    if silent:
        _put(out, "stream_silent_seconds", name, max(silent))
    holds = [ticket.hold for ticket in active if ticket.hold is not None]
    _put(out, "outside_holds", name, len(holds))
    if holds:
        _put(out, "outside_hold_left_seconds", name, min(hold.ends_at for hold in holds) - at)


def _state(box: Box, device: Device, at: float) -> str:
    """Return one of STATES."""
    if device.ending is not None:
        return "ending"
    if device.worker is None and not device.active:
        return "absent"
    if device.kind == NPU and box.quarantine.bars(at):
        return "quarantined"
    if device.is_hot:
        return "hot"
    return "busy" if device.active else "idle"


def _streams(ticket: Ticket) -> bool:
    return ticket.asked.stream and ticket.hold is None


def _senses(out: Samples, box: Box, at: float) -> None:
    senses = box.senses
    for name in senses.latest:
        reading = senses.reading(name, at)
        _put(out, "sensor_age_seconds", name, reading.age_s)
        known = _READINGS.get(name)
        if known is not None and isinstance(reading.value, float | int):
            metric, labels, scale = known
            _put(out, metric, *labels, reading.value * scale)
    for doubt, count in senses.doubts.items():
        name, _, reason = doubt.partition(" ")
        _put(out, "sensor_invalid_total", name, reason, count)


def _workers(out: Samples, box: Box, at: float) -> None:
    for worker in box.roster.by_route.values():
        _put(out, "worker_last_seen_seconds", worker.name, worker.kind, at - worker.beat_at)
    quarantine = box.quarantine
    _put(out, "npu_crashes_total", quarantine.crashes)
    left_s = 0.0 if quarantine.until is None else max(0.0, quarantine.until - at)
    _put(out, "npu_quarantine_left_seconds", left_s)
