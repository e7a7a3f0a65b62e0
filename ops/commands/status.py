"""`fairlane status`."""

import json
from typing import Any

import click

from ops.commands.common import friendly, load, reach, terminal
from scheduler.harmless import harmless

_WAITS_FOR = {
    "row": "a row of the NPU in the table",
    "drain": "the end of the drain",
    "npu": "an NPU that has nothing to do",
    "quarantine": "the end of the quarantine",
    "memory": "memory that no other device's row takes",
    "gpu": "somebody who holds the GPU",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@friendly
def status(*, as_json: bool) -> None:
    """Show devices, workers and what waits."""
    with reach(load()) as client:
        view = client.status()
    if as_json:
        print(json.dumps(view, indent=2))
    else:
        _print_table(harmless(view))


def _print_table(view: dict[str, Any]) -> None:
    from rich.table import Table  # 60 ms that `--json` need not pay

    console = terminal(120)
    ready = "ready" if view["ready"] else "not ready"
    if view["draining"]:
        ready += f", takes no new work (it drains, {view['open']} open)"
    console.print(
        f"Fairlane {view['version']}, {ready}, up {view['up_s']:.0f} s, table {view['table']}, "
        f"{view['conversations']} conversations bound"
    )
    table = Table("device", "worker", box=None, padding=(0, 1, 0, 0))
    table.add_column("loaded", overflow="fold")  # the end of a name is what tells two rows apart
    for title in ("held by", "waiting", "busy s"):
        table.add_column(title)
    for name, device in view["devices"].items():
        worker: dict[str, Any] = device["worker"] or {}
        table.add_row(
            name,
            f"{worker['backend']}, pid {worker['pid']}" if worker else "none",
            ", ".join(worker.get("resident", [])),
            ", ".join(f"{h['lane']} {h['held_s']:.0f} s" for h in device["holders"]),
            str(device["waiting"]),
            f"{device['busy_s']:.0f}",
        )
    for helper in [*view["scorers"], *view["store"], *view["sensors"]]:
        table.add_row(helper["name"], f"{helper['backend']}, pid {helper['pid']}")
    console.print(table)
    if view["npu"] is not None:
        console.print(_trust(view["npu"]))
    for pull in view["pulls"]:
        total = pull["total_bytes"]
        of_all = f" of {total / 1e6:.1f}" if total is not None else ""
        console.print(
            f"pulling {pull['model']}: {pull['done_bytes'] / 1e6:.1f}{of_all} MB, "
            f"for {pull['since_s']:.0f} s, {pull['waiting']} waiting"
        )
    for model, stock in view["not_on_disk"].items():
        console.print(f"not usable: {model}, {stock['state']}: {stock['reason'] or 'not on disk'}")
    for model, rest in view["resting"].items():
        console.print(f"resting: {model}, {rest['cause']}, tried again in {rest['left_s']:.0f} s")


def _trust(npu: dict[str, Any]) -> str:
    """Return a line on what is moved to the NPU, and what is not."""
    parts: list[str] = []
    if npu["canary"] != "off":
        said = {True: "passed", False: "failed", None: "not sent yet"}[npu["canary_passed"]]
        versions = ", ".join(f"{k} {v or 'unknown'}" for k, v in npu["versions"].items())
        parts.append(f"canary {'running' if npu['canary_running'] else said} under {versions}")
        if npu["canary_waits_for"]:
            parts.append(f"the canary waits for {_WAITS_FOR[npu['canary_waits_for']]}")
    if npu["quarantined"]:
        left_s = npu["quarantine_left_s"]
        until = f"for {left_s:.0f} s" if left_s else "until the next try"
        parts.append(f"quarantined {until} after {npu['crashes']} crashes")
    return "npu: " + "; ".join(parts or ["nothing against it"])
