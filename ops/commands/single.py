"""`fairlane broker`, `gateway`, `worker`: one process of the box, for those who supervise otherwise."""

import sys

import click

from ops import processes
from ops.commands.common import friendly, load


@click.command()
@friendly
def broker() -> None:
    """Run the broker until Ctrl-C."""
    sys.exit(processes.run("broker", load()))


@click.command()
@friendly
def gateway() -> None:
    """Run the HTTP front until Ctrl-C."""
    sys.exit(processes.run("gateway", load()))


@click.command()
@click.argument("kind", type=click.Choice(["scorer", "store", "sensors", "hrx", "npu", "cpu"]))
@friendly
def worker(kind: str) -> None:
    """Run one worker until Ctrl-C."""
    sys.exit(processes.run(kind, load()))
