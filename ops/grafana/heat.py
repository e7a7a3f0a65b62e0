"""The dashboard of heat: temperature, power and clock beside what the devices do; memory and sensors."""

from ops.grafana.panels import (
    BOX,
    BOX_VARIABLE,
    DEVICE,
    DEVICE_VARIABLE,
    RATE,
    Dashboard,
    Panel,
    Query,
    Row,
    one,
    stat,
)
from ops.grafana.shared import HELD, SOCKET, SOCKETS, TCTL, WAITING

_STATES = ("idle", "busy", "hot", "quarantined", "ending", "absent")
_STATE = " or ".join(
    f'(fairlane_device_state{{{DEVICE},state="{state}"}} == 1) * {number}'
    for number, state in enumerate(_STATES)
)
_NO_HOLD = "no outside program holds a device"

_NOW = Row(
    "Now",
    (
        stat(
            "Tctl",
            "The processor's control temperature.",
            "celsius",
            f"max(fairlane_tctl_celsius{{{BOX}}})",
        ),
        stat(
            "iGPU", "Its edge temperature.", "celsius", f"max(fairlane_gpu_edge_celsius{{{BOX}}})"
        ),
        SOCKETS,
        stat(
            "iGPU clock",
            "It falls when the firmware throttles.",
            "hertz",
            f"max(fairlane_gfx_clock_hertz{{{BOX}}})",
        ),
        WAITING,
        stat(
            "Memory available",
            "Of the machine.",
            "bytes",
            f"min(fairlane_host_memory_available_bytes{{{BOX}}})",
        ),
    ),
)

_HEAT = Row(
    "Heat and power",
    (
        Panel(
            "Temperature",
            "Tctl, the iGPU's edge, and from where on the iGPU gets no new grant.",
            "celsius",
            (
                Query(TCTL, "{{instance}} Tctl"),
                Query(f"fairlane_gpu_edge_celsius{{{BOX}}}", "{{instance}} iGPU"),
                Query(f"fairlane_heat_stop_celsius{{{BOX}}}", "{{instance}} stop"),
            ),
            width=12,
        ),
        Panel(
            "Power",
            "Socket, and the shares of iGPU and NPU where the firmware tells them.",
            "watt",
            (
                Query(SOCKET, "{{instance}} socket"),
                Query(f"fairlane_gfx_power_watts{{{BOX}}}", "{{instance}} iGPU"),
                Query(f"fairlane_npu_power_watts{{{BOX}}}", "{{instance}} NPU"),
            ),
            width=12,
        ),
        Panel(
            "State of the devices",
            "Hot: held back for heat. Quarantined: an NPU that crashed.",
            "none",
            one(f"max by (instance, device) ({_STATE})", "{{instance}} {{device}}"),
            kind="state-timeline",
            width=12,
        ),
        Panel(
            "Load by two witnesses",
            "What tickets hold is the truth; the firmware's counter is only a cross-check.",
            "percentunit",
            (
                Query(HELD, "{{instance}} {{device}} tickets"),
                Query(f"fairlane_gpu_busy_ratio{{{BOX}}}", "{{instance}} iGPU {{source}}"),
                Query(f"fairlane_npu_activity_ratio{{{BOX}}}", "{{instance}} NPU firmware"),
            ),
            top=1.0,
            width=12,
        ),
        Panel(
            "Clock of the iGPU",
            "It falls when the firmware throttles.",
            "hertz",
            one(f"fairlane_gfx_clock_hertz{{{BOX}}}", "{{instance}}"),
        ),
        Panel(
            "Throttling",
            "Growth of the firmware's counters, in a unit of its own.",
            "cps",
            one(
                f"sum by (instance, cause) (rate(fairlane_throttle_residency_total{{{BOX}}}{RATE}))",
                "{{instance}} {{cause}}",
            ),
        ),
        Panel(
            "Waiting by device",
            "Tickets in the queue of each device.",
            "short",
            one(f"instance_device:fairlane_queue_depth:sum{{{DEVICE}}}", "{{instance}} {{device}}"),
            stacked=True,
        ),
    ),
)

_ENERGY = Row(
    "Energy",
    (
        Panel(
            "Energy by device",
            "Joules a second of the device's own power.",
            "watt",
            one(
                f"rate(fairlane_device_energy_joules_total{{{DEVICE}}}{RATE})",
                "{{instance}} {{device}}",
            ),
        ),
        Panel(
            "Energy of the package",
            "From its counter.",
            "watt",
            one(f"rate(fairlane_package_energy_joules_total{{{BOX}}}{RATE})", "{{instance}}"),
        ),
        Panel(
            "Energy a token",
            "Joules of the package for each token of an answer.",
            "joule",
            one(
                f"sum by (instance) (rate(fairlane_package_energy_joules_total{{{BOX}}}{RATE}))"
                f" / (sum by (instance) (rate(fairlane_output_tokens_total{{{BOX}}}{RATE})) > 0)",
                "{{instance}}",
            ),
        ),
    ),
)

_MEMORY = Row(
    "Memory",
    (
        Panel(
            "The machine's memory",
            "What is left, and what is to be kept free.",
            "bytes",
            (
                Query(f"fairlane_host_memory_available_bytes{{{BOX}}}", "{{instance}} available"),
                Query(f"fairlane_memory_reserve_bytes{{{BOX}}}", "{{instance}} reserve"),
            ),
        ),
        Panel(
            "The box's budget",
            "What rows and outside lanes take, of what they may.",
            "bytes",
            (
                Query(f"fairlane_memory_claimed_bytes{{{BOX}}}", "{{instance}} taken"),
                Query(f"fairlane_memory_reserved_bytes{{{BOX}}}", "{{instance}} by outside lanes"),
                Query(f"fairlane_memory_budget_bytes{{{BOX}}}", "{{instance}} budget"),
            ),
        ),
        Panel(
            "Loaded rows",
            "Their size.",
            "bytes",
            one(
                f"sum by (device, model) (fairlane_model_resident_bytes{{{DEVICE}}})",
                "{{device}} {{model}}",
                empty="nothing is loaded, or its engine names no size",
            ),
            stacked=True,
        ),
        Panel(
            "Memory of the iGPU",
            "Of the host's memory what it has mapped, and together with its own.",
            "bytes",
            (
                Query(f"fairlane_gtt_used_bytes{{{BOX}}}", "{{instance}} GTT"),
                Query(f"fairlane_gpu_memory_used_bytes{{{BOX}}}", "{{instance}} GTT and VRAM"),
            ),
        ),
        Panel(
            "Programs on the compute driver",
            "Two that idle are enough to pin the clock.",
            "short",
            one(f"fairlane_kfd_processes{{{BOX}}}", "{{instance}}"),
        ),
        Panel(
            "Outside lanes",
            "Time left of the programs that hold a device.",
            "s",
            one(
                f"fairlane_outside_hold_left_seconds{{{DEVICE}}}",
                "{{instance}} {{device}}",
                empty=_NO_HOLD,
            ),
        ),
    ),
)

_PARTS = Row(
    "Sensors and workers",
    (
        Panel(
            "Age of the readings",
            "An old value is unknown, neither hot nor cool.",
            "s",
            one(f"fairlane_sensor_age_seconds{{{BOX}}}", "{{instance}} {{sensor}}"),
        ),
        Panel(
            "Unknown readings",
            "Share of the time, by reason.",
            "percentunit",
            one(
                f"sum by (instance, sensor, reason) (rate(fairlane_sensor_invalid_total{{{BOX}}}{RATE}))",
                "{{instance}} {{sensor}} {{reason}}",
                empty="all readings are known",
            ),
        ),
        Panel(
            "Silence of the workers",
            "Since the last heartbeat; after three seconds a worker is lost.",
            "s",
            one(f"fairlane_worker_last_seen_seconds{{{BOX}}}", "{{instance}} {{worker}}"),
        ),
        Panel(
            "Workers lost",
            "A minute.",
            "short",
            one(
                f"sum by (instance, kind) (increase(fairlane_workers_lost_total{{{BOX}}}[1m]))",
                "{{instance}} {{kind}}",
            ),
        ),
        Panel(
            "NPU quarantine",
            "Until the NPU may be tried again.",
            "s",
            one(f"fairlane_npu_quarantine_left_seconds{{{BOX}}}", "{{instance}}"),
        ),
        Panel(
            "Trouble on the bus",
            "Messages a second that were unreadable, fenced, or had nobody to go to.",
            "cps",
            (
                Query(
                    f"rate(fairlane_bus_bad_messages_total{{{BOX}}}{RATE})",
                    "{{instance}} unreadable",
                ),
                Query(f"rate(fairlane_bus_fenced_total{{{BOX}}}{RATE})", "{{instance}} fenced"),
                Query(
                    f"rate(fairlane_bus_unroutable_total{{{BOX}}}{RATE})", "{{instance}} unroutable"
                ),
            ),
        ),
    ),
)

BOARD = Dashboard(
    uid="fairlane-heat",
    title="Fairlane: Heat",
    text="Temperature, power, clock and memory beside what the queue does; sensors and workers.",
    variables=(BOX_VARIABLE, DEVICE_VARIABLE),
    rows=(_NOW, _HEAT, _ENERGY, _MEMORY, _PARTS),
)
