"""Whether a row may be used now, and if not why. Pure."""

from msgspec import Struct

from policies.why import Reason, Why
from scheduler.core.box import Box
from scheduler.core.pulls import FAILED, MISMATCH, MISSING


class Fault(Struct, frozen=True):
    """What keeps a row from being used."""

    cause: str  # a Reason, or template_mismatch
    message: str
    can_pull: bool = False
    left_s: float | None = None  # how long it rests still; None: for good, or until it is pulled


def fault_of(box: Box, model: str, at: float) -> Fault | None:
    """Return what keeps a row from being used now; None: nothing that is known."""
    stock = box.pulls.stock.get(model)
    if stock is not None and stock.state == MISMATCH:
        return Fault(Why.TEMPLATE_MISMATCH, stock.reason)
    rest = box.rests.of(model, at) if box.rests.rows else None
    if rest is not None:
        return Fault(rest.cause, rest.message, left_s=rest.until - at)
    if stock is not None and stock.state in {MISSING, FAILED}:
        return Fault(Reason.PULL_FAILED, stock.reason, can_pull=True)
    return None
