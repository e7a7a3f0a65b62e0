"""Rows that are left alone for a while because they could not be pulled or loaded.

Rules of this file: pure. A load is tried twice before its row rests, a pull once: trying again costs the
device a load, and the hub, which is not ours, a request for each of the box's requests.
"""

from msgspec import Struct

PAUSES_S = (5.0, 15.0, 60.0, 300.0)  # after the first failure too many, the second, ...


class Rest(Struct):
    """What failed of one row, and until when it is not tried again."""

    failures: int  # in a row
    failed_at: float
    until: float  # not after `failed_at`: it does not rest
    cause: str
    message: str


class Rests:
    """Failures by row; a row that serves has none."""

    def __init__(self) -> None:
        self.rows: dict[str, Rest] = {}

    def failed(self, model: str, cause: str, message: str, at: float, *, tries: int) -> bool:
        """Count a failure; return whether the row rests now.

        Args:
            model: The row.
            cause: What a stand-in says of it.
            message: For people.
            at: Now.
            tries: Failures in a row from which on it rests.
        """
        known = self.rows.get(model)
        failures = known.failures + 1 if known is not None else 1
        too_many = failures - tries
        pause_s = PAUSES_S[min(too_many, len(PAUSES_S) - 1)] if too_many >= 0 else 0.0
        self.rows[model] = Rest(failures, at, at + pause_s, cause, message)
        return pause_s > 0

    def of(self, model: str, at: float) -> Rest | None:
        """Return why a row rests now, or None."""
        rest = self.rows.get(model)
        return rest if rest is not None and rest.until > at else None

    def forget(self, model: str) -> None:
        """A row serves, or its files are others now."""
        self.rows.pop(model, None)
