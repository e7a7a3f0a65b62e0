"""The driver's gpu_metrics table: a few fields of three known revisions, everything else refused.

Rules of this file: pure. A table is trusted only where its first two bytes, its revision and its length all
say the same known thing; a revision that is not listed is not guessed at. Fields start as all ones, which is
how the driver says that it has no value. Offsets are those of the kernel's kgd_pp_interface.h.
"""

import struct
from typing import NamedTuple

from workers.sensors.raw import Reason, Unread

TABLE_MAX = 4096  # bytes read of the file; the largest known table has 264
_HEADER = struct.Struct("<HBB")  # size, format revision, content revision
_NOT_THERE = 0xFFFFFFFF
# Firmware of the SMU from which on activity is percent instead of hundredths, for v3.0.
PERCENT_SINCE = 0x5D4600


class Field(NamedTuple):
    """Where a field is: its struct code, how many of it, and its offset in bytes."""

    code: str
    many: int
    offset: int


class Layout(NamedTuple):
    """One revision."""

    size: int  # bytes, exactly
    fields: dict[str, Field]
    centi_activity: bool  # activity in hundredths of a percent, always


_V2_FIELDS = {
    "gfx_activity": Field("H", 1, 28),
    "gfx_power": Field(
        "H", 1, 46
    ),  # mW; the socket's own field is watts on some firmware: not read
}
LAYOUTS: dict[tuple[int, int], Layout] = {
    (2, 1): Layout(120, _V2_FIELDS, centi_activity=True),
    (2, 4): Layout(168, _V2_FIELDS, centi_activity=True),
    (3, 0): Layout(
        264,
        {
            "gfx_activity": Field("H", 1, 42),
            "npu_activity": Field("H", 8, 46),  # one a column
            "npu_power": Field("H", 1, 116),  # mW
            "gfx_power": Field("I", 1, 124),  # mW
            "throttle_power": Field("I", 3, 232),  # spl, fppt, sppt: limits slow to fast
            "throttle_hot": Field("I", 1, 228),  # the processor's own pin, PROCHOT
            "throttle_thermal": Field("I", 3, 244),  # cores, graphics, soc
        },
        centi_activity=False,
    ),
}


class Metrics(NamedTuple):
    """What a table says, in raw steps: percent, milliwatts, and for throttling the firmware's own.

    None: the table has no such field.
    """

    revision: str
    gfx_activity: float | None
    npu_activity: float | None
    gfx_power: int | None
    npu_power: int | None
    throttle_thermal: int | None
    throttle_power: int | None


def parse(table: bytes, firmware: int | None) -> Metrics:
    """Return what a table says.

    Args:
        table: The whole file.
        firmware: The SMU's firmware version; None where it is unknown: a recent one.

    Raises:
        Unread: It is of no known revision, or not of exactly that revision's size.
    """
    if len(table) < _HEADER.size:
        raise Unread(Reason.WRONG_SIZE)
    size, form, content = _HEADER.unpack_from(table)
    layout = LAYOUTS.get((form, content))
    if layout is None:
        raise Unread(Reason.UNKNOWN_REVISION)
    if size != layout.size or len(table) != layout.size:
        raise Unread(Reason.WRONG_SIZE)
    is_old = firmware is not None and firmware <= PERCENT_SINCE
    part = 100 if layout.centi_activity or is_old else 1
    found = {
        name: struct.unpack_from(f"<{field.many}{field.code}", table, field.offset)
        for name, field in layout.fields.items()
    }
    return Metrics(
        revision=f"v{form}_{content}",
        gfx_activity=_share(found["gfx_activity"], part),
        npu_activity=_share(found["npu_activity"], 1) if "npu_activity" in found else None,
        gfx_power=found["gfx_power"][0],
        npu_power=found["npu_power"][0] if "npu_power" in found else None,
        throttle_thermal=_total(found, "throttle_hot", "throttle_thermal"),
        throttle_power=_total(found, "throttle_power"),
    )


def _total(found: dict[str, tuple[int, ...]], *names: str) -> int | None:
    """Return the sum of counters; None where one of them is not available, or the table has none."""
    counters = [counter for name in names for counter in found.get(name, ())]
    return sum(counters) if counters and _NOT_THERE not in counters else None


def _share(columns: tuple[int, ...], part: int) -> float:
    """Return the mean of columns, or the one that is not available or cannot be: it spoils the mean."""
    worst = max(columns)
    if worst == 0xFFFF:
        return worst
    if worst > 100 * part:
        return worst / part
    return sum(columns) / len(columns) / part
