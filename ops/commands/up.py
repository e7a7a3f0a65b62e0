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


@click.command()
@click.option(
    "--laya-first", "table", default="", help="The table: a path, embedded or laya-first."
)
@friendly
def up(table: str) -> None:
    """Start broker, gateway, helpers and device workers, and keep them up until Ctrl-C."""
    if table:
        os.environ["FAIRLANE__TABLE"] = table  # the processes that this one starts read it too
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
    lock.check_free(Path(settings.run_dir))
    table = load_table(settings).table  # refused here, in one place, before anything starts
    kinds = sorted({row.device for row in table.rows.values()})
    return Supervisor(settings, kinds, dict(os.environ))
