"""The numbers the core obeys. Settings fill them; the defaults are architecture.md section 13's."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds and periods, all in seconds or counts."""

    queue_total: int = 256  # tickets waiting in all
    queue_per_lane: int = 64  # tickets waiting of one lane
    decide_s: float = 0.627  # a decision later than this falls open to the default model
    ack_s: float = 0.25  # a request that heard nothing for this long gets an ACK
    beat_s: float = 1.0  # heartbeat period of workers, and the core's own tick
    missed_beats: int = 3  # silent beats after which a worker counts as lost
    absent_s: float = 30.0  # a device without a worker for this long refuses what waits for it
    retries: int = 1  # a ticket whose worker died before the answer began is run again so often
    retry_after_max_s: float = 60.0  # clients ignore longer Retry-After values
    bindings: int = 4096  # conversations remembered in all
    bindings_per_lane: int = 1024  # conversations remembered of one lane
    binding_idle_s: float = 3600.0  # a conversation unused for this long is forgotten
    lanes: int = 64  # lane names with a flow of their own; later ones share `default`
    stories: int = 1000  # ended requests whose story is kept
    scorer_credit: int = 32  # decisions in flight at one scorer
