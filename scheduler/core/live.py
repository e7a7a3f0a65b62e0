"""One instant of a box for people who watch it: the live page, `fairlane top` and `fairlane tail`.

Rules of this file: pure; what is not known is None, never 0; ids, names and numbers only - no text of a
request, no command line of a hold, no path. `gateway/LIVE.md` describes each field.
"""

from heapq import nlargest
from typing import Any

from policies.heat import hold_lines, rule_lines
from scheduler.core.box import Box
from scheduler.core.device import Device
from scheduler.core.queueview import queue_view
from scheduler.core.recent import recent_view
from scheduler.core.snapshot import models_view, status_view

LANES = 100  # lanes listed, the busiest; the settings may have many more
SHOWN = 40  # waiting tickets listed by device and in deciding; the counts are of all
CURVES = ("tctl", "socket_power")  # readings that are kept as curves
READINGS = (
    *CURVES, "gpu_edge", "gfx_power", "npu_power", "gpu_busy", "gfx_clock", "memory_used",
    "npu_state", "uptime",
)  # fmt: skip
_HELPERS = {"scorers": "scorer", "store": "store", "sensors": "sensors"}  # section -> kind
_COUNTED = ("suppressed_", "moved_", "refused_", "npu_lost", "degraded", "scorer_down", "restarts")


def live_view(box: Box, at: float) -> dict[str, Any]:
    """Return all that is shown of one instant."""
    status, queue = status_view(box, at), queue_view(box, at, SHOWN)
    held = {(row["device"], row["model"]): row for row in status["memory"]["rows"]}
    return {
        **pulse_view(box, at),
        **{part: status[part] for part in ("ready", "draining", "open")},
        "devices": {
            d.name: {
                "kind": d.kind,
                "state": _state(d),
                "worker": d.worker is not None,
                **queue["devices"][d.name],
            }
            for d in box.devices.values()
        },
        **{part: queue[part] for part in ("deciding", "totals", "bounds")},
        "lanes": _busiest(queue["lanes"]),
        "lanes_total": len(queue["lanes"]),
        "heat": _heat(box, at),
        "readings": {name: _reading(box, name, at) for name in READINGS},
        "workers": _workers(status),
        "models": [_model(row, held) for row in models_view(box)["rows"]],
        "memory": {part: status["memory"][part] for part in ("budget_bytes", "used_bytes")},
        "pulls": status["pulls"],
        "recent": recent_view(box.recent, box.stories, box.refusals, at),
        "counts": {what: n for what, n in status["counts"].items() if what.startswith(_COUNTED)},
    }


def pulse_view(box: Box, at: float) -> dict[str, Any]:
    """Return the few numbers that make a curve: the cheapest look there is."""
    return {
        "boot": box.boot,
        "at": at,
        "curves": {name: box.senses.number(name, at) for name in CURVES},
        "busy_s": {d.name: round(_busy_s(d, at), 3) for d in box.devices.values()},
    }


def _busiest(lanes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the lanes with most to do, then those with most behind them."""
    if len(lanes) <= LANES:
        return lanes
    return dict(
        nlargest(
            LANES,
            lanes.items(),
            key=lambda one: (one[1]["running"] + one[1]["waiting"], one[1]["served_s"]),
        )
    )


def _busy_s(device: Device, at: float) -> float:
    """Return the wall seconds in which a device was held, the hold in hand included."""
    return device.busy_s + (at - device.shared_at if device.active else 0.0)


def _state(device: Device) -> str:
    """Return what a device does, or what keeps it from doing anything; the first that is true."""
    if device.active:
        return "held"
    if device.ending is not None:
        return "ending"  # its last worker has to end first
    if device.worker is None:
        return "no worker"
    if device.is_hot:
        return "hot"  # no new grant before it has cooled
    if device.is_short:
        return "memory"  # the head waits for memory
    return "thinking" if device.is_thinking else "idle"


def _heat(box: Box, at: float) -> list[dict[str, Any]]:
    """Return the lines at which something happens, and whether it does: None: unknown."""
    climate, limits = box.climate, box.limits
    hold = hold_lines(limits.stop_tctl_c, limits.resume_tctl_c)
    lines: list[dict[str, Any]] = []
    if hold is not None:
        lines.append({
            "what": "hold", "class": "", "on_c": hold.on_c, "off_c": hold.off_c,
            "is_hot": climate.hold.is_hot(at) if climate.hold is not None else None,
        })  # fmt: skip
    for class_, rule in box.catalogue.on_busy.items():
        line = rule_lines(rule)
        if line is not None:
            lines.append({
                "what": "move", "class": class_, "on_c": line.on_c, "off_c": line.off_c,
                "is_hot": climate.is_hot(class_, at),
            })  # fmt: skip
    return lines


def _reading(box: Box, name: str, at: float) -> dict[str, Any]:
    said = box.senses.reading(name, at)
    return {
        "value": said.value,
        "unit": said.unit,
        "source": said.source,
        "label": said.label,
        "age_s": round(said.age_s, 3),
        "reason": said.reason,
    }


def _workers(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Return who is registered: those of devices first, a device without one too."""
    workers = [
        {"device": name, "kind": device["kind"], **_worker(device["worker"])}
        for name, device in status["devices"].items()
    ]
    helpers = [
        {"device": "", "kind": kind, **_worker(worker)}
        for section, kind in _HELPERS.items()
        for worker in status[section]
    ]
    return workers + helpers


def _worker(worker: dict[str, Any] | None) -> dict[str, Any]:
    if worker is None:
        return {"name": "", "backend": None}
    parts = ("name", "backend", "pid", "seats", "held", "silent_s", "suspect")
    return {part: worker[part] for part in parts}


def _model(row: dict[str, Any], held: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    kept = held.get((f"{row['device']}0", row["id"]), {})
    return {
        **{part: row[part] for part in ("id", "type", "device", "backend", "context_length")},
        "loaded": row["loaded"],
        "bytes": kept.get("bytes"),
        "busy": kept.get("busy", 0),
        "idle_s": kept.get("idle_s"),
        "pinned": kept.get("pinned", False),
    }
