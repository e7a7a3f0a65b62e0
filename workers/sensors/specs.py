"""The readings there are, in the order they are shown, and what each may be.

Rules of this file: pure data. A reading has one unit everywhere: in the worker, on the bus, in JSON.
"""

import re

from msgspec import Struct

HOT_MAX_C = 125.0  # no chip of this kind runs hotter: such a value is no temperature
_WATTS_MAX = 1000.0


class Spec(Struct, frozen=True, kw_only=True):
    """One reading: its unit, how its raw number becomes it, and what the number may be."""

    unit: str
    scale: float = 1.0  # unit per raw step
    low: float = 0.0  # in the unit; below it the number is no such thing
    high: float
    zero_is_unknown: bool = False  # what was not filled in reads 0
    has_sentinels: bool = True  # 65535 and all ones stand for "not available"
    may_freeze: bool = False  # something physical that moves when the power does
    source: str = "amdgpu"  # where it is looked for, also where it is not found
    label: str = ""


SPECS: dict[str, Spec] = {
    # A running chip is never below one degree: degrees where thousandths are due would read 0.071.
    "tctl": Spec(
        unit="C", scale=1e-3, low=1.0, high=HOT_MAX_C, zero_is_unknown=True, may_freeze=True,
        source="k10temp", label="Tctl",
    ),
    "gpu_edge": Spec(
        unit="C", scale=1e-3, low=1.0, high=HOT_MAX_C, zero_is_unknown=True, may_freeze=True,
        label="edge",
    ),
    "socket_power": Spec(
        unit="W", scale=1e-6, high=_WATTS_MAX, zero_is_unknown=True, label="PPT"
    ),
    "gfx_power": Spec(
        unit="W", scale=1e-3, high=_WATTS_MAX, zero_is_unknown=True,
        source="gpu_metrics", label="average_gfx_power",
    ),
    "npu_power": Spec(  # 0 while it sleeps
        unit="W", scale=1e-3, high=_WATTS_MAX, source="gpu_metrics", label="average_ipu_power"
    ),
    "gfx_clock": Spec(
        unit="MHz", scale=1e-6, high=10_000.0, zero_is_unknown=True, label="sclk"
    ),
    "gpu_busy": Spec(unit="%", high=100.0, label="gpu_busy_percent"),
    "gfx_activity": Spec(
        unit="%", high=100.0, source="gpu_metrics", label="average_gfx_activity"
    ),
    "npu_activity": Spec(
        unit="%", high=100.0, source="gpu_metrics", label="average_ipu_activity"
    ),
    "memory_used": Spec(unit="bytes", high=2.0**48, zero_is_unknown=True, label="vram+gtt"),
    "gtt_used": Spec(unit="bytes", high=2.0**48, zero_is_unknown=True, label="gtt"),
    "memory_available": Spec(
        unit="bytes", scale=1024.0, high=2.0**48, has_sentinels=False, source="proc/meminfo",
        label="MemAvailable",
    ),
    "throttle_thermal": Spec(  # in steps of the firmware's own: only its growth tells
        unit="steps", high=2.0**34, has_sentinels=False, source="gpu_metrics",
        label="throttle_residency_thm",
    ),
    "throttle_power": Spec(
        unit="steps", high=2.0**34, has_sentinels=False, source="gpu_metrics",
        label="throttle_residency_ppt",
    ),
    "npu_state": Spec(unit="state", high=0.0, source="accel", label="power_state"),  # a word
    "package_energy": Spec(
        unit="J", scale=1e-6, high=1e15, has_sentinels=False, zero_is_unknown=True, source="rapl",
        label="package-0",
    ),
    "uptime": Spec(
        unit="s", high=1e10, has_sentinels=False, source="proc/uptime", label="uptime"
    ),
    "kfd_processes": Spec(
        unit="processes", high=1e6, has_sentinels=False, source="kfd", label="proc"
    ),
    "suspended": Spec(
        unit="s", high=1e10, has_sentinels=False, source="clock", label="boottime-monotonic"
    ),
    "resets": Spec(
        unit="resets", high=1e6, has_sentinels=False, source="devcoredump", label="devcd"
    ),
    "kernel": Spec(unit="version", high=0.0, source="proc/sys", label="osrelease"),  # a word
    "npu_firmware": Spec(unit="version", high=0.0, source="accel", label="fw_version"),  # a word
    "npu_driver": Spec(unit="version", high=0.0, source="amdxdna", label="version"),  # a word
}  # fmt: skip
_VERSION = r"[!-~]([ -~]{0,62}[!-~])?"  # what prints; longer is no version
# what a reading that is a word must look like
WORDS = {
    "npu_state": re.compile(r"D[012]|D3(hot|cold)", re.ASCII),
    "kernel": re.compile(_VERSION, re.ASCII),
    "npu_firmware": re.compile(_VERSION, re.ASCII),
    "npu_driver": re.compile(_VERSION, re.ASCII),
}
