"""HTTP bodies: OpenAI's error object, model list, and Lemonade's health. Pure."""

import math
from typing import Any

import msgspec

from scheduler.wire.messages import Refused

_NAME_MAX = 256  # characters of a model's name
# status -> OpenAI's error type
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def error_body(status: int, message: str, code: str, facts: dict[str, Any] | None = None) -> bytes:
    """Return OpenAI's error object; `facts` such as n_ctx stand beside its own four fields."""
    known = dict(facts or {})
    kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    if code == "model_not_found":
        kind = code  # Lemonade's type for it
    error = {
        "message": message,
        "type": kind,
        "param": known.pop("param", None),
        "code": code,
        **known,
    }
    return msgspec.json.encode({"error": error})


def refusal(message: Refused) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of a refusal."""
    headers: dict[str, str] = {}
    if message.retry_after_s is not None:
        headers["retry-after"] = str(math.ceil(message.retry_after_s))
    return message.status, refusal_body(message), headers


def refusal_body(message: Refused) -> bytes:
    """Return the error object of a refusal."""
    return error_body(message.status, message.message, message.code, dict(message.facts))


def model_list(view: dict[str, Any]) -> dict[str, Any]:
    """Return OpenAI's model list with what else we know of each model."""
    rows = {row["id"]: row for row in view["rows"]}
    data = [_model(name, row) for name, row in rows.items()]
    for collection in view["collections"]:
        default = rows.get(collection["default_model"])
        data.append(_model(collection["id"], default) | {"routes": True})
    collections = {c["id"]: c["default_model"] for c in view["collections"]}
    for alias, name in view["aliases"].items():
        target = rows.get(collections.get(name, name))
        data.append(_model(alias, target) | {"alias_of": name})
    return {"object": "list", "data": data}


def _model(name: str, row: dict[str, Any] | None) -> dict[str, Any]:
    known = row or {}
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "fairlane",
        "context_length": known.get("context_length"),
        "device": known.get("device"),
        "backend": known.get("backend"),
        "loaded": known.get("loaded", False),
        "tools": known.get("tools", False),
        "vision": known.get("vision", False),
        "on_disk": known.get("on_disk"),
        "size_bytes": known.get("bytes"),
    }


class WantedPull(msgspec.Struct, frozen=True):
    """A row to be brought here."""

    model: str
    stream: bool


def wanted_pull(raw: bytes) -> WantedPull | None:
    """Return what a pull's body asks for; None where it is a definition to be registered, or neither.

    Source of the two names: Lemonade's /v1/pull, which registers whatever comes with a recipe.
    """
    try:
        body = msgspec.json.decode(raw, type=_Pull)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    parts = (body.recipe, body.routing, body.components, body.checkpoint)
    is_definition = any(part is not None for part in parts)
    name = body.model_name or body.model or ""
    usable = 0 < len(name) <= _NAME_MAX and not is_definition
    return WantedPull(name, body.stream is True) if usable else None


def pull_done(model: str) -> dict[str, Any]:
    """Return the answer to a pull that ended well."""
    return {"status": "success", "message": f"Installed model: {model}", "model_name": model}


class _Pull(msgspec.Struct, frozen=True):
    """What is read of a pull's body."""

    model: str | None = None
    model_name: str | None = None
    stream: Any = None
    recipe: Any = None
    routing: Any = None
    components: Any = None
    checkpoint: Any = None


def health(status: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """Return the health view. Source of the field names: Lemonade's /v1/health."""
    loaded = [
        {
            "model_name": row["id"],
            "device": row["device"],
            "backend": row["backend"],
            "status": "ready",
            "type": "llm",
        }
        for row in models["rows"]
        if row["loaded"]
    ]
    return {
        "status": _state(status),
        "version": status["version"],
        "model_loaded": loaded[0]["model_name"] if loaded else None,
        "all_models_loaded": loaded,
        "devices": {
            name: {
                "backend": device["worker"]["backend"] if device["worker"] else None,
                "waiting": device["waiting"],
                "held": len(device["holders"]),
            }
            for name, device in status["devices"].items()
        },
        "scorers": len(status["scorers"]),
    }


def _state(status: dict[str, Any]) -> str:
    """Return a box's state in a word; `draining` tells a balancer to ask another one."""
    if status["draining"]:
        return "draining"
    return "ok" if status["ready"] else "starting"
