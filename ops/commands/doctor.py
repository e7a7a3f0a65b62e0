"""`fairlane doctor`: looks at all that a box needs, and says what to do."""

import json
import os
import sys

import click
import msgspec

from ops.commands.common import friendly
from ops.commands.exits import Exit, finish
from ops.doctor.checks import examine
from ops.doctor.finding import Finding, State

_COLORS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of lines.")
@click.pass_context
@friendly
def doctor(ctx: click.Context, *, as_json: bool) -> None:
    """Check settings, build, sockets, ports, disk, devices, sensors and models, and say what to do.

    Nothing is changed, and no box has to run. Exit status 1: at least one check failed.
    """
    out = sys.stdout  # a library that is looked at may print
    found: list[Finding] = []
    for finding in examine(os.environ, ctx.find_root().obj):
        found.append(finding)
        if not as_json:
            click.echo(_line(finding), file=out)
    failed = sum(one.state is State.FAIL for one in found)
    warned = sum(one.state is State.WARN for one in found)
    if as_json:
        view = {"ok": not failed, "findings": msgspec.to_builtins(found)}
        click.echo(json.dumps(view, indent=2), file=out)
    else:
        click.echo(f"{len(found)} findings: {failed} failed, {warned} to know", file=out)
    finish("", Exit.FAILED if failed else Exit.OK)


def _line(finding: Finding) -> str:
    state = click.style(f"{finding.state:4}", fg=_COLORS[finding.state])
    lines = [f"{state}  {finding.check:9} {finding.text}"]
    if finding.remedy:
        lines.append(f"      {'':9} -> {finding.remedy}")
    return "\n".join(lines)
