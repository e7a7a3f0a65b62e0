"""`fairlane up` and `fairlane demo`."""

import asyncio
import os
from pathlib import Path

import click

from ops.commands.common import friendly, load
from ops.demo import show
from ops.supervisor import Supervisor
from ops.table import load_table
from scheduler import log
from scheduler.bus import lock
from scheduler.settings import Settings
from workers.pinned import load_pinned


@click.command()
@click.option(
    "--laya-first", "table", default="", help="The table: a path, embedded or laya-first."
)
@click.option(
    "--template-pin-strict",
    "is_strict",
    is_flag=True,
    help="Refuse to load a file whose chat template is not the pinned one.",
)
@friendly
def up(table: str, *, is_strict: bool) -> None:
    """Start broker, gateway, helpers and device workers, and keep them up until Ctrl-C."""
    if table:
        os.environ["FAIRLANE__TABLE"] = table  # the processes that this one starts read it too
    if is_strict:
        os.environ["FAIRLANE__WORKERS__TEMPLATE_PIN_STRICT"] = "true"
    asyncio.run(_supervisor(load()).run())


@click.command()
@friendly
def demo() -> None:
    """Start the box, ask it three prompts through its own HTTP front, and keep serving."""
    quiet = {"FAIRLANE__LOG_LEVEL": "WARNING", **os.environ}  # the three answers are the talk here
    os.environ.update(quiet)
    print("starting broker, gateway, scorer and device workers ...", flush=True)
    asyncio.run(_supervisor(load()).run(show))


def _supervisor(settings: Settings) -> Supervisor:
    log.configure("up", level=settings.log_level)
    lock.check_free(Path(settings.run_dir), Path(settings.state_dir))
    table = load_table(settings).table  # refused here, in one place, before anything starts
    load_pinned(settings.workers.template_pins, is_strict=False)
    kinds = sorted({row.device for row in table.rows.values()})
    return Supervisor(settings, kinds, dict(os.environ))
