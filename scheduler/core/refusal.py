"""Refusals: values with the status, the stable code and the words a client gets."""

import math

from msgspec import Struct

from scheduler.core.catalogue import Catalogue, RowFacts
from scheduler.core.effects import Fact, Refuse
from scheduler.core.events import Asked
from scheduler.core.limits import Limits

_SHOWN = 3  # names in a text; the view of models has them all
DRAIN_RETRY_S = 10.0  # what runs must end and the box start again before it is worth asking


class Refusal(Struct, frozen=True):
    """Why a request ends without its answer."""

    status: int
    code: str
    message: str
    facts: dict[str, Fact] = {}
    retry_after_s: float | None = None

    def effect(self, client: bytes, rid: str, *, began: bool = False) -> Refuse:
        """Return the effect that tells a client."""
        return Refuse(
            client, rid, self.status, self.code, self.message, self.facts, self.retry_after_s, began
        )


def model_not_found(name: str, catalogue: Catalogue) -> Refusal:
    """Return the refusal of an unknown name. Wording and fields: Lemonade's 404 body."""
    if catalogue.default_of(name) is not None:  # only where a row alone may be named
        rows = ", ".join(f"'{row}'" for row in list(catalogue.rows)[:_SHOWN])
        message = f"'{name}' routes to models and is none itself; name one of them, such as {rows}."
        return Refusal(404, "model_not_found", message, {"param": "model", "requested_model": name})
    known = sorted({*catalogue.rows, *catalogue.collections, *catalogue.aliases})
    shown = ", ".join(f"'{one}'" for one in known[:_SHOWN])
    more = f", and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    message = (
        f"Model '{name}' was not found. Available models include: {shown}{more}. "
        "Use 'fairlane status' or GET /v1/models to see all available models."
    )
    return Refusal(404, "model_not_found", message, {"param": "model", "requested_model": name})


def unknown(name: str, catalogue: Catalogue) -> Refusal:
    """Return the refusal of a name that means nothing, or nothing yet.

    Until the store has said which user policies there are, such a name may well be one of them.
    """
    if name.startswith("user.") and catalogue.version == 1:
        message = f"Model '{name}' may be a registered policy; the store has not come up yet."
        return Refusal(
            503, "store_unavailable", message, {"param": "model", "retryable": True}, 1.0
        )
    return model_not_found(name, catalogue)


def no_device(name: str, devices: list[str]) -> Refusal:
    """Return the refusal of a device that this box does not have."""
    message = f"There is no device '{name}' here. Devices: {', '.join(devices)}."
    return Refusal(404, "device_not_found", message, {"param": "device"})


def unable(model: str, missing: str) -> Refusal:
    """Return the refusal of a request that a row cannot serve."""
    message = f"Model '{model}' cannot serve this request: it lacks {missing}."
    return Refusal(400, "unsupported_by_model", message, {"missing": missing})


def wrong_type(model: str, kind: str) -> Refusal:
    """Return the refusal of an endpoint that a row's type of model does not serve."""
    message = f"Model '{model}' is of type {kind}, which this endpoint does not serve."
    return Refusal(400, "unsupported_by_model", message, {"param": "model", "model_type": kind})


def queue_full(lane: str, waiting: int, total: int, wait_s: float, limits: Limits) -> Refusal:
    """Return the one 429. Its header says when to come back, its facts what is true.

    Args:
        lane: The flow of the request.
        waiting: How many tickets of that flow wait.
        total: How many wait in all.
        wait_s: Seconds until the queue is expected to have a place for it.
        limits: The bounds in force.
    """
    by_lane = waiting >= limits.queue_per_lane
    full = f"lane '{lane}' has {waiting}" if by_lane else f"the box has {total}"
    bound = limits.queue_per_lane if by_lane else limits.queue_total
    retry_s = math.ceil(min(limits.retry_after_max_s, max(1.0, wait_s)))
    message = (
        f"The queue is full: {full} requests waiting, of at most {bound}. "
        f"A place is expected in {wait_s:.0f} s; try again after {retry_s} s."
    )
    facts: dict[str, Fact] = {
        "bound": "lane" if by_lane else "total",
        "limit": bound,
        "lane": lane,
        "waiting_of_lane": waiting,
        "waiting_total": total,
        "estimated_wait_s": round(wait_s, 3),
        "retry_after_s": retry_s,
    }
    return Refusal(429, "queue_full", message, facts, retry_s)


def expired() -> Refusal:
    """Return the refusal of a request whose deadline has passed."""
    return Refusal(504, "deadline_exceeded", "The request's deadline passed while it waited.")


def draining() -> Refusal:
    """Return the refusal of new work while the box finishes what it has."""
    message = (
        "This box takes no new work: it is being drained, for an upgrade most likely. "
        f"Try again in {DRAIN_RETRY_S:.0f} s, or ask another box."
    )
    return Refusal(503, "draining", message, {"retryable": True}, DRAIN_RETRY_S)


def nobody_serves(device: str) -> Refusal:
    """Return the refusal of a ticket whose device has had no worker for too long."""
    message = f"No worker serves {device}; see `fairlane status`."
    return Refusal(503, "device_unavailable", message, {"device": device, "retryable": True})


def too_big(model: str) -> Refusal:
    """Return the refusal of a row that the memory budget has no room for, whatever leaves."""
    message = (
        f"Model '{model}' does not fit into the memory budget beside the pinned rows; "
        "see `memory` in `fairlane status --json`, and the setting memory.budget_gib."
    )
    return Refusal(503, "model_not_usable", message, {"cause": "load_failed", "retryable": False})


def too_much(size: int, budget: int | None) -> Refusal:
    """Return the refusal of a hold that asks for more memory than can ever be free."""
    message = (
        f"{_gib(size)} are more than can ever be free: the memory budget is {_gib(budget or 0)}, "
        "less the pinned rows; see `memory` in `fairlane status --json`, and the setting memory.budget_gib."
    )
    return Refusal(400, "memory_exceeded", message, {"memory_bytes": size, "retryable": False})


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


_REMEDIES = {
    "template_mismatch": (
        "Its file is untouched: look at it with `fairlane template show`, then correct the row of the table "
        "or remove the file with `fairlane models rm {model}`"
    ),
    "load_failed": "See `fairlane status` and the log of its worker",
}
_PULL_REMEDY = "`fairlane pull {model}` tries again and shows how far it is"


def not_usable(model: str, cause: str, text: str, retry_s: float | None, limits: Limits) -> Refusal:
    """Return the refusal of a row that cannot be used, where nothing stands in; it says what to do.

    Args:
        model: The row.
        cause: A Reason, or template_mismatch.
        text: What is wrong, or a worker's whole sentence about it.
        retry_s: Seconds after which it may be better; None: that is not known.
        limits: The bounds in force.
    """
    said = (text or cause).rstrip(".")
    if not said.startswith(f"Model '{model}' "):
        said = f"Model '{model}' cannot be used: {said}"
    remedy = _REMEDIES.get(cause, _PULL_REMEDY).format(model=model)
    message = f"{said}. {remedy}."
    after_s = None
    if cause != "template_mismatch":
        after_s = float(math.ceil(min(limits.retry_after_max_s, max(1.0, retry_s or 5.0))))
    facts: dict[str, Fact] = {"cause": cause, "model": model, "retryable": after_s is not None}
    return Refusal(503, "model_not_usable", message, facts, after_s)


def worker_lost(device: str) -> Refusal:
    """Return the refusal of a ticket whose holder died once too often, or in mid-answer."""
    message = f"The worker of {device} was lost while it worked on this request."
    return Refusal(502, "worker_lost", message, {"device": device, "retryable": True})


def missing_of(asked: Asked, row: RowFacts) -> str:
    """Return what a row lacks to serve a request, or an empty text."""
    if not (asked.tools or asked.images or asked.json_schema):
        return ""
    needs = {
        "tools": asked.tools and not row.tools,
        "images": asked.images and not row.images,
        "response_format": asked.json_schema and not row.json_schema,
    }
    return ", ".join(name for name, lacking in needs.items() if lacking)
