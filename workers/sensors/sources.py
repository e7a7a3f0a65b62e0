"""Where each reading comes from: one function a reading, a tree in, a raw value out.

Rules of this file: a reading has the one source named here; nothing stands in for a temperature.
Nothing here wakes a device: the NPU is asked for its power state only, which the kernel knows.
"""

import re
from collections.abc import Callable

from workers.sensors import chips
from workers.sensors.energy import Energy
from workers.sensors.files import Files
from workers.sensors.gpu_metrics import TABLE_MAX, Metrics, parse
from workers.sensors.raw import Raw, Reason, Unread

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
Source = Callable[[Files, float], Raw]


def tctl(files: Files, _at: float) -> Raw:
    """The processor's control temperature, the value its cooling follows."""
    hwmon = chips.cpu(files)
    channel = chips.labelled(files, hwmon, "temp", "Tctl")
    return Raw(files.integer(f"{channel}_input"), files.text(f"{hwmon}/name"), "Tctl")


def gpu_edge(files: Files, _at: float) -> Raw:
    """The iGPU's temperature."""
    channel = _gpu_channel(files, "temp", "edge")
    return Raw(files.integer(f"{channel}_input"), "amdgpu", "edge")


def socket_power(files: Files, _at: float) -> Raw:
    """PPT: the power of the whole socket - cores, memory and NPU too, not the GPU's alone."""
    channel = _gpu_channel(files, "power", "PPT")
    try:
        value = files.integer(f"{channel}_average")
    except Unread:
        value = files.integer(f"{channel}_input")  # the same source, where the driver has only it
    return Raw(value, "amdgpu", "PPT")


def gfx_clock(files: Files, _at: float) -> Raw:
    """The iGPU's clock."""
    channel = _gpu_channel(files, "freq", "sclk")
    return Raw(files.integer(f"{channel}_input"), "amdgpu", "sclk")


def gpu_busy(files: Files, _at: float) -> Raw:
    """The driver's own busy figure, which two idle resident HIP processes can pin at 100."""
    device, _ = chips.card(files)
    return Raw(files.integer(f"{device}/gpu_busy_percent"), "amdgpu", "gpu_busy_percent")


def memory_used(files: Files, _at: float) -> Raw:
    """What the iGPU uses of the memory it shares with the processor: both kinds together."""
    device, _ = chips.card(files)
    parts = (files.integer(f"{device}/mem_info_{kind}_used") for kind in ("vram", "gtt"))
    return Raw(sum(parts), "amdgpu", "vram+gtt")


def gfx_power(files: Files, _at: float) -> Raw:
    """The iGPU's share of the socket's power."""
    return _from_table(files, "average_gfx_power", lambda table: table.gfx_power)


def npu_power(files: Files, _at: float) -> Raw:
    """The NPU's share of the socket's power."""
    return _from_table(files, "average_ipu_power", lambda table: table.npu_power)


def gfx_activity(files: Files, _at: float) -> Raw:
    """The firmware's own busy figure of the iGPU."""
    return _from_table(files, "average_gfx_activity", lambda table: table.gfx_activity)


def npu_activity(files: Files, _at: float) -> Raw:
    """The mean of the NPU's columns, read without touching the NPU."""
    return _from_table(files, "average_ipu_activity", lambda table: table.npu_activity)


def npu_state(files: Files, _at: float) -> Raw:
    """The NPU's power state; D0 is awake."""
    return Raw(files.text(f"{chips.npu(files)}/power_state"), "accel", "power_state")


def uptime(files: Files, _at: float) -> Raw:
    """Seconds since the machine's start, its time asleep included."""
    first, _, _ = files.text("proc/uptime").partition(" ")
    if not _SECONDS.fullmatch(first):
        raise Unread(Reason.UNREADABLE)
    return Raw(float(first), "proc/uptime", "uptime")


def kfd_processes(files: Files, _at: float) -> Raw:
    """How many processes hold the compute driver: two idle ones are enough to pin the busy figure."""
    pids = [name for name in files.names("sys/class/kfd/kfd/proc") if name.isdecimal()]
    return Raw(len(pids), "kfd", "proc")


class PackageEnergy:
    """The package's energy counter, as one that never wraps."""

    def __init__(self) -> None:
        self._energy = Energy()

    def __call__(self, files: Files, at: float) -> Raw:
        """Return the energy so far, microjoules."""
        zone = chips.package(files)
        counter = files.integer(f"{zone}/energy_uj")
        if counter < 0:
            raise Unread(Reason.UNREADABLE)
        try:
            largest: int | None = files.integer(f"{zone}/max_energy_range_uj")
        except Unread:
            largest = None
        return Raw(self._energy.total(counter, largest, at), "rapl", files.text(f"{zone}/name"))


def sources() -> dict[str, Source]:
    """Return the source of each reading, in the order of SPECS; made anew, because one of them counts."""
    return {
        "tctl": tctl,
        "gpu_edge": gpu_edge,
        "socket_power": socket_power,
        "gfx_power": gfx_power,
        "npu_power": npu_power,
        "gfx_clock": gfx_clock,
        "gpu_busy": gpu_busy,
        "gfx_activity": gfx_activity,
        "npu_activity": npu_activity,
        "memory_used": memory_used,
        "npu_state": npu_state,
        "package_energy": PackageEnergy(),
        "uptime": uptime,
        "kfd_processes": kfd_processes,
    }


def _gpu_channel(files: Files, kind: str, label: str) -> str:
    device, _ = chips.card(files)
    return chips.labelled(files, chips.card_hwmon(files, device), kind, label)


def _from_table(files: Files, label: str, pick: Callable[[Metrics], float | None]) -> Raw:
    device, _ = chips.card(files)
    if _status(files, device) == "suspended":
        raise Unread(Reason.ASLEEP)  # to read the table is to wake the device
    table = parse(files.blob(f"{device}/gpu_metrics", TABLE_MAX), _firmware(files, device))
    return Raw(pick(table), f"gpu_metrics {table.revision}", label)


def _status(files: Files, device: str) -> str:
    try:
        return files.text(f"{device}/power/runtime_status")
    except Unread:
        return ""


def _firmware(files: Files, device: str) -> int | None:
    try:
        return int(files.text(f"{device}/fw_version/smc_fw_version"), 16)
    except (Unread, ValueError):
        return None
