"""How an answer says where it came from: one value, spelled as header, Decision and log line.

Pure. Source of the header's shape: RFC 8941 item with parameters; of the Decision: Lemonade's
`x_lemonade_route`, whose `outputs` is the only place its schema leaves for what the server adds.
"""

import re
from typing import Any

import msgspec

from scheduler.wire.messages import Placed
from scheduler.wire.words import Timings

HEADER = "x-lemonade-route"
FIELD = "x_lemonade_route"
_AWAY = frozenset({"gpu_busy", "gpu_hot"})  # whys of a request that was sent to the NPU
_MOVED = _AWAY | {"npu_quarantined"}  # whys that changed the device
_SF_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9:/!#$%&'*+.^_`|~-]*")


def may_return(placed: Placed | None) -> bool:
    """Return whether a request goes back to the GPU if it fails before its first byte."""
    return placed is not None and placed.why in _AWAY


def header(placed: Placed | None, *, pending: bool = False) -> str:
    """Return the value of the route header.

    Args:
        placed: Where the request is bound; None while that is open.
        pending: The header leaves before the placement is final; the first data event says more.
    """
    # A rule id stands bare whatever it holds; what would end the header does not belong to it.
    parts = ["".join(c for c in placed.rule if c.isprintable()) if placed else "default"]
    if pending:
        parts.append("pending")
    if placed is not None:
        if placed.why:
            if placed.why in _MOVED:
                parts.append(f"device={placed.device}")
            parts.append(f"why={placed.why}")
        if placed.degraded:
            parts += ["degraded", f"reason={placed.reason}"]
        if placed.wanted:
            parts.append(f"wanted={_item(placed.wanted)}")
    return "; ".join(parts)


def decision(placed: Placed, decided: bytes, timings: Timings | None) -> dict[str, Any]:
    """Return the Decision object with what the server adds to its `outputs`.

    Args:
        placed: Where the request is bound.
        decided: The policy's Decision JSON; empty when nobody decided and the default answers.
        timings: Times of the stages that are over.
    """
    known: dict[str, Any] = msgspec.json.decode(decided) if decided else _nobody_decided(placed)
    outputs: dict[str, Any] = dict(known.get("outputs") or {})
    added = {
        "class": placed.class_,
        "confidence": placed.confidence,
        "model": placed.model,
        "device": placed.device,
        "why": placed.why,
        "degraded": placed.degraded,
        "reason": placed.reason,
        "wanted": placed.wanted,
        "timings": _times(placed, timings),
    }
    outputs.update({k: v for k, v in added.items() if _is_said(v)})
    return {**known, "outputs": outputs}


def _is_said(value: object) -> bool:
    """Return whether a value says something; a confidence of 0.0 does."""
    return not (value is None or value is False or value in ("", {}))


def _nobody_decided(placed: Placed) -> dict[str, Any]:
    return {
        "version": "1",
        "route_to": placed.model,
        "matched_rule": "",
        "default_used": True,
        "outputs": {},
    }


def _times(placed: Placed, timings: Timings | None) -> dict[str, float]:
    known: dict[str, float | None] = {"decide_ms": placed.decide_ms}
    if timings is not None:
        known |= {k: v for k, v in msgspec.structs.asdict(timings).items() if v is not None}
    return {name: round(value, 3) for name, value in known.items() if value is not None}


def _item(text: str) -> str:
    """Return a parameter's value: a token where it is one, else a quoted string."""
    if _SF_TOKEN.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c for c in escaped if " " <= c <= "~") + '"'
