"""How a broker goes on from what the one before it wrote down.

Rules of this file: nothing in a journal may keep the box from starting. A segment that cannot be used is
moved aside and told of, and the one before it is tried; where none is left the box starts empty.
"""

import logging
import math
import time
from pathlib import Path

from msgspec import Struct, structs

from scheduler import settings
from scheduler.bus.journal import segments, set_aside
from scheduler.bus.processes import Doomed
from scheduler.bus.segment import BadSegment, Header, Reader
from scheduler.core.appliance import Appliance
from scheduler.core.effects import Effect, Record
from scheduler.core.events import HoldKept, Restarted, WorkerKept
from scheduler.core.ticket import State
from scheduler.log import note

log = logging.getLogger(__name__)
_KERNEL = Path("/proc/sys/kernel/random/boot_id")


class Past(Struct, frozen=True):
    """What a segment led to."""

    core: Appliance
    header: Header
    last_at: float  # instant of its last event, by its clock
    events: int
    damage: str  # what could not be read of it; empty: nothing


def kernel_boot() -> str:
    """Return the id of the machine's own start, empty where it has none."""
    try:
        return _KERNEL.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def begin(start: Restarted, kernel: str, folder: Path, conf: settings.Journal) -> Appliance:
    """Return the core of this start of the broker: one that goes on where it can, else an empty one.

    Args:
        start: The start as far as it is known without a journal.
        kernel: Id of the machine's own start.
        folder: Where the segments are.
        conf: Whether there is a journal.
    """
    core = resume(folder, start, kernel, conf.keep) if conf.enabled else None
    return core or Appliance(
        start.catalogue, start.limits, boot=start.boot, at=start.at, weights=start.weights,
        memory=start.memory, npu=start.npu,
    )  # fmt: skip


def resume(folder: Path, fresh: Restarted, kernel: str, keep: int) -> Appliance | None:
    """Return a core that goes on from the newest segment that can be used, or None.

    Args:
        folder: Where the segments are.
        fresh: The event of the restart as far as this start knows it; the rest comes from the segment.
        kernel: Id of the machine's own start.
        keep: How many unusable segments stay on disk.
    """
    for path in segments(folder):
        began_at = time.monotonic()
        try:
            past = replayed(path)
            core = past.core
            event = _event(fresh, past, kernel)
            living = _kept(core, event.at) if event.same_kernel else []
            effects = core.handle(event)
            for one in living:
                effects += core.handle(one)
            core.check_invariants()
        except Exception as error:  # noqa: BLE001  # whatever is in the file, the box starts
            _alert(path, f"{type(error).__name__}: {error}")
            set_aside(path, keep)
            continue
        if past.damage:
            _alert(path, past.damage)
            set_aside(path, keep)
        _tell(effects, path, past, time.monotonic() - began_at)
        return core
    return None


def replayed(path: Path) -> Past:
    """Return where a segment leads.

    Raises:
        BadSegment: It cannot be used.
        OSError: It cannot be read.
    """
    with Reader(path) as reader:
        core = Appliance.restored(reader.checkpoint)
        last_at, events = reader.header.monotonic, 0
        for event in reader.events():
            core.handle(event)
            last_at, events = event.at, events + 1
        damage = f"its last {reader.left} bytes are damaged" if reader.is_damaged else ""
        return Past(core, reader.header, last_at, events, damage)


def _event(fresh: Restarted, past: Past, kernel: str) -> Restarted:
    header, at = past.header, fresh.at
    is_same = kernel != "" and header.kernel == kernel
    shift_s = 0.0
    if not is_same:  # the clocks of both starts meet in the wall clock
        shift_s = (at - time.time()) - (header.monotonic - header.wall)
        shift_s = min(shift_s, at - past.last_at)  # a wall clock that was set back
    if not math.isfinite(shift_s):
        raise BadSegment("its clocks are no numbers")
    boot = max(fresh.boot, header.boot + 1)  # also where the counter itself was lost
    return structs.replace(fresh, boot=boot, same_kernel=is_same, shift_s=shift_s)


def _kept(core: Appliance, at: float) -> list[HoldKept | WorkerKept]:
    """Return who lives and may still compute: only their devices wait."""
    return [*_kept_workers(core, at), *_kept_holds(core, at)]


def _kept_workers(core: Appliance, at: float) -> list[WorkerKept]:
    """Return the device workers that live: one may be stopped, and nobody else would ever miss it."""
    frozen = core.freeze()
    serving = [w for w in frozen.workers if w.device]
    ending = [d.ending for d in frozen.devices.values() if d.ending is not None]
    return [
        WorkerKept(at, w.name, w.device, w.pid, w.pid_started)
        for w in [*serving, *ending]
        if Doomed(w.name, w.pid, 0, w.pid_started, 0.0).lives
    ]


def _kept_holds(core: Appliance, at: float) -> list[HoldKept]:
    """Return the holds of outside lanes whose process group lives; nobody else may have their devices yet.

    One whose lease was over already, and whose group was being ended, has used up all its time: the core
    goes on ending it.
    """
    frozen = core.freeze()
    kept: list[HoldKept] = []
    for ticket in frozen.tickets:
        hold, asked = ticket.hold, ticket.asked
        if hold is None or ticket.number not in frozen.outside:
            continue
        if Doomed(asked.rid, hold.pid, hold.pgid, hold.pid_started, 0.0).lives:
            is_over = ticket.state is State.DRAINING
            held_s = hold.max_hold_s if is_over else at - ticket.granted_at
            kept.append(
                HoldKept(
                    at, asked.rid, ticket.lane, asked.name, asked.batch, ticket.lease,
                    hold.max_hold_s, hold.memory_bytes, hold.pid, hold.pgid, hold.pid_started,
                    hold.what, held_s,
                )
            )  # fmt: skip
    return kept


def _tell(effects: list[Effect], path: Path, past: Past, took_s: float) -> None:
    for effect in effects:
        if isinstance(effect, Record):
            facts = {"segment": path.name, "events": past.events, "took_s": round(took_s, 3)}
            note(log, effect.action, {**effect.fields, **facts})


def _alert(path: Path, error: str) -> None:
    note(log, "journal_bad", level=logging.ERROR, file=str(path), error=error[:500])
