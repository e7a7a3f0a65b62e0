"""Situations for the on_busy rule, and a second, naive reading of it.

The reading was written from the contract's list alone: one flat list of claims in its order, all of them
looked at, the first that is true decides.
"""

from typing import NamedTuple

from policies.on_busy import Asking, GpuView, NpuView, Placement
from policies.row import OnBusy

ME = "me"


class Case(NamedTuple):
    """One situation in plain words; defaults are the case in which nothing happens."""

    has_rule: bool = True
    class_: str = "long_doc"
    allow_interactive: bool = False
    keeps: bool = False  # bound by an assistant turn, or granted before
    held: tuple[str, ...] = ()  # lanes of the tickets that hold a seat
    waiting: tuple[str, ...] = ()  # lanes of the tickets that wait
    queue_depth: int | None = 1
    wait_s: float = 0.0
    waited_s: float = 0.0
    busy_ratio: float | None = None
    outside: bool = False
    tctl_c: float | None = None
    hot: bool | None = False
    uptime_s: float | None = 3600.0
    since_resume_s: float | None = None
    since_reset_s: float | None = None
    npu: str = "healthy"
    faster: str = "off"  # off, or how the NPU compares: faster, equal, slower, unlearned
    max_prompt_tokens: int | None = None
    prompt_tokens: float = 1000.0


NPUS = {
    "healthy": NpuView(healthy=True, on_disk=True),
    "passed": NpuView(healthy=True, on_disk=True, canary_required=True, canary_passed=True),
    "absent": NpuView(),
    "dead": NpuView(on_disk=True),
    "not on disk": NpuView(healthy=True),
    "quarantined": NpuView(healthy=True, on_disk=True, quarantined=True),
    "unable": NpuView(healthy=True, on_disk=True, missing="tools"),
    "no canary": NpuView(healthy=True, on_disk=True, canary_required=True),
    "quarantined and unable": NpuView(healthy=True, on_disk=True, quarantined=True, missing="ctx"),
    "unable, no canary": NpuView(healthy=True, on_disk=True, missing="x", canary_required=True),
}
# seconds: NPU wait, NPU run, GPU wait, GPU run
TIMES: dict[str, tuple[float, float | None, float, float | None]] = {
    "off": (0.0, 9e9, 0.0, 0.0),
    "faster": (1.0, 20.0, 18.0, 4.0),
    "equal": (1.0, 20.0, 17.0, 4.0),
    "slower": (1.0, 21.0, 17.0, 4.0),
    "unlearned": (0.0, None, 9e9, 4.0),
    "faster than the wait": (1.0, 20.0, 22.0, None),
    "slower than the wait": (1.0, 20.0, 21.0, None),
}


def judged(case: Case) -> tuple[OnBusy | None, Asking, GpuView, NpuView]:
    """Return the case as `judge` takes it."""
    npu_wait, npu_run, gpu_wait, gpu_run = TIMES[case.faster]
    rule = OnBusy(
        device="npu",
        model="N",
        queue_depth=case.queue_depth,
        tctl_c=case.tctl_c,
        wait_s=case.wait_s,
        busy_ratio=case.busy_ratio,
        only_if_faster=case.faster != "off",
        max_prompt_tokens=case.max_prompt_tokens,
        allow_interactive=case.allow_interactive,
    )
    asking = Asking(
        class_=case.class_,
        keeps=case.keeps,
        prompt_tokens=case.prompt_tokens,
        waited_s=case.waited_s,
    )
    gpu = GpuView(
        held_by_others=sum(lane != ME for lane in case.held),
        waiting_by_others=sum(lane != ME for lane in case.waiting),
        hot=case.hot,
        outside_busy=case.outside,
        uptime_s=case.uptime_s,
        since_resume_s=case.since_resume_s,
        since_reset_s=case.since_reset_s,
        wait_s=gpu_wait,
        run_s=gpu_run,
    )
    npu = NPUS[case.npu]
    view = NpuView(
        healthy=npu.healthy,
        on_disk=npu.on_disk,
        quarantined=npu.quarantined,
        missing=npu.missing,
        canary_required=npu.canary_required,
        canary_passed=npu.canary_passed,
        wait_s=npu_wait,
        run_s=npu_run,
    )
    return (rule if case.has_rule else None), asking, gpu, view


def naive(case: Case) -> str:
    """Return what the contract says of a case, in the words of `spoken`."""
    others = [lane for lane in (*case.held, *case.waiting) if lane != ME]
    deep = case.queue_depth is not None and len(others) >= case.queue_depth
    busy_now = (deep and case.waited_s >= case.wait_s) or (
        case.busy_ratio is not None and case.outside
    )
    hot = case.hot if case.tctl_c is not None else False
    recent = [s for s in (case.uptime_s, case.since_resume_s, case.since_reset_s) if s is not None]
    fires = busy_now or hot is True
    loses = {"equal", "slower", "unlearned", "slower than the wait"}
    limit = case.max_prompt_tokens
    claims = [
        (not case.has_rule or case.keeps, "stay"),
        (case.class_ in {"short", "code"} and not case.allow_interactive, "stay"),
        (not deep and not busy_now and hot is False, "stay"),
        (any(s < 60 for s in recent), "suppressed warmup"),
        (case.uptime_s is None, "suppressed sensor_unknown"),
        (case.npu in {"absent", "dead", "not on disk"}, "suppressed npu_unavailable"),
        (case.npu.startswith("quarantined"), "suppressed npu_quarantined"),
        (case.npu.startswith("unable"), "suppressed capability"),
        (case.npu == "no canary", "suppressed npu_canary"),
        (fires and case.faster in loses, "suppressed slower"),
        (fires and limit is not None and case.prompt_tokens > limit, "suppressed too_long"),
        (busy_now, "move gpu_busy"),
        (hot is True, "move gpu_hot"),
        (deep, f"again {case.wait_s - case.waited_s:g}"),
        (hot is None, "suppressed sensor_unknown"),
    ]
    return next(said for true, said in claims if true)


def spoken(placement: Placement) -> str:
    """Return a placement in words; each has exactly one form."""
    forms = []
    if placement.move or placement.why is not None:
        assert placement.move
        forms.append(f"move {placement.why}")
    if placement.suppressed is not None:
        forms.append(f"suppressed {placement.suppressed}")
    if placement.again_in_s is not None:
        assert placement.again_in_s > 0
        forms.append(f"again {placement.again_in_s:g}")
    assert len(forms) <= 1
    return forms[0] if forms else "stay"
