"""Views of the core for people and programs. Pure: one snapshot, no effect on what it shows."""

from typing import Any

from msgspec import structs

from scheduler.core.box import Box
from scheduler.core.canary import waits_for
from scheduler.core.device import Device
from scheduler.core.dispatch import NPU
from scheduler.core.events import RowStock
from scheduler.core.proving import versions_of
from scheduler.core.pulls import READY
from scheduler.core.worker import Worker


def status_view(box: Box, at: float) -> dict[str, Any]:
    """Return what `fairlane status --json` shows."""
    scorers = box.roster.scorers()
    return {
        "boot": box.boot,
        "ready": bool(scorers) and all(d.worker for d in box.devices.values()),
        "devices": {d.name: _device(d, at) for d in box.devices.values()},
        "scorers": [_worker(w, at) for w in scorers],
        "store": [_worker(w, at) for w in box.roster.of_kind("store")],
        "sensors": [_worker(w, at) for w in box.roster.of_kind("sensors")],
        "senses": box.senses.view(at),
        "npu": _npu(box, at),
        "draining": box.is_draining,
        "open": len(box.tickets) - bool(box.proving.ticket),
        "deciding": len(box.questions),
        "memory": _memory(box, at),
        "pulls": _pulls(box, at),
        "not_on_disk": {
            model: {"state": stock.state, "reason": stock.reason}
            for model, stock in sorted(box.pulls.stock.items())
            if stock.state != READY
        },
        "resting": {
            model: {"cause": rest.cause, "left_s": round(rest.until - at, 3)}
            for model, rest in sorted(box.rests.rows.items())
            if rest.until > at
        },
        "catalogue_version": box.catalogue.version,
        "conversations": len(box.bindings),
        "costs": box.costs.learned(),
        "counts": dict(sorted(box.counts.items())),
    }


def models_view(box: Box) -> dict[str, Any]:
    """Return rows and collections as the gateway's `/v1/models` needs them."""
    backends = {d.kind: d.worker.backend if d.worker else None for d in box.devices.values()}
    resident = {
        name for d in box.devices.values() if d.worker is not None for name in d.worker.resident
    }
    catalogue = box.catalogue
    return {
        "rows": [
            {
                "id": row.model,
                "type": row.type,
                "device": row.device,
                "backend": backends[row.device],
                "context_length": row.ctx,
                "loaded": row.model in resident,
                "tools": row.tools,
                "vision": row.images,
                "json_schema": row.json_schema,
                "on_disk": box.pulls.state(row.model),
                "disk_reason": _stock(box, row.model).reason,
                "bytes": _stock(box, row.model).bytes or None,
            }
            for row in catalogue.rows.values()
        ],
        "collections": [
            {"id": name, "default_model": default}
            for name, default in sorted(catalogue.collections.items())
        ],
        "aliases": dict(sorted(catalogue.aliases.items())),
        "classes": catalogue.classes,
        "default_model": next((catalogue.collections[c] for c in sorted(catalogue.shipped)), None),
        "pull_budget_s": catalogue.pull_budget_s,
    }


def _device(device: Device, at: float) -> dict[str, Any]:
    return {
        "kind": device.kind,
        "worker": _worker(device.worker, at) if device.worker else None,
        "loaded": device.row or None,
        "holders": [
            {"lane": t.lane, "request": t.asked.rid, "held_s": round(at - t.granted_at, 3)}
            for t in device.active.values()
        ],
        "waiting": device.depth,
        "busy_s": round(device.busy_s, 3),
        "served_s": {lane: round(s, 3) for lane, s in device.queue.served_s().items()},
    }


def _npu(box: Box, at: float) -> dict[str, Any] | None:
    """Return how far the NPU is trusted, and why; None: this box has none."""
    device, proving, quarantine = box.devices.get(NPU), box.proving, box.quarantine
    if device is None:
        return None
    versions = versions_of(box.senses, device.worker)
    left_s = None if quarantine.until is None else max(0.0, quarantine.until - at)
    return {
        "canary": box.npu.canary,
        "canary_passed": proving.known.passed(versions),
        "canary_wanted": proving.wanted or None,
        "canary_running": proving.ticket != 0,
        "canary_waits_for": (
            waits_for(box, at) or None if proving.wanted and not proving.ticket else None
        ),
        "versions": structs.asdict(versions),
        "answers": [
            {**structs.asdict(one.versions), "passed": one.passed} for one in proving.known.results
        ],
        "quarantined": quarantine.until is not None,
        "quarantine_left_s": None if left_s is None else round(left_s, 3),
        "crashes": quarantine.crashes,
    }


def _stock(box: Box, model: str) -> RowStock:
    return box.pulls.stock.get(model) or RowStock("")


def _pulls(box: Box, at: float) -> list[dict[str, Any]]:
    return [
        {
            "model": pull.model,
            "done_bytes": pull.done,
            "total_bytes": pull.total,
            "since_s": round(at - pull.since, 3),
            "asked": bool(pull.store),
            "waiting": len(box.pulls.waiters(pull.model)),
        }
        for pull in box.pulls.running.values()
    ]


def _memory(box: Box, at: float) -> dict[str, Any]:
    residency = box.residency
    return {
        "budget_bytes": residency.budget,
        "used_bytes": residency.used(),
        "rows": [
            {
                "device": device,
                "model": model,
                "bytes": row.size or None,
                "busy": row.busy,
                "idle_s": round(at - row.used_at, 3) if not row.busy else 0.0,
                "pinned": row.pinned,
                "leaving": row.leaving,
            }
            for (device, model), row in sorted(residency.rows.items())
        ],
        "reserved": {str(n): size for n, size in residency.reserved.items() if size},
    }


def _worker(worker: Worker, at: float) -> dict[str, Any]:
    return {
        "name": worker.name,
        "pid": worker.pid,
        "backend": worker.backend,
        "seats": worker.seats,
        "held": len(worker.held),
        "resident": worker.resident,
        "silent_s": round(at - worker.beat_at, 3),
        "suspect": worker.suspect or worker.on_trial,
    }
