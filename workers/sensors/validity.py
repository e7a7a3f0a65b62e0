"""What can be believed of a value, and why not.

Rules of this file: pure; time is an argument. Unknown is neither hot nor cool: a value that cannot be true
becomes None with one reason, and the reason is counted. What cannot be told from the value alone - a busy
percentage that is pinned by resident processes - is not judged here.
"""

from collections import deque

from scheduler.wire.words import Reading
from workers.sensors.raw import ALL_ONES, Raw, Reason
from workers.sensors.specs import HOT_MAX_C, SPECS, WORDS, Spec

STALE_S = 3.0  # a value read longer ago tells nothing of now
FROZEN_S = 60.0  # this long the same raw value ..
MOVED_W = 5.0  # .. while the socket's power moved by more than this
_SENTINEL = 0xFFFF
_WORD_MAX = 64  # characters of what a file calls itself; the wire carries no more than 128


class Judge:
    """Judges values as they come, second by second; remembers just enough to see what is frozen."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, Reason], int] = {}  # (name, reason) -> seconds unknown for it
        self._powers: deque[tuple[float, float]] = deque()  # (at, W) of the last FROZEN_S
        self._same: dict[str, tuple[float | str, float]] = {}  # name -> raw value, since when
        self._frozen: set[str] = set()  # until the value changes

    def powered(self, watts: float | None, at: float) -> None:
        """Take in the socket's power, before the readings of the same second; None: unknown."""
        if watts is not None:
            self._powers.append((at, watts))
        while self._powers and self._powers[0][0] < at - FROZEN_S:
            self._powers.popleft()

    def judge(self, name: str, raw: Raw, read_at: float, at: float) -> Reading:
        """Return a reading.

        Args:
            name: One of SPECS.
            raw: What its source gave.
            read_at: When that was read.
            at: Now; of the same clock.
        """
        spec = SPECS[name]
        value, reason = in_unit(name, spec, raw)
        if reason is None and at - read_at > STALE_S:
            reason = Reason.STALE
        if reason is None and spec.may_freeze and raw.value is not None:
            reason = self._freezes(name, raw.value, at)
        return self.reading(name, value, raw, max(0.0, at - read_at), reason)

    def reading(
        self, name: str, value: float | str | None, raw: Raw, age_s: float, reason: Reason | None
    ) -> Reading:
        """Return a judged value as a reading, and count why it is unknown."""
        if reason is not None:
            self.counts[name, reason] = self.counts.get((name, reason), 0) + 1
        return Reading(
            name=name,
            value=value if reason is None else None,
            unit=SPECS[name].unit,
            source=_plain(raw.source),
            label=_plain(raw.label),
            age_s=round(age_s, 3),
            valid=reason is None,
            reason=reason.value if reason else "",
        )

    def _freezes(self, name: str, raw: float | str, at: float) -> Reason | None:
        known = self._same.get(name)
        if known is None or known[0] != raw:
            self._same[name] = raw, at
            self._frozen.discard(name)
        elif at - known[1] >= FROZEN_S and self._moved():
            self._frozen.add(name)
        return Reason.FROZEN if name in self._frozen else None

    def _moved(self) -> bool:
        watts = [power for _, power in self._powers]
        return bool(watts) and max(watts) - min(watts) > MOVED_W


def _plain(text: str) -> str:
    """Return what a file calls itself as a short word that every terminal and the wire can bear."""
    word = text[:_WORD_MAX]
    return word if word.isprintable() else "".join(c if c.isprintable() else "?" for c in word)


def in_unit(name: str, spec: Spec, raw: Raw) -> tuple[float | str | None, Reason | None]:
    """Return a raw value in its unit, or why it cannot be true whatever came before or after."""
    if raw.fault is not None:
        return None, raw.fault
    if raw.value is None:
        return None, Reason.MISSING
    if name in WORDS:
        is_word = isinstance(raw.value, str) and WORDS[name].fullmatch(raw.value)
        return (raw.value, None) if is_word else (None, Reason.UNREADABLE)
    if isinstance(raw.value, str):
        return None, Reason.UNREADABLE
    return _number(spec, raw.value, spec.scale if raw.scale is None else raw.scale)


def _number(spec: Spec, raw: float, scale: float) -> tuple[float | None, Reason | None]:
    # a division by a power of ten gives 39.375 where a product with 1e-3 gives 39.375000000000004
    value = raw / round(1 / scale) if scale < 1 else raw * scale
    reason: Reason | None = None
    if spec.has_sentinels and (raw in ALL_ONES or raw == _SENTINEL):
        reason = Reason.SENTINEL if raw == _SENTINEL else Reason.ALL_ONES
    elif raw == 0 and spec.zero_is_unknown:
        reason = Reason.ZERO
    elif spec.unit == "C" and value > HOT_MAX_C:
        reason = Reason.TOO_HOT
    elif not spec.low <= value <= spec.high:  # a NaN is in no range
        reason = Reason.OUT_OF_RANGE
    return (None, reason) if reason else (float(value), None)
