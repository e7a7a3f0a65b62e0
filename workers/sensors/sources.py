"""Where each reading comes from: one function a reading, a tree in, a raw value out.

Rules of this file: a reading has the one source named here; nothing stands in for a temperature.
Nothing here wakes a device: the NPU is asked for its power state only, which the kernel knows.
"""

import re
import time
from collections.abc import Callable

from workers.sensors import chips
from workers.sensors.energy import Energy
from workers.sensors.files import Files
from workers.sensors.gpu_metrics import TABLE_MAX, Metrics, parse
from workers.sensors.raw import ALL_ONES, Hung, Raw, Reason, Unread

_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?", re.ASCII)
_DRIVER = "sys/module/amdxdna"
_DUMPS = "sys/class/devcoredump"
_AVAILABLE = re.compile(r"^MemAvailable:\s+([0-9]{1,15}) kB$", re.ASCII | re.MULTILINE)
Source = Callable[[Files, float], Raw]
Clocks = Callable[
    [], tuple[float, float]
]  # seconds since the machine's start, without sleep and with


def tctl(files: Files, _at: float) -> Raw:
    """The processor's control temperature, the value its cooling follows."""
    hwmon, channel = chips.cpu(files)
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


def gtt_used(files: Files, _at: float) -> Raw:
    """What the iGPU has mapped of the host's own memory."""
    device, _ = chips.card(files)
    return Raw(files.integer(f"{device}/mem_info_gtt_used"), "amdgpu", "gtt")


def memory_available(files: Files, _at: float) -> Raw:
    """What programs may still take of the machine's memory, KiB."""
    found = _AVAILABLE.search(files.text("proc/meminfo"))
    if found is None:
        raise Unread(Reason.MISSING)
    return Raw(int(found[1]), "proc/meminfo", "MemAvailable")


def throttle_thermal(files: Files, _at: float) -> Raw:
    """How long the firmware held the chip back for heat, in steps of its own."""
    return _from_table(files, "throttle_residency_thm", lambda table: table.throttle_thermal)


def throttle_power(files: Files, _at: float) -> Raw:
    """How long it held the chip back for a power limit."""
    return _from_table(files, "throttle_residency_ppt", lambda table: table.throttle_power)


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


def kernel(files: Files, _at: float) -> Raw:
    """The kernel's release."""
    return Raw(files.text("proc/sys/kernel/osrelease"), "proc/sys", "osrelease")


def npu_firmware(files: Files, _at: float) -> Raw:
    """The NPU's firmware, as its driver says it."""
    return Raw(files.text(f"{chips.npu(files)}/fw_version"), "accel", "fw_version")


def npu_driver(files: Files, _at: float) -> Raw:
    """The NPU's driver: its version, or the digest of its source where it has no number."""
    try:
        return Raw(files.text(f"{_DRIVER}/version"), "amdxdna", "version")
    except Unread:
        return Raw(files.text(f"{_DRIVER}/srcversion"), "amdxdna", "srcversion")


class Suspended:
    """How long the machine has slept since its start."""

    def __init__(self, clocks: Clocks | None) -> None:
        """Take the machine's clocks; None: a tree is read, and its machine's are not to be had."""
        self._clocks = clocks
        self._most = 0.0

    def __call__(self, _files: Files, _at: float) -> Raw:
        """Return the seconds by which the clock that counts sleep is ahead of the one that does not."""
        if self._clocks is None:
            raise Unread(Reason.MISSING)
        pairs = [self._clocks() for _ in range(3)]  # whoever is held up between two reads too much
        asleep_s = min(total - awake for awake, total in pairs)
        self._most = max(self._most, round(asleep_s, 1))
        return Raw(self._most, "clock", "boottime-monotonic")


class Resets:
    """How many resets of the GPU or the NPU were seen.

    Each leaves a dump, listed for five minutes; and a device that was gone and is there again - its driver
    was loaded anew, which is how a wedged NPU is brought back - has begun anew, too.
    """

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self._total = 0
        self._there: dict[Callable[[Files], object], bool] = {}  # finder -> did it find

    def __call__(self, files: Files, _at: float) -> Raw:
        """Return how many there were, those among them whose dump lay there at the first look."""
        for find in (chips.card, chips.npu):
            self._look_for(find, files)
        dumps = set(files.under(_DUMPS, "devcd"))
        if not dumps and not self._total:
            files.names(_DUMPS)  # a kernel without dumps tells nothing of resets
        slots = {slot for find in (_card_slot, _npu_slot) if (slot := find(files))}
        self._counted &= dumps
        for dump in sorted(dumps - self._counted):
            slot = _slot_at(files, f"{dump}/failing_device")
            if slot and slots:  # else it is looked at again: who is being reset may not answer
                self._total += slot in slots
                self._counted.add(dump)
        return Raw(self._total, "devcoredump", "devcd")

    def _look_for(self, find: Callable[[Files], object], files: Files) -> None:
        try:
            find(files)
        except Unread as error:
            if find in self._there and error.reason in {Reason.MISSING, Reason.WRONG_CHIP}:
                self._there[find] = False
        except Hung:
            return  # it is there, and does not answer
        else:
            self._total += self._there.get(find) is False
            self._there[find] = True


class PackageEnergy:
    """The package's energy counter, as one that never wraps."""

    def __init__(self) -> None:
        self._energy = Energy()

    def __call__(self, files: Files, at: float) -> Raw:
        """Return the energy so far, microjoules."""
        zone = chips.package(files)
        counter = files.integer(f"{zone}/energy_uj")
        try:
            largest: int | None = files.integer(f"{zone}/max_energy_range_uj")
        except Unread:
            largest = None
        if counter in ALL_ONES:  # what is no count must not get into the sum
            raise Unread(Reason.ALL_ONES)
        if counter < 0:
            raise Unread(Reason.OUT_OF_RANGE)
        return Raw(self._energy.total(counter, largest, at), "rapl", files.text(f"{zone}/name"))


def machine_clocks() -> tuple[float, float]:
    """Return the seconds since the machine's start, without its sleep and with it."""
    return time.clock_gettime(time.CLOCK_MONOTONIC), time.clock_gettime(time.CLOCK_BOOTTIME)


def sources(clocks: Clocks | None = None) -> dict[str, Source]:
    """Return the source of each reading, in the order of SPECS; made anew, because some of them count.

    Args:
        clocks: Those of the machine whose files are read; None: they are not to be had.
    """
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
        "gtt_used": gtt_used,
        "memory_available": memory_available,
        "throttle_thermal": throttle_thermal,
        "throttle_power": throttle_power,
        "npu_state": npu_state,
        "package_energy": PackageEnergy(),
        "uptime": uptime,
        "kfd_processes": kfd_processes,
        "suspended": Suspended(clocks),
        "resets": Resets(),
        "kernel": kernel,
        "npu_firmware": npu_firmware,
        "npu_driver": npu_driver,
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


def _card_slot(files: Files) -> str:
    try:
        return chips.card(files)[1]
    except (Unread, Hung):
        return ""


def _npu_slot(files: Files) -> str:
    try:
        return _slot_at(files, chips.npu(files))
    except (Unread, Hung):
        return ""


def _slot_at(files: Files, device: str) -> str:
    """Return the PCI slot of a device; empty where it has none, or it cannot be read now."""
    try:
        return chips.slot(files, device)
    except (Unread, Hung):
        return ""


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
