"""The device nodes of iGPU and NPU, what may be pinned, and what the sensors tell."""

import grp
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from ops.doctor.finding import Finding, Patient, fail, ok, warn
from scheduler.errors import FairlaneError
from scheduler.settings import Sensors
from scheduler.wire.words import Reading
from workers.sensors.worker import open_eyes

_HEAT = "tctl"


def gpu(patient: Patient) -> Iterator[Finding]:
    """Look for the iGPU's nodes."""
    if not _has(patient, "hrx"):
        yield ok("gpu", "the table has no rows for the iGPU")
        return
    nodes = [*_nodes(patient.root, "dev/kfd"), *_nodes(patient.root, "dev/dri/renderD*")]
    if not nodes:
        yield warn(
            "gpu",
            "there is no /dev/kfd and no /dev/dri/renderD*: no AMD GPU's driver is loaded",
            "Rows of hrx are computed on the processor. On the appliance: `modprobe amdgpu`, see dmesg.",
        )
        return
    yield from _openable("gpu", nodes)


def npu(patient: Patient) -> Iterator[Finding]:
    """Look for the NPU's node, and whether its driver may pin memory."""
    if not _has(patient, "npu"):
        yield ok("npu", "the table has no rows for the NPU")
        return
    nodes = _nodes(patient.root, "dev/accel/accel*")
    if not nodes:
        yield warn(
            "npu",
            "there is no /dev/accel/accel*: no NPU's driver is loaded",
            "Rows of npu are computed on the processor. On the appliance: `modprobe amdxdna`, see dmesg.",
        )
        return
    yield from _openable("npu", nodes)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY:
        yield ok("memlock", "memory may be pinned without bound")
    else:
        yield fail(
            "memlock",
            f"at most {soft // 1024} KiB may be pinned; the NPU's driver pins a whole model",
            "`ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit of the NPU's worker.",
        )


def sensors(patient: Patient) -> Iterator[Finding]:
    """Read every sensor once."""
    conf = patient.settings.sensors
    if not conf.enabled:
        yield warn(
            "sensors", "they are switched off", "Set sensors.enabled to have heat and power."
        )
        return
    root = Path(conf.root)
    if not conf.replay and not ((root / "sys").is_dir() and (root / "proc").is_dir()):
        yield fail(
            "sensors",
            f"there is no sys and proc under sensors.root, {root}",
            "Set sensors.root to /, or to the tree that is to be read.",
        )
        return
    try:
        readings = _read(conf)
    except (FairlaneError, OSError) as error:
        yield fail("sensors", str(error), "See sensors.replay and sensors.root in the settings.")
        return
    known = [one.name for one in readings if one.valid]
    unknown = [f"{one.name} ({one.reason})" for one in readings if not one.valid]
    if any(one.name == _HEAT and not one.valid for one in readings):
        yield warn(
            "sensors",
            f"{_HEAT} is unknown: no rule on heat can fire",
            "Load k10temp (`modprobe k10temp`); Strix Halo needs a kernel of August 2025 or newer.",
        )
    rest = f"; unknown: {', '.join(unknown)}" if unknown else ""
    yield ok("sensors", f"{len(known)} of {len(readings)} readings are known{rest}")


def _read(conf: Sensors) -> list[Reading]:
    eyes = open_eyes(conf)
    try:
        return eyes.collect(time.monotonic()) or []
    finally:
        eyes.close()


def _has(patient: Patient, kind: str) -> bool:
    table = patient.table
    return table is None or any(row.device == kind for row in table.rows.values())


def _nodes(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern))


def _openable(check: str, nodes: list[Path]) -> Iterator[Finding]:
    closed = [node for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    for node in closed:
        group = _group(node.stat().st_gid)
        yield fail(
            check,
            f"{node} may not be opened; it belongs to the group {group}",
            f"`usermod -aG {group} USER` and log in again; in a unit SupplementaryGroups={group}.",
        )
    if not closed:
        yield ok(check, f"{', '.join(node.name for node in nodes)} may be opened")


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
