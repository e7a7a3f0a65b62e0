"""`fairlane models`: what the models directory has, and what of it is used."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from ops.commands.common import friendly, load, reach
from ops.commands.exits import Exit, finish
from ops.table import load_table
from policies.pins import DEFAULT_TEMPLATE
from policies.table import Table
from scheduler.errors import FairlaneError
from scheduler.settings import Settings
from workers.engines import IN_PROCESS, engine_of
from workers.store.library import Busy, Item, Library, Unknown

_SHORT = 10  # digits of a digest in a table
_TICK = 1 << 20  # bytes that a tick of `verify` stands for


@click.group()
def models() -> None:
    """Show, remove or verify the files of models. No box has to run."""


@models.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@friendly
def ls(*, as_json: bool) -> None:
    """List the rows of the table in force, and files that no row names."""
    conf = load()
    table = load_table(conf).table
    items = Library(Path(conf.store.dir), table).items()
    where = _loaded(conf)
    lines = [_line(item, table, where, conf.workers.engine) for item in items]
    if as_json:
        finish(json.dumps({"dir": conf.store.dir, "models": lines}))
    _print(conf.store.dir, lines)


@models.command()
@click.argument("model")
@click.option("--force", is_flag=True, help="Also if it is loaded or being pulled.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@friendly
def rm(model: str, *, force: bool, as_json: bool) -> None:
    """Remove the files of MODEL, as `ls` names it, from the models directory."""
    conf = load()
    library = Library(Path(conf.store.dir), load_table(conf).table)
    was_there = any(item.files for item in library.items() if item.model == model)
    try:
        count = library.remove(model, force=force)
    except Busy as error:
        text = f"{error}; --force removes it all the same"
        finish(json.dumps({"error": text}) if as_json else text, Exit.REFUSED)
    except Unknown as error:
        finish(json.dumps({"error": str(error)}) if as_json else str(error), Exit.FAILED)
    finish(
        json.dumps({"removed": model, "bytes": count})
        if as_json
        else f"removed {model}, {_gib(count)}"
        if was_there
        else f"nothing of {model} was on disk"
    )


@models.command()
@click.argument("names", metavar="[MODEL]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@friendly
def verify(names: tuple[str, ...], *, as_json: bool) -> None:
    """Read the files of MODELs again, by default of all there are, and compare them with their records."""
    conf = load()
    library = Library(Path(conf.store.dir), load_table(conf).table)
    items = {item.model: item for item in library.items()}
    asked = names or [
        name for name, one in items.items() if one.files or one.state in {"ready", "mismatch"}
    ]
    total = sum(sum(items[name].files.values()) for name in asked if name in items)
    found: list[dict[str, Any]] = []
    try:
        with _bar(total) as tick:
            for name in asked:
                checked = library.verify(name, tick)
                found += [{**msgspec.structs.asdict(one), "model": name} for one in checked]
    except Unknown as error:
        finish(json.dumps({"error": str(error)}) if as_json else str(error), Exit.FAILED)
    is_whole = all(one["is_whole"] for one in found)
    if as_json:
        text = json.dumps({"is_whole": is_whole, "files": found})
    else:
        marks = {True: "ok ", False: "BAD"}
        lines = [
            f"{marks[bool(f['is_whole'])]} {f['model']}  {f['file']}: {f['message']}" for f in found
        ]
        text = "\n".join(lines or ["nothing is on disk"])
    finish(text, Exit.OK if is_whole else Exit.FAILED)


def _loaded(conf: Settings) -> dict[str, list[str]] | None:
    """Return row -> devices on which it is loaded; None: no box runs, or it does not say."""
    try:
        with reach(conf) as client:
            view = client.status()
    except FairlaneError:
        return None
    where: dict[str, list[str]] = {}
    for name, device in view["devices"].items():
        worker: dict[str, Any] = device["worker"] or {}
        for model in worker.get("resident", []):
            where.setdefault(model, []).append(name)
    return where


def _line(
    item: Item, table: Table, where: dict[str, list[str]] | None, engine: str
) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(item)
    row = table.rows.get(item.model)
    is_here = row is not None and engine_of(row, engine) == IN_PROCESS
    facts["unused"] = [extra.role for extra in row.extra_files] if row and is_here else []
    facts["classes"] = _uses(item.model, table) if item.is_named else []
    facts["loaded_on"] = None if where is None else where.get(item.model, [])
    return facts


def _uses(model: str, table: Table) -> list[str]:
    """Return what a row is for: classes, and as what if it is not their own row."""
    uses = ["default"] if model == table.default_model else []
    for name, one in table.classes.items():
        moved = one.on_busy.model if one.on_busy else None
        rows = {"": one.model, " (fallback)": one.fallback, " (busy)": moved}
        uses += [f"{name}{how}" for how, row in rows.items() if row == model]
    return uses


def _print(folder: str, lines: list[dict[str, Any]]) -> None:
    from rich.console import Console  # 60 ms that `--json` need not pay
    from rich.table import Table as Shown

    console = Console()
    if not console.is_terminal:
        console.width = 160  # no window's edge cuts what goes into a file
    shown = Shown(box=None, padding=(0, 1, 0, 0))
    for title in ("model", "state", "size", "sha256", "template", "used by", "loaded on"):
        shown.add_column(title, overflow="fold")
    for one in lines:
        digests: list[str] = list(one["sha256"].values())
        loaded: list[str] | None = one["loaded_on"]
        shown.add_row(
            one["model"],
            _state(one),
            _gib(one["bytes"]) if one["bytes"] else "",
            digests[0][:_SHORT] if digests else "",
            one["templates"].get(DEFAULT_TEMPLATE, "")[:_SHORT],
            ", ".join(one["classes"]) if one["is_named"] else "nothing",
            "?" if loaded is None else ", ".join(loaded),
        )
    console.print(shown)
    about = "" if lines and lines[0]["loaded_on"] is not None else "; no box runs, so ? is loaded"
    console.print(f"{folder}{about}", highlight=False)


def _state(one: dict[str, Any]) -> str:
    """Return a row's state with what is to be said of it."""
    said: list[str] = [one["reason"]] if one["reason"] else []
    if one["unused"]:
        said.append(
            f"served without its {', '.join(one['unused'])}: the in-process engine uses none"
        )
    return ": ".join([one["state"], "; ".join(said)]) if said else one["state"]


@contextmanager
def _bar(total: int) -> Generator[Callable[[], None]]:
    """Show how far `verify` is, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("verify", total=total)
        yield lambda: shown.advance(task, _TICK)


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
