"""What happened how often and took how long, counted as it happens, for `/metrics`.

Rules of this file: it decides nothing and nothing is decided by it. It is not frozen: a broker's counters
begin anew with its start, which whoever scrapes reads as a reset; a sum that was restored a little short
would read as a reset too, and all of it as new. What the box counts anyway (`counts`, costs, crashes) is
taken from there.

A request pays one call at its end. Sums by lane are bounded as the flows are, all others by closed sets.
"""

from bisect import bisect_left

from policies.why import Reason, Why
from scheduler.core.events import Finished
from scheduler.core.ticket import State, Ticket

# One answer of 512 tokens holds a seat for about 33 s, and a request may wait for 600: upper bounds, seconds.
WAIT_BUCKETS = (0.1, 1.0, 5.0, 20.0, 60.0, 180.0, 600.0)
ANSWER_BUCKETS = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 600.0,
)  # fmt: skip
DECISION_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.627, 2.0)
LOAD_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 600.0)
PULL_BUCKETS = (1.0, 5.0, 20.0, 60.0, 180.0, 600.0, 1800.0, 3600.0)
CANCEL_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 20.0, 600.0)

_BUSY_PERCENT = 50.0  # from here on the GPU's own counter calls it busy
ANSWERED = "answered"
# How a request may have ended, by the outcome or code that its record has; any other by its status.
OUTCOME_OF = {
    "decided": "decided",
    "served": "served",
    "pulled": "served",
    "released": "released",
    "cancelled": "client_gone",
    "client_gone": "client_gone",
    "max_hold": "hold_lost",
    "lease_lost": "hold_lost",
    "unacknowledged": "hold_lost",
    "released_by_another": "hold_lost",
    "queue_full": "queue_full",
    "deadline_exceeded": "deadline_exceeded",
    "worker_lost": "worker_lost",
    "device_unavailable": "device_unavailable",
    "model_not_usable": "model_not_usable",
    "draining": "draining",
}
OUTCOMES = (ANSWERED, *dict.fromkeys(OUTCOME_OF.values()), "bad_request", "failed")
COUNTER_SAYS = ("busy", "idle")
PULL_FAULTS = (Reason.PULL_FAILED, Why.TEMPLATE_MISMATCH)
OTHER = "other"


class Histogram:
    """Values by their size."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds  # upper ones, inclusive
        self.counts = [0] * (len(bounds) + 1)  # the last one is beyond all bounds
        self.total = 0.0

    def take(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class LaneSums:
    """What one lane had of one device."""

    __slots__ = ("answered", "cached", "computed", "output", "served_s", "waits", "waits_s")

    def __init__(self) -> None:
        self.waits = [0] * (len(WAIT_BUCKETS) + 1)  # from queueing to the seat
        self.waits_s = 0.0
        self.served_s = 0.0  # device-seconds on seats, of tickets that left them
        self.answered = 0
        self.computed = self.cached = self.output = 0  # tokens


class DeviceSums:
    """What one device did, device-seconds."""

    __slots__ = (
        "decode_s", "idle_s", "lanes", "load_s", "loads", "lost_s", "other_s", "outside_s", "prefill_s",
        "reprefill_s", "since",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lanes: dict[str, LaneSums] = {}
        self.load_s = self.prefill_s = self.decode_s = 0.0
        self.reprefill_s = (
            0.0  # prompts of conversations that go on, of which the engine had nothing
        )
        self.lost_s = 0.0  # of tickets that left their seats without an answer
        self.outside_s = 0.0  # held by programs of outside lanes
        self.other_s = 0.0  # answers of engines that tell no times
        self.loads = Histogram(LOAD_BUCKETS)
        self.idle_s: dict[str, float] = {}  # reason -> wall seconds idle while tickets wait
        self.since = (0.0, 0.0)  # the device's busy and think time when this began

    def phases(self) -> dict[str, float]:
        """Return what device-seconds of tickets that left their seats went into."""
        return {
            "load": self.load_s,
            "prefill": self.prefill_s,
            "reprefill": self.reprefill_s,
            "decode": self.decode_s,
            "lost": self.lost_s,
            "outside": self.outside_s,
            "other": self.other_s,
        }


class ModelSums:
    """How one row's answers came."""

    __slots__ = ("first", "took")

    def __init__(self) -> None:
        self.took = Histogram(ANSWER_BUCKETS)
        self.first = Histogram(ANSWER_BUCKETS)


class Tally(dict[tuple[str, ...], float]):
    """Sums by their labels."""

    def add(self, *labels: str, by: float = 1) -> None:
        """Add to one."""
        self[labels] = self.get(labels, 0) + by


class Meter:
    """The counters of one start of the broker."""

    def __init__(self, kinds: list[str]) -> None:
        """Begin at zero.

        Args:
            kinds: Of devices; a ticket names its device by its kind.
        """
        self.devices = {kind: DeviceSums() for kind in kinds}
        self.models: dict[str, ModelSums] = {}
        self.ends = Tally()  # lane, outcome; the answered ones are in the sums of lanes
        self.decisions = Tally()  # class, kind of device, why, outcome
        self.decided = Histogram(DECISION_BUCKETS)
        self.fallbacks = Tally()  # from, to, why
        self.cancels = Tally()  # stage
        self.cancelled = Histogram(CANCEL_BUCKETS)
        self.requeues = Tally()  # reason
        self.loads_failed = Tally()  # kind of device
        self.pulls = Tally()  # result
        self.pulling = Histogram(PULL_BUCKETS)  # of those that ended well
        self.swaps = Tally()  # name of the device, reason
        self.starts = Tally()  # kind of worker
        self.losses = Tally()  # kind of worker
        self.energy_j = Tally()  # kind of device
        self.disagreed_s = Tally()  # COUNTER_SAYS, against the tickets
        self.moved_s = self.alternative_s = 0.0  # NPU time of moved answers, and of the GPU instead
        self.signs: dict[int, float] = {}  # streamed ticket -> its answer's last piece

    # --- a request's end: the one call that every answer pays for -------------------------------------

    def answered(self, ticket: Ticket, done: Finished, device_s: float) -> None:
        """A request has its answer.

        Args:
            ticket: On its seat until now.
            done: What its worker said.
            device_s: Device-seconds that it held.
        """
        sums, asked = self.devices[ticket.device], ticket.asked
        lane = sums.lanes.get(ticket.lane) or self._lane(ticket.device, ticket.lane)
        wait_s = ticket.granted_at - ticket.queued_at
        lane.waits[bisect_left(WAIT_BUCKETS, wait_s)] += 1
        lane.waits_s += wait_s
        lane.served_s += device_s
        lane.answered += 1
        lane.output += done.output_tokens
        model = self.models.get(ticket.model) or self._model(ticket.model)
        took_s = done.at - asked.at
        took = model.took
        took.counts[bisect_left(ANSWER_BUCKETS, took_s)] += 1
        took.total += took_s
        if ticket.ttft_s is not None:
            model.first.take(ticket.ttft_s)
        if done.ttft_s is None and done.load_s is None:
            sums.other_s += device_s
        else:
            lane.computed += done.prompt_tokens - done.cached_tokens
            lane.cached += done.cached_tokens
            self._split(sums, ticket, done, device_s)
        if self.signs:
            self.signs.pop(ticket.number, None)
        if ticket.gpu_s is not None:
            self.moved_s += done.at - ticket.moved_at
            self.alternative_s += ticket.gpu_s

    def _split(self, sums: DeviceSums, ticket: Ticket, done: Finished, device_s: float) -> None:
        """Say what a ticket's device-seconds went into, by what its worker measured on the clock."""
        held_s = done.at - ticket.granted_at
        part = device_s / held_s if held_s > 0.0 else 0.0
        load_s = 0.0
        if done.load_s is not None:
            sums.loads.take(done.load_s)
            load_s = min(device_s, done.load_s * part)
            sums.load_s += load_s
        if done.ttft_s is None:
            sums.other_s += device_s - load_s
            return
        prefill_s = max(0.0, min(device_s, done.ttft_s * part) - load_s)
        if ticket.asked.starts or done.cached_tokens:
            sums.prefill_s += prefill_s
        else:
            sums.reprefill_s += prefill_s
        sums.decode_s += device_s - load_s - prefill_s

    def left(self, ticket: Ticket, device_s: float) -> None:
        """A ticket has left its seat without an answer; it ends now, or waits again.

        Args:
            ticket: It.
            device_s: Device-seconds that it held.
        """
        sums = self.devices[ticket.device]
        lane = self._lane(ticket.device, ticket.lane)
        wait_s = ticket.granted_at - ticket.queued_at
        lane.waits[bisect_left(WAIT_BUCKETS, wait_s)] += 1
        lane.waits_s += wait_s
        lane.served_s += device_s
        if ticket.hold is not None:
            sums.outside_s += device_s
        else:
            sums.lost_s += device_s
        self.signs.pop(ticket.number, None)

    def ended(self, ticket: Ticket, at: float, outcome: str, done: Finished | None) -> None:
        """A request has ended without an answer, or was none that holds a seat.

        Args:
            ticket: In the state that it ended in.
            at: Now.
            outcome: One of OUTCOMES.
            done: What its worker said, if it did.
        """
        drains = ticket.state is State.DRAINING and ticket.hold is None
        self.ends.add(ticket.lane, "client_gone" if drains else outcome)
        if done is not None:
            lane = self._lane(ticket.device, ticket.lane)
            lane.computed += done.prompt_tokens - done.cached_tokens
            lane.cached += done.cached_tokens
            lane.output += done.output_tokens
        if drains:
            left_at = next(at for at, what, _ in reversed(ticket.story) if what == State.DRAINING)
            self.cancelled.take(at - left_at)

    def _lane(self, kind: str, lane: str) -> LaneSums:
        return self.devices[kind].lanes.setdefault(lane, LaneSums())

    def _model(self, model: str) -> ModelSums:
        return self.models.setdefault(model, ModelSums())

    def pulled(self, cause: str, seconds: float) -> None:
        """A pull has ended, well or for a cause."""
        self.pulls.add(cause if cause in PULL_FAULTS else "failed" if cause else "ok")
        if not cause:
            self.pulling.take(seconds)

    def since(self, times: dict[str, tuple[float, float]]) -> None:
        """Begin at zero beside devices that go on: their busy and think time so far is another start's."""
        for kind, time_s in times.items():
            self.devices[kind].since = time_s

    # --- once a second --------------------------------------------------------------------------------

    def burned(self, kind: str, watts: float | None, for_s: float) -> None:
        """A device's own power over the last seconds; unknown adds nothing."""
        if watts is not None and kind in self.devices:
            self.energy_j.add(kind, by=watts * for_s)

    def checked(self, busy_percent: float | None, for_s: float, *, held: bool) -> None:
        """The GPU's own counter over the last seconds, held against the tickets; unknown adds nothing."""
        if busy_percent is not None and (busy_percent >= _BUSY_PERCENT) != held:
            self.disagreed_s.add("idle" if held else "busy", by=for_s)

    def idled(self, kind: str, reason: str, for_s: float) -> None:
        """A device was idle while tickets waited for it."""
        idle_s = self.devices[kind].idle_s
        idle_s[reason] = idle_s.get(reason, 0.0) + for_s


def outcome_of(outcome: str, status: int = 0) -> str:
    """Return one of OUTCOMES."""
    known = OUTCOME_OF.get(outcome)
    if known is not None:
        return known
    return "bad_request" if 400 <= status < 500 else "failed"
