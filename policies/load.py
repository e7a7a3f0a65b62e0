"""Load on the GPU that holds no ticket: somebody works there who has never asked the queue.

Rules of this file: pure; the instant of a reading is an argument; the state is a value of plain fields.

The kernel's busy counter alone is no witness: with two idle resident compute processes it reads 100 percent
for ever. What such a pin cannot fake is power, so load counts only where

 1. no ticket is held: what a ticket does is known already;
 2. the counter has been at the rule's ratio for five readings in a row;
 3. the socket drew well more than in idleness all that time.

Idleness is learned as the lowest power that the socket kept to over five readings in a row, since this state
began. A load that is there from the first reading on is therefore not seen until it has once ended, and a
socket whose idle power rises later keeps the lower figure: the first errs towards staying, the second
towards moving, and the ratio has to agree either way.
"""

import msgspec

from policies.heat import APART_S, FRESH_S, GPU_IDLE_W

# Readings in a row, one a second: an idle socket shows single spikes of 39 W over 25.
_SUSTAINED = 5
# Two idle processes pin the counter at about 30 W where 6 to 8 are idle, which is 24 above; a model that
# decodes draws 45 and more above.
MARGIN_W = 35.0


class Load(msgspec.Struct):
    """What is known of load from outside the queue.

    Attributes:
        ratio: Busy from here on, 0 to 1.
        busy: Readings in a row that showed it, counted up to what is needed.
        powers: The last readings of socket power in watts, oldest first, as many as are looked at.
        idle_w: The socket's power in idleness; `None`: nothing learned.
        read_at: When the last reading was made; `None`: there was none.
    """

    ratio: float
    busy: int = 0
    powers: list[float] = []
    idle_w: float | None = None
    read_at: float | None = None

    def feed(
        self,
        read_at: float,
        busy: float | None,
        socket_w: float | None,
        gfx_w: float | None,
        *,
        held: bool,
    ) -> None:
        """Take in one set of readings; one that is not newer than the last changes nothing.

        Args:
            read_at: When the oldest of them was made, in seconds of the caller's clock.
            busy: What the kernel's counter says, 0 to 1; `None`: unknown.
            socket_w: Power of the whole socket in watts; `None`: unknown.
            gfx_w: Power of the GPU in it in watts; `None`: unknown, and not asked for. Known and next to
                nothing, it says that the power is the cores'.
            held: Whether any lane held a ticket for the device.
        """
        if self.read_at is not None and read_at - self.read_at < APART_S:
            return
        if self.read_at is not None and read_at - self.read_at > FRESH_S:
            self.busy, self.powers = 0, []
        self.read_at = read_at
        self.powers = [] if socket_w is None else [*self.powers, socket_w][-_SUSTAINED:]
        if len(self.powers) == _SUSTAINED:
            kept_to = max(self.powers)
            self.idle_w = kept_to if self.idle_w is None else min(self.idle_w, kept_to)
        working = (
            not held
            and busy is not None
            and busy >= self.ratio
            and self.idle_w is not None
            and socket_w is not None
            and socket_w >= self.idle_w + MARGIN_W
            and (gfx_w is None or gfx_w >= GPU_IDLE_W)
        )
        self.busy = min(_SUSTAINED, self.busy + 1) if working else 0

    def is_busy(self, at: float) -> bool:
        """Return whether somebody outside the queue keeps the GPU busy now, as far as is known."""
        fresh = self.read_at is not None and at - self.read_at <= FRESH_S
        return fresh and self.busy >= _SUSTAINED
