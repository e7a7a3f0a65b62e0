"""A holder's side of a lease: ask, acknowledge, renew, notice when it is over.

Rules of this file: pure; time is an argument. `take` turns the broker's messages into turns of events,
`due` says what must be sent, `watch` looks at the holder's own clock. A lease is trusted for `ttl_s` from
the instant at which the renewal was sent that the broker answered, never from when the answer came, so it
ends here before it ends there.
"""

from enum import StrEnum

from msgspec import structs

from scheduler.wire import messages as wire

HELLO_S = 1.0
SILENT_S = (
    15.0  # a broker that said nothing for this long is not there; who only waits gives up then
)
_OWN_END_S = 7.0  # a holder ends its own group this long before its lease ends
_OWN_END_PART = 0.35  # and of a short lease no more than this part of it: 7 s of 20
_Ours = wire.Note | wire.Granted | wire.Warned | wire.Revoked | wire.Refused | wire.Final


class Turn(StrEnum):
    """What has happened to a hold."""

    BEGIN = "begin"  # the device is ours, and the broker knows that we know
    WARN = "warn"  # the longest time is nearly over
    LOST = "lost"  # the lease is over: what uses the device must end
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    OVER = "over"  # the release has arrived


class Stage(StrEnum):
    """Where a hold is."""

    ASKING = "asking"
    GRANTED = "granted"  # acknowledged, and not answered yet
    HELD = "held"
    LOST = "lost"
    OVER = "over"


class Holding:
    """One hold, from asking to release."""

    def __init__(self, request: wire.Hold, at: float) -> None:
        """Begin to ask."""
        self._request = request
        self._out: list[wire.Message] = [request]
        self._boot: int | None = None
        self._heard_at = at
        self._hello_at = at
        self._renew_at = at
        self._sent_at: float | None = None  # when the oldest renewal was sent that is not answered
        self._good_until = at
        self._ttl_s = 0.0
        self.stage = Stage.ASKING
        self.lease: int = 0
        self.grace_s = 5.0
        self.max_hold_s = 0.0
        self.left_s = 0.0  # until the end of the longest time, as it was when it was warned
        self.place: wire.Note | None = None  # while it waits: where it stands
        self.refused: wire.Refused | None = None
        self.reason = ""  # why the lease was lost

    @property
    def id(self) -> str:
        """The hold's name."""
        return self._request.id

    @property
    def own_end_at(self) -> float:
        """When this holder ends its group, unless a renewal is answered before."""
        return self._good_until - min(_OWN_END_S, _OWN_END_PART * self._ttl_s)

    def next_deadline(self) -> float:
        """Return the instant at which `due` or `watch` has something to say."""
        due = self._hello_at
        if self.stage in {Stage.GRANTED, Stage.HELD}:
            due = min(due, self._renew_at, self.own_end_at)
        return due

    def due(self, at: float) -> list[wire.Message]:
        """Return the messages that must be sent now."""
        if at >= self._hello_at:
            self._hello_at = at + HELLO_S
            self._out.append(wire.Hello())
        if self.stage in {Stage.GRANTED, Stage.HELD} and at >= self._renew_at:
            self._renew(at)
        out, self._out = self._out, []
        return out

    def watch(self, at: float) -> Turn | None:
        """Return what the clock alone tells."""
        if self.stage is Stage.ASKING and at - self._heard_at > SILENT_S:
            self.stage = Stage.OVER
            return Turn.UNREACHABLE
        if self.stage in {Stage.GRANTED, Stage.HELD} and at >= self.own_end_at:
            return self._lose("the broker did not answer in time")
        return None

    def take(self, message: wire.Message, at: float) -> Turn | None:
        """Take in a message of the broker; return what has happened by it."""
        self._heard_at = at
        if isinstance(message, wire.Here):
            self._here(message.boot)
        elif isinstance(message, _Ours) and message.id == self.id:
            return self._told(message, at)
        return None

    def _told(self, message: _Ours, at: float) -> Turn | None:
        turn: Turn | None = None
        match message:
            case wire.Note():
                self.place = message
            case wire.Granted():
                turn = self._granted(message, at)
            case wire.Warned() if self.stage is Stage.HELD and message.lease == self.lease:
                self.left_s, turn = message.left_s, Turn.WARN
            case wire.Revoked() if message.lease >= self.lease:
                turn = self._lose(message.reason)
            case wire.Refused() if self.stage is Stage.ASKING:
                self.stage, self.refused, turn = Stage.OVER, message, Turn.REFUSED
            case wire.Final():
                self.stage, turn = Stage.OVER, Turn.OVER
            case _:
                pass
        return turn

    def release(self) -> None:
        """Give the device back, or the place in the queue. All that used the device must have ended."""
        if self.stage in {Stage.ASKING, Stage.GRANTED}:
            self._out.append(wire.Cancel(self.id))
        elif self.stage in {Stage.HELD, Stage.LOST}:
            self._out.append(wire.Release(self.id, self.lease))
        self.stage = Stage.OVER

    def is_farewell(self, message: wire.Message) -> bool:
        """Return whether a message says that the broker has heard the release."""
        return (
            isinstance(message, wire.Final | wire.Revoked | wire.Refused) and message.id == self.id
        )

    def _granted(self, grant: wire.Granted, at: float) -> Turn | None:
        if self.stage in {Stage.LOST, Stage.OVER} or grant.lease < self.lease:
            return None
        self._ttl_s, self.max_hold_s, self.grace_s = grant.ttl_s, grant.max_hold_s, grant.grace_s
        if grant.lease != self.lease:  # a new one: it counts once it is acknowledged
            if self.stage is Stage.ASKING:
                self.stage, self._good_until = Stage.GRANTED, at + grant.ttl_s
            self.lease, self._sent_at = grant.lease, None
            self._renew(at)
            return None
        if self._sent_at is not None:
            self._good_until, self._sent_at = self._sent_at + grant.ttl_s, None
        if self.stage is Stage.GRANTED:
            if at >= self.own_end_at:  # we slept meanwhile, and the device may be another's by now
                return self._lose("the grant was heard too late")
            self.stage = Stage.HELD
            return Turn.BEGIN
        return None

    def _renew(self, at: float) -> None:
        self._out.append(wire.Renew(self.id, self.lease))
        self._renew_at = at + self._ttl_s / 4
        if self._sent_at is None:
            self._sent_at = at

    def _here(self, boot: int) -> None:
        """Say again what we hold or wait for, to a broker that cannot know it."""
        is_new = self._boot is not None and boot != self._boot
        self._boot = boot
        if self.stage is Stage.ASKING and is_new:
            self._out.append(self._request)
        elif self.stage in {Stage.GRANTED, Stage.HELD} and boot != self.lease >> 32:
            self._out.append(structs.replace(self._request, lease=self.lease))

    def _lose(self, reason: str) -> Turn | None:
        if self.stage in {Stage.LOST, Stage.OVER}:
            return None
        self.stage, self.reason = Stage.LOST, reason
        return Turn.LOST
