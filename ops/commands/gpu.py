"""`fairlane gpu`: run a program while a device is held for it, by the same queue as the workers."""

import json
import os
import re
import shutil
import time
import uuid
from typing import Any

import click

from ops.commands.common import Amount, complain, friendly, knock, load, reach, terminal
from ops.commands.exits import Exit
from scheduler.harmless import harmless

_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_WAIT_S = 86_400.0
_NAME_MAX = 256  # characters of the command that others are shown
_SIZE_MAX = 2**62  # bytes
_SCRIPT = """Hold the device for a script: print the hold's name, keep it until Ctrl-C or `gpu release NAME`.

\b
    hold=$(fairlane gpu hold --lane bench --background)
    ./measure
    fairlane gpu release "$hold"
"""


class Size(click.ParamType[int]):
    """A number of bytes: 512M, 40G (powers of 1024), or 40GB (powers of 1000)."""

    name = "SIZE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return bytes."""
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(iB|B)?", str(value), re.IGNORECASE)
        if found is None:
            self.fail(f"{value} is no size; write 40G or 512M", param, ctx)
        number, unit, ending = found.groups()
        scale = _SIZES[unit.upper()]
        if ending and ending.upper() == "B":
            scale = 1000 ** ("_KMGT".index(unit.upper()) if unit else 0)
        size = float(number) * scale
        if size > _SIZE_MAX:
            self.fail(f"{value} is more memory than there is", param, ctx)
        return int(size)


_lane = click.option("--lane", required=True, help="Whose work this is.")
_device = click.option("--device", default="", help="hrx0, npu0, or a kind. Default: the iGPU.")
_priority = click.option(
    "--priority",
    type=click.Choice(["interactive", "batch"]),
    default="interactive",
    show_default=True,
    help="Order among the tickets of the lane.",
)
_wait = click.option(
    "--wait",
    type=Amount(min=0.001, max=_WAIT_S),
    default=_WAIT_S,
    show_default="a day",
    help="Seconds to wait for the device.",
)
_max_hold = click.option(
    "--max-hold",
    type=Amount(min=0.1, max=_WAIT_S),
    help="Longest time to hold in seconds.  [default: limits.hold_s, 600]",
)
_memory = click.option("--memory", type=Size(), default=0, help="Memory it will take, such as 40G.")


@click.group()
def gpu() -> None:
    """Hold a device for a program beside the workers, by the same fair queue."""


@gpu.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_lane
@_device
@_priority
@_max_hold
@_memory
@_wait
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@friendly
def run(  # noqa: PLR0917  # the options of a command
    lane: str,
    device: str,
    priority: str,
    max_hold: float | None,
    memory: int,
    wait: float,
    command: tuple[str, ...],
) -> None:
    """Wait for the device, run COMMAND on it, give it back. The exit status is the command's.

    Near the end of the longest time its processes get SIGUSR1, those that handle it. When the lease is over
    they get SIGTERM, and SIGKILL 5 s later.
    """
    from ops.outside.command import NOT_EXECUTABLE, NOT_FOUND, Command
    from ops.outside.holder import Holder
    from scheduler.bus.holding import Holding

    settings = load()
    knock(settings)
    if shutil.which(command[0]) is None:
        is_there = os.path.lexists(command[0]) and os.sep in command[0]
        complain(f"{harmless(command[0])}: {'not executable' if is_there else 'not found'}")
        raise SystemExit(NOT_EXECUTABLE if is_there else NOT_FOUND)
    name = uuid.uuid4().hex[:12]
    child = Command(command, name)  # before there is a thread that a fork would lose
    group = child.group
    request = _request(
        name, lane, device, priority, wait, max_hold, memory, " ".join(command), group
    )
    holder = Holder(settings.frontend(), Holding(request, time.monotonic()), group)
    try:
        status = holder.acquire()
        if status is None:
            status = holder.run(child)
    finally:
        child.drop()
        holder.close()
    raise SystemExit(status)


@gpu.command(help=_SCRIPT)
@_lane
@_device
@_priority
@_memory
@_wait
@click.option(
    "--for", "for_s", type=Amount(min=0.1, max=_WAIT_S), help="Give it back after so many seconds."
)
@click.option(
    "--background",
    is_flag=True,
    help="Print the hold's name and return; it ends with the calling shell at the latest.",
)
@click.option(
    "--group",
    "with_group",
    is_flag=True,
    help="The calling process group uses the device: it is ended when the lease is lost.",
)
@friendly
def hold(  # noqa: PLR0917  # the options of a command
    lane: str,
    device: str,
    priority: str,
    memory: int,
    wait: float,
    for_s: float | None,
    *,
    background: bool,
    with_group: bool,
) -> None:
    """Hold the device for a script; _SCRIPT says how."""
    from ops.outside.background import detach

    settings = load()
    knock(settings)
    caller = os.getppid()
    say = detach() if background else None  # before there is a thread that a fork would lose

    from ops.outside.command import Group
    from ops.outside.holder import Holder
    from scheduler.bus import processes
    from scheduler.bus.holding import Holding

    pgid = os.getpgid(caller) if with_group else 0
    leader = pgid or os.getpid()
    group = Group(pgid, leader, processes.started_at(leader))
    longest = for_s + 60.0 if for_s is not None else None
    name = uuid.uuid4().hex[:12]
    what = f"held by {_name_of(caller)}"
    request = _request(name, lane, device, priority, wait, longest, memory, what, group)
    holder = Holder(settings.frontend(), Holding(request, time.monotonic()), group)
    try:
        status = holder.acquire()
        if status is None:
            if say is not None:
                say(name)
            else:
                print(name, flush=True)
            status = holder.keep(for_s, processes.seen(caller) if background else None)
    finally:
        holder.close()
    raise SystemExit(status)


@gpu.command()
@click.argument("name")
@friendly
def release(name: str) -> None:
    """End the hold of that NAME (or lease), whoever has it. The command under it is ended."""
    with reach(load()) as client:
        view = client.outside()
        held = [
            holder
            for device in view.values()
            for holder in device["holders"]
            if holder["outside"] and name in {holder["id"], str(holder["lease"])}
        ]
        if not held or not client.release(held[0]["id"], held[0]["lease"]):
            complain(f"no hold '{harmless(name)}'; see `fairlane gpu ls`")
            raise SystemExit(Exit.FAILED)


@gpu.command("ls")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@friendly
def list_(*, as_json: bool) -> None:
    """Show who holds each device and who waits for it."""
    with reach(load()) as client:
        view = client.outside()
    if as_json:
        print(json.dumps(view, indent=2))
    else:
        _print(harmless(view))


def _request(  # noqa: PLR0917  # the fields of one message
    name: str,
    lane: str,
    device: str,
    priority: str,
    wait: float,
    max_hold: float | None,
    memory: int,
    what: str,
    group: Any,
) -> Any:
    from scheduler.wire.messages import Hold

    return Hold(
        id=name,
        lane=_text(lane),
        expires_at=time.monotonic() + wait,
        pid=group.pid,
        pid_started=group.started,
        pgid=group.pgid,
        device=_text(device),
        batch=priority == "batch",
        max_hold_s=max_hold or 0.0,
        memory_bytes=memory,
        what=_text(what),
    )


def _text(words: str) -> str:
    """Return words of the command line as text: a file's name may hold bytes that are none."""
    return words.encode(errors="replace").decode()[:_NAME_MAX]


def _name_of(pid: int) -> str:
    from pathlib import Path

    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "a process"


def _print(view: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table("device", "lane", "state", "what", box=None, padding=(0, 1, 0, 0))
    for title in ("pid", "held s", "left s", "waited s", "name"):
        table.add_column(title, justify="left" if title == "name" else "right", no_wrap=True)
    for device, there in view.items():
        rows = [*there["holders"], *there["waiters"]]
        if there["ending_pid"]:
            table.add_row(device, "", "ending", "a lost worker", str(there["ending_pid"]))
        for row in rows:
            table.add_row(
                device, row["lane"], row["state"], row["what"], _shown(row["pid"]),
                _shown(row["held_s"]), _shown(row["max_hold_left_s"]), _shown(row["waited_s"]),
                row["id"] if row["outside"] else "",
            )  # fmt: skip
        if not rows:
            table.add_row(device, "", "free")
    terminal(140).print(table)


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
