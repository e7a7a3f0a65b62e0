"""When the box last woke from suspend, and when a device of it was last reset.

Rules of this file: pure; the instant of a reading is an argument; the state is a value of plain fields.
Nobody tells either as it happens. What can be read is a total that grows by it: seconds spent in suspend,
resets seen. A total that is not zero when it is first heard of has grown at an unknown time, and counts as
having grown just now: a minute of staying too much, rather than a move into clocks that have not settled.
"""

import msgspec


class Growing(msgspec.Struct):
    """One such total.

    Attributes:
        by: It has grown where it is so much larger than before, > 0; less is noise.
        last: What it was last; it begins anew where its teller does.
        grew_at: When it was seen to have grown last; `None`: never.
    """

    by: float
    last: float = 0.0
    grew_at: float | None = None

    def feed(self, at: float, total: float | None) -> None:
        """Take in one reading; an unknown one changes nothing.

        Args:
            at: When it was made, in seconds of the caller's clock.
            total: What it said; `None`: unknown.
        """
        if total is None:
            return
        if total - self.last >= self.by:
            self.grew_at = at
        self.last = total

    def since_s(self, at: float) -> float | None:
        """Return the seconds since it grew; `None`: it never did, as far as is known."""
        return None if self.grew_at is None else max(0.0, at - self.grew_at)
