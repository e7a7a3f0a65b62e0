"""`fairlane pull`: has the box bring rows of its table to this machine, and shows how far it is."""

import json
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import click

from ops.commands.common import friendly, load, reach
from ops.commands.exits import Exit
from scheduler.bus.client import Client
from scheduler.errors import Refused

Progress = Callable[[str, int, int | None], None]  # model, bytes here, bytes in all
LINE_S = 5.0  # where nobody watches a bar: seconds between two lines
_GOES_ON = "fairlane: the pull goes on in the box; `fairlane status` shows how far it is"


@click.command()
@click.argument("name", required=False, metavar="CLASS|MODEL")
@click.option("--seed", is_flag=True, help="All rows of the table, the default model first.")
@click.option("--json", "as_json", is_flag=True, help="What became of each row, as one object.")
@friendly
def pull(name: str | None, *, seed: bool, as_json: bool) -> None:
    """Bring the files of a row here and check them. Ctrl-C leaves, and the pull goes on in the box."""
    if (name is None) != seed:
        raise click.UsageError("name a class or a model, or say --seed")
    with reach(load()) as client:
        view = client.models()
        models = _order(view) if name is None else [view["classes"].get(name, name)]
        try:
            with _shown(as_json=as_json) as progress:
                done = [_one(client, model, progress) for model in models]
        except KeyboardInterrupt:
            print(_GOES_ON, file=sys.stderr)
            raise
        sizes = {row["id"]: row["bytes"] for row in client.models()["rows"]}
    for one in done:
        one["bytes"] = sizes.get(one["model"])
    if as_json:
        print(json.dumps({"pulled": done}, indent=2))
    else:
        _tell(done)
    if any(one["error"] for one in done):
        raise SystemExit(Exit.REFUSED)


def _order(view: dict[str, Any]) -> list[str]:
    """Return all rows, the default of the table's own collection first: it is what stands in."""
    rows = [row["id"] for row in view["rows"]]
    return sorted(rows, key=lambda model: model != view["default_model"])


def _one(client: Client, model: str, progress: Progress) -> dict[str, Any]:
    """Pull one row; what goes wrong with it is part of the result."""
    began_at = time.monotonic()
    waited, error = False, None
    try:
        for name, here, in_all in client.pull(model):
            waited = True
            progress(name, here, in_all)
    except Refused as refused:
        error = str(refused)
    seconds = round(time.monotonic() - began_at, 3) if waited else None
    return {"model": model, "seconds": seconds, "error": error}


def _tell(done: list[dict[str, Any]]) -> None:
    for one in done:
        if one["error"]:
            print(f"fairlane: {one['error']}", file=sys.stderr)
            continue
        size = f", {one['bytes'] / 1e6:.1f} MB" if one["bytes"] else ""
        how = "was on disk" if one["seconds"] is None else f"pulled in {one['seconds']:.1f} s"
        print(f"{one['model']}: {how}{size}")


@contextmanager
def _shown(*, as_json: bool) -> Generator[Progress]:
    """Yield what shows progress on standard error: a bar on a terminal, else a line now and then."""
    if as_json or not sys.stderr.isatty():
        yield _lines(quiet=as_json)
        return
    from rich import progress as rich  # 60 ms that `--json` need not pay
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, rich.TaskID] = {}

        def show(model: str, here: int, in_all: int | None) -> None:
            if model not in tasks:
                tasks[model] = bars.add_task(model, total=in_all)
            bars.update(tasks[model], completed=here, total=in_all)

        yield show


def _lines(*, quiet: bool) -> Progress:
    told_at = 0.0

    def show(model: str, here: int, in_all: int | None) -> None:
        nonlocal told_at
        now = time.monotonic()
        if quiet or now - told_at < LINE_S:
            return
        told_at = now
        of_all = f" of {in_all / 1e6:.1f}" if in_all is not None else ""
        print(f"{model}: {here / 1e6:.1f}{of_all} MB", file=sys.stderr, flush=True)

    return show
