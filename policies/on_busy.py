"""The on_busy rule: whether a conversation that starts on a busy or hot GPU starts on the NPU instead.

Rules of this file: a pure function of values. What the device is doing, how long ago the box booted and
what an NPU row can do are handed in; nothing is remembered here. The rule is judged where a conversation
is bound and nowhere else, so a conversation never changes device because of it.

A suppression is said only where the rule would have moved the conversation, or may have: where the load or
heat test holds, waits for its time, or cannot be made. In an idle and cool box there is no move to suppress,
and counting one for each conversation of the first minute would bury the ones that mean something.
"""

import msgspec

from policies.row import INTERACTIVE, OnBusy
from policies.why import Suppressed, Why

# After a boot, a resume or a reset models load and clocks settle: what is measured says nothing yet.
WARMUP_S = 60.0
# Two sums of the same seconds may differ in their last digits.
_SAME_INSTANT_S = 1e-6


class Asking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request as the rule sees it.

    Attributes:
        class_: Its class.
        keeps: Its placement stands: it continues a conversation, or its ticket has been granted.
        prompt_tokens: Expected length of its prompt, in tokens.
        waited_s: How long its ticket has waited in the GPU's queue, in seconds; 0 when it is bound.
    """

    class_: str
    keeps: bool
    prompt_tokens: float
    waited_s: float = 0.0


class GpuView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The device that the class's row runs on, as the asking lane meets it.

    Attributes:
        held_by_others: Tickets of other lanes that hold a seat.
        waiting_by_others: Tickets of other lanes in its queue; one whose row is being pulled is none.
        hot: As `policies.heat` says for this rule's lines; `None`: unknown, neither hot nor cool.
        outside_busy: As `policies.load` says for this rule's `busy_ratio`.
        uptime_s: Seconds since the box booted, suspended time included; `None`: unknown.
        since_resume_s: Seconds since it woke from suspend; `None`: it never did.
        since_reset_s: Seconds since the GPU or the NPU was reset; `None`: never.
        wait_s: Expected time until this request would start here, in seconds.
        run_s: Expected time it would then take, load included, in seconds; `None`: nothing learned,
            and then the wait alone must be longer than the NPU's time where that is asked.
    """

    held_by_others: int = 0
    waiting_by_others: int = 0
    hot: bool | None = None
    outside_busy: bool = False
    uptime_s: float | None = None
    since_resume_s: float | None = None
    since_reset_s: float | None = None
    wait_s: float = 0.0
    run_s: float | None = None


class NpuView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The rule's NPU row, as this request would meet it.

    Attributes:
        healthy: A live worker serves its device.
        on_disk: Its file is there and its template verified; the rule never starts a pull.
        quarantined: As `policies.quarantine` says; false also where this request may be the probe.
        missing: What the row lacks to serve the request, context length included; empty: nothing.
        canary_required: The settings ask for a canary.
        canary_passed: One has passed under the versions that run.
        wait_s: Expected time until the request would start there, in seconds.
        run_s: Expected time it would then take, load included, in seconds; `None`: nothing learned.
    """

    healthy: bool = False
    on_disk: bool = False
    quarantined: bool = False
    missing: str = ""
    canary_required: bool = False
    canary_passed: bool = False
    wait_s: float = 0.0
    run_s: float | None = None


class Placement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the rule says.

    Attributes:
        move: Whether the conversation starts on the NPU row.
        why: Why it does; `None` where it stays.
        suppressed: Why it stays although it would have moved; `None` where there was no reason to.
        again_in_s: Not final: judge again if the ticket is still waiting after so many seconds, > 0.
    """

    move: bool = False
    why: Why | None = None
    suppressed: Suppressed | None = None
    again_in_s: float | None = None


STAY = Placement()


def judge(rule: OnBusy | None, asking: Asking, gpu: GpuView, npu: NpuView) -> Placement:
    """Place a conversation.

    1. No rule, or the placement stands: no change.
    2. An interactive class that has not allowed it: no change. The table's check refuses such a rule.
    3. The box is warming up: stay.
    4. The NPU row cannot be used: stay.
    5. The GPU is busy: move, at the latest test of it after `wait_s` in the queue.
    6. The GPU is hot: move.
    7. The move would not be faster, or the prompt is too long: stay after all.

    What 5 and 6 find is looked at first, because 3 and 4 have nothing to say where neither would move.
    """
    if rule is None or asking.keeps:  # 1
        return STAY
    if asking.class_ in INTERACTIVE and not rule.allow_interactive:  # 2
        return STAY
    found = _load_or_heat(rule, asking, gpu)
    if found == STAY:
        return STAY
    barred = _warming_up(gpu) or _unusable(npu)  # 3, 4
    if barred is not None:
        return Placement(suppressed=barred)
    if not found.move:
        return found
    refused = _refused(rule, asking, gpu, npu)
    return found if refused is None else Placement(suppressed=refused)


def _load_or_heat(rule: OnBusy, asking: Asking, gpu: GpuView) -> Placement:
    """Return what load and heat alone ask for (5 and 6)."""
    others = gpu.held_by_others + gpu.waiting_by_others
    queued = rule.queue_depth is not None and others >= rule.queue_depth
    left_s = rule.wait_s - asking.waited_s
    # Load from outside has lasted already, and holds no ticket that this one could wait behind.
    outside = rule.busy_ratio is not None and gpu.outside_busy
    if (queued and left_s <= _SAME_INSTANT_S) or outside:
        return Placement(move=True, why=Why.GPU_BUSY)
    if rule.tctl_c is not None and gpu.hot:
        return Placement(move=True, why=Why.GPU_HOT)
    if queued:
        return Placement(again_in_s=left_s)
    if rule.tctl_c is not None and gpu.hot is None:
        return Placement(suppressed=Suppressed.SENSOR_UNKNOWN)
    return STAY


def _warming_up(gpu: GpuView) -> Suppressed | None:
    """Return why it is too early.

    A box whose uptime nobody has told stays where it is: before the sensors' first word it may well be in
    its first minute.
    """
    events = (gpu.uptime_s, gpu.since_resume_s, gpu.since_reset_s)
    if any(since is not None and since < WARMUP_S for since in events):
        return Suppressed.WARMUP
    return Suppressed.SENSOR_UNKNOWN if gpu.uptime_s is None else None


def _unusable(npu: NpuView) -> Suppressed | None:
    if not (npu.healthy and npu.on_disk):
        return Suppressed.NPU_UNAVAILABLE
    if npu.quarantined:
        return Suppressed.NPU_QUARANTINED
    if npu.missing:
        return Suppressed.CAPABILITY
    if npu.canary_required and not npu.canary_passed:
        return Suppressed.NPU_CANARY
    return None


def _refused(rule: OnBusy, asking: Asking, gpu: GpuView, npu: NpuView) -> Suppressed | None:
    """Return what the rule's own further terms object to.

    Only a learned figure shows that a move is faster: first guesses are the same for every device, so by
    them the NPU would always win against a queue.
    """
    if rule.only_if_faster:
        gpu_s = gpu.wait_s + (gpu.run_s or 0.0)
        if npu.run_s is None or npu.wait_s + npu.run_s >= gpu_s:
            return Suppressed.SLOWER
    if rule.max_prompt_tokens is not None and asking.prompt_tokens > rule.max_prompt_tokens:
        return Suppressed.TOO_LONG
    return None
