"""Trees of `sys` and `proc` as a Strix Halo box has them, made of a few figures each.

The paths, labels and units are the kernel's; the figures of the scenarios are those published for real boxes
where there are some. Numbers of cards and hwmon directories are scrambled, so that an index finds nothing.
"""

import struct
from pathlib import Path
from typing import Any

SLOT = "0000:c5:00.0"
NPU_SLOT = "0000:c6:00.1"
DUMPS = "sys/class/devcoredump"
K10 = "sys/class/hwmon/hwmon10"
CARD = "sys/class/drm/card1/device"
GPU = f"{CARD}/hwmon/hwmon2"
NPU = "sys/class/accel/accel0/device"
RAPL = "sys/class/powercap/intel-rapl:0"

# name -> (struct code, count, offset); what the tests fill, of the kernel's three layouts
_V2 = {
    "temperature_gfx": ("H", 1, 4),
    "gfx_activity": ("H", 1, 28),
    "socket_power": ("H", 1, 40),
    "gfx_power": ("H", 1, 46),
}
_V3 = {
    "temperature_gfx": ("H", 1, 4),
    "gfx_activity": ("H", 1, 42),
    "ipu_activity": ("H", 8, 46),
    "socket_power": ("I", 1, 112),
    "ipu_power": ("H", 1, 116),
    "gfx_power": ("I", 1, 124),
    "throttle_hot": ("I", 1, 228),
    "throttle_power": ("I", 3, 232),
    "throttle_thermal": ("I", 3, 244),
}
_LAYOUTS = {(2, 1): (120, _V2), (2, 4): (168, _V2), (3, 0): (264, _V3)}


def metrics(form: int = 3, content: int = 0, **fields: int) -> bytes:
    """Return a gpu_metrics table; what is not given is all ones, as the driver leaves it."""
    size, layout = _LAYOUTS[form, content]
    table = bytearray(b"\xff" * size)
    struct.pack_into("<HBB", table, 0, size, form, content)
    for name, value in fields.items():
        code, count, offset = layout[name]
        struct.pack_into(f"<{count}{code}", table, offset, *[value] * count)
    return bytes(table)


_IDLE_TABLE = {
    "gfx_activity": 0, "ipu_activity": 0, "ipu_power": 0, "gfx_power": 30,
    "throttle_hot": 0, "throttle_power": 0, "throttle_thermal": 0,
}  # fmt: skip
_IDLE: dict[str, Any] = {
    "tctl": 39375, "k10": True, "k10_name": "k10temp", "k10_label": "Tctl", "edge": 35000,
    "ppt": 25_100_000, "busy": 0, "sclk": 600_000_000, "npu": "D3hot", "table": metrics(**_IDLE_TABLE),
    "energy": 240_422_366_267, "uptime": 3600.0, "gpu": True, "second": False, "vram": 159_383_552,
    "gtt": 1_073_741_824, "available": None, "kfd": None, "firmware": None, "dumps": None,
    "versions": (None, "1.1.2.65", None),
}  # fmt: skip

SCENARIOS: dict[str, dict[str, Any]] = {
    "idle": {},
    "pinned_busy_idle_hip": {"busy": 100, "sclk": 2_900_000_000, "ppt": 30_000_000},
    "decode": {
        "busy": 97, "sclk": 2_900_000_000, "ppt": 91_000_000, "edge": 64000, "tctl": 71000,
        "table": metrics(
            **_IDLE_TABLE | {"gfx_activity": 97, "gfx_power": 61000, "throttle_power": 400}
        ),
    },
    "hot": {
        "busy": 100, "sclk": 2_100_000_000, "ppt": 120_000_000, "edge": 91000, "tctl": 97125,
        "table": metrics(
            **_IDLE_TABLE | {
                "gfx_activity": 100, "gfx_power": 84000, "throttle_hot": 100,
                "throttle_thermal": 4200, "throttle_power": 300,
            }
        ),
    },
    "no_k10temp": {"k10": False, "edge": 87000, "busy": 95, "ppt": 110_000_000},
    "k10temp_zero_unlabelled": {"tctl": 0, "k10_label": None},
    "no_amdgpu": {"gpu": False},
    "second_gpu": {"second": True},
    "rapl_denied": {"energy": None},
    "npu_active": {
        "npu": "D0", "ppt": 45_000_000,
        "table": metrics(**_IDLE_TABLE | {"ipu_activity": 88, "ipu_power": 1993}),
    },
    "fresh_boot": {"uptime": 20.0, "tctl": 96000, "busy": 100},
    "metrics_all_na": {"table": metrics()},
    # beyond what the published trees show
    "k10temp_zero": {"tctl": 0},
    "k10temp_65535": {"tctl": 65535},
    "k10temp_all_ones": {"tctl": 2**32 - 1},
    "k10temp_126": {"tctl": 126_000},
    "k10temp_125": {"tctl": 125_000},
    "k10temp_in_degrees": {"tctl": 71},
    "k10temp_negative": {"tctl": -1000},
    "k10temp_is_text": {"tctl": "N/A"},
    "zenpower": {"k10_name": "zenpower"},
    "chipset_like_cpu": {"k10_name": "nct6799"},
    "only_a_dgpu": {"gpu": False, "second": True},
    "busy_above_100": {"busy": 9700},
    "edge_65535_c": {"edge": 65_535_000},
    "kfd_two": {"kfd": 2},
    "kfd_none": {"kfd": 0},
    "throttled": {
        "table": metrics(
            **_IDLE_TABLE | {"throttle_hot": 1, "throttle_power": 70, "throttle_thermal": 5}
        ),
    },
    "throttle_unsaid": {"table": metrics(**_IDLE_TABLE | {"throttle_hot": 2**32 - 1})},
    "memory_read": {"available": "MemTotal: 130000000 kB\nMemAvailable:   96000000 kB\nBuffers: 1 kB"},
    "memory_odd": {"available": "MemAvailable: -5 kB\nXMemAvailable: 5 kB"},
    "table_v2_1": {"table": metrics(2, 1, gfx_activity=0, gfx_power=25087, socket_power=56)},
    "table_v2_4": {"table": metrics(2, 4, gfx_activity=4200, socket_power=9000)},
    "table_old_firmware": {
        "table": metrics(**_IDLE_TABLE | {"gfx_activity": 9700}), "firmware": "0x005d4600",
    },
    "table_new_firmware": {
        "table": metrics(**_IDLE_TABLE | {"gfx_activity": 97}), "firmware": "0x0a640200",
    },
    "table_centi_unsaid": {"table": metrics(**_IDLE_TABLE | {"gfx_activity": 9700})},
    "table_truncated": {"table": metrics(**_IDLE_TABLE)[:100]},
    "table_too_long": {"table": metrics(**_IDLE_TABLE) + b"\0"},
    "table_lies_of_its_size": {"table": b"\xa8\x00" + metrics(**_IDLE_TABLE)[2:]},
    "table_unknown": {"table": struct.pack("<HBB", 264, 9, 9) + bytes(260)},
    "table_empty": {"table": b""},
    "versions": {"versions": ("6.19.4-strix", "1.0.0.63", "2.20.0")},
    "versions_of_none": {"versions": ("6.19.4", None, None)},
    "versions_odd": {"versions": ("6.19\u00a04", "", "v" * 65)},
    "no_reset": {"dumps": {}},
    "reset_gpu": {"dumps": {"devcd1": SLOT, "devcd2": "0000:03:00.0"}},
    "reset_npu": {"dumps": {"devcd7": NPU_SLOT, "devcd12": NPU_SLOT}},
    "rapl_all_ones": {"energy": 2**64 - 1},
    "rapl_zero": {"energy": 0},
    "rapl_negative": {"energy": -1},
    "table_of_zeros": {"table": struct.pack("<HBB", 264, 3, 0) + bytes(260)},
}  # fmt: skip


def put(root: Path, path: str, content: object) -> None:
    """Write one file of a tree, as the kernel would: a number or a word and a line end, or bytes.

    Who reads it meanwhile sees all of the old or all of the new, as with the kernel, and never an empty file.
    """
    file, whole = root / path, root / ".put"
    file.parent.mkdir(parents=True, exist_ok=True)
    whole.write_bytes(content if isinstance(content, bytes) else f"{content}\n".encode())
    whole.replace(file)


def plant(root: Path, scenario: str = "idle", **changes: Any) -> Path:
    """Write the tree of a scenario, with changes, and return its root."""
    figures = _IDLE | SCENARIOS[scenario] | changes
    put(root, "sys/class/hwmon/hwmon0/name", "acpitz")
    put(root, "sys/class/hwmon/hwmon0/temp1_input", 32000)
    for name, value in (("name", "nvme"), ("temp1_input", 36850), ("temp1_label", "Composite")):
        put(root, f"sys/class/hwmon/hwmon1/{name}", value)
    if figures["k10"]:
        put(root, f"{K10}/name", figures["k10_name"])
        put(root, f"{K10}/temp1_input", figures["tctl"])
        if figures["k10_label"]:
            put(root, f"{K10}/temp1_label", figures["k10_label"])
            put(root, f"{K10}/temp3_input", 149_800)
            put(root, f"{K10}/temp3_label", "Tccd1")
    if figures["gpu"]:
        _plant_card(root, CARD, ("hwmon2", "0x1586", SLOT), figures)
        put(root, f"{CARD}/gpu_metrics", figures["table"])
        put(root, "sys/class/drm/card1-HDMI-A-1/status", "disconnected")
        if figures["firmware"]:
            put(root, f"{CARD}/fw_version/smc_fw_version", figures["firmware"])
    if figures["second"]:
        hot = {"edge": 50000, "ppt": 155_000_000, "busy": 100}
        dgpu = "sys/class/drm/card0/device"
        _plant_card(root, dgpu, ("hwmon7", "0x7590", "0000:03:00.0"), figures | hot)
        put(root, f"{dgpu}/board_info", "type : dGPU")
    _plant_npu(root, figures)
    plant_dumps(root, figures["dumps"])
    put(root, f"{RAPL}/name", "package-0")
    put(root, f"{RAPL}/max_energy_range_uj", 65_532_610_987)
    if figures["energy"] is not None:
        put(root, f"{RAPL}/energy_uj", figures["energy"])
    _plant_proc(root, figures)
    for pid in range(figures["kfd"] or 0):
        put(root, f"sys/class/kfd/kfd/proc/{4000 + pid}/pasid", 32769 + pid)
    if figures["kfd"] is not None:
        (root / "sys/class/kfd/kfd/proc").mkdir(parents=True, exist_ok=True)
    return root


def _plant_npu(root: Path, figures: dict[str, Any]) -> None:
    put(root, f"{NPU}/power_state", figures["npu"])
    put(root, f"{NPU}/vbnv", "NPU Strix Halo")
    put(root, f"{NPU}/uevent", f"DRIVER=amdxdna\nPCI_SLOT_NAME={NPU_SLOT}")
    places = ("proc/sys/kernel/osrelease", f"{NPU}/fw_version", "sys/module/amdxdna/version")
    for place, version in zip(places, figures["versions"], strict=True):
        if version is not None:
            put(root, place, version)


def plant_dumps(root: Path, dumps: dict[str, str] | None) -> None:
    """Let devices have been reset: a driver leaves a dump, by its name, for the device of a PCI slot.

    None: the kernel keeps no dumps.
    """
    if dumps is None:
        return
    (root / DUMPS).mkdir(parents=True, exist_ok=True)
    for name, slot in dumps.items():
        put(root, f"{DUMPS}/{name}/failing_device/uevent", f"PCI_SLOT_NAME={slot}")


def _plant_proc(root: Path, figures: dict[str, Any]) -> None:
    put(root, "proc/uptime", f"{figures['uptime']:.2f} {figures['uptime'] * 30:.2f}")
    if figures["available"] is not None:
        put(root, "proc/meminfo", figures["available"])


def _plant_card(
    root: Path, device: str, names: tuple[str, str, str], figures: dict[str, Any]
) -> None:
    hwmon, identity, slot = names
    put(root, f"{device}/vendor", "0x1002")
    put(root, f"{device}/device", identity)
    put(root, f"{device}/uevent", f"DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME={slot}")
    put(root, f"{device}/gpu_busy_percent", figures["busy"])
    put(root, f"{device}/power/runtime_status", "active")
    put(root, f"{device}/mem_info_vram_used", figures["vram"])
    put(root, f"{device}/mem_info_gtt_used", figures["gtt"])
    channels = {
        "name": "amdgpu", "temp1_input": figures["edge"], "temp1_label": "edge",
        "power1_average": figures["ppt"], "power1_input": figures["ppt"], "power1_label": "PPT",
        "freq1_input": figures["sclk"], "freq1_label": "sclk",
    }  # fmt: skip
    for folder in (f"{device}/hwmon/{hwmon}", f"sys/class/hwmon/{hwmon}"):
        for name, value in channels.items():
            put(root, f"{folder}/{name}", value)
