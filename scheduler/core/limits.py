"""The numbers the core obeys. Settings fill them."""

from typing import Annotated

from msgspec import Meta, Struct

from policies.canary import Mode

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Period = Annotated[float, Meta(gt=0.0, le=86_400.0)]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and periods, all in seconds or counts."""

    queue_total: Count = 256  # tickets waiting in all
    queue_per_lane: Count = 64  # tickets waiting of one lane
    decide_s: Period = 0.627  # a decision later than this falls open to the default model
    decide_slow_s: Period = 10.0  # the same for a policy whose conditions call models
    call_s: Period = 15.0  # a policy is validated or kept within this, or the request is refused
    ack_s: Period = 0.25  # a request that heard nothing for this long gets an ACK
    beat_s: Period = 1.0  # heartbeat period of workers, and the core's own tick
    missed_beats: Count = 3  # silent beats after which a worker counts as lost
    absent_s: Period = 30.0  # a device without a worker for this long refuses what waits for it
    retries: Annotated[int, Meta(ge=0, le=10)] = (
        1  # a ticket whose worker died before the answer began is run again so often
    )
    collate_s: Annotated[float, Meta(ge=0.0, le=600.0)] = (
        10.0  # the fair head waits at most so much longer, to save a load or for a conversation's next turn
    )
    think_s: Annotated[float, Meta(ge=0.0, le=60.0)] = (
        3.0  # a conversation's slot is kept so long for its next turn
    )
    # no new grant on the iGPU from this Tctl on, in degrees Celsius; None: heat stops nothing
    stop_tctl_c: Annotated[float, Meta(ge=30.0, le=125.0)] | None = None
    # grants again below this; None: 10 degrees below the stop
    resume_tctl_c: Annotated[float, Meta(ge=20.0, le=125.0)] | None = None
    # a row unused for this long is unloaded, unless it names a ttl_s of its own or is pinned; None: never
    idle_unload_s: Period | None = None
    retry_after_max_s: Period = 60.0  # clients ignore longer Retry-After values
    bindings: Count = 4096  # conversations remembered in all
    bindings_per_lane: Count = 1024  # conversations remembered of one lane
    binding_idle_s: Period = 3600.0  # a conversation unused for this long is forgotten
    lanes: Count = 64  # lane names with a flow of their own; later ones share `default`
    stories: Count = 1000  # ended requests whose story is kept
    scorer_credit: Count = 32  # questions in hand of one helper
    call_credit: Count = 4  # those among them that are no decisions and may take long
    lease_s: Period = 20.0  # an outside holder that did not renew for this long has lost its lease
    lease_ack_s: Period = 3.0  # a granted lease is acknowledged within this, or taken back
    hold_s: Period = 600.0  # how long an outside holder may hold where it names no time
    hold_longest_s: Period = 86_400.0  # the longest time it may name
    hold_warn_s: Period = 30.0  # it is warned this long before its time is over
    kill_s: Period = 5.0  # what is told to end has this long before it is killed


class Npu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far the NPU is trusted."""

    # on_demand: on_busy moves nothing to it before a few tokens came out of it beside a busy GPU
    canary: Mode = "off"
    canary_s: Period = 120.0  # the row's load and the tokens take no longer, or they have failed
