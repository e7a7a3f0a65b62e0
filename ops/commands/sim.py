"""`fairlane sim`: the scheduler's own core on virtual time, beside FIFO and round robin."""

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ops.commands.common import Amount, friendly
from ops.sim.scenarios import SCENARIOS, Ask

_FILE_WIDTH = 120  # columns of a table that goes to a file
_TABLE = "\n".join(f"  {name:<9} {row.text}" for name, row in SCENARIOS.items())


@click.command(help=f"Run a scenario of modelled lanes on a modelled device.\n\n\b\n{_TABLE}")
@click.argument("scenario", type=click.Choice(list(SCENARIOS)), default="fairness")
@click.option("--seed", default=1, show_default=True, help="The same seed brings the same run.")
@click.option("--hours", type=Amount(min=0.001, max=10_000), help="Virtual hours.")
@click.option("--lanes", type=click.IntRange(min=1, max=60), help="Lanes of the scenario.")
@click.option(
    "--boxes", type=click.IntRange(min=1, max=100_000), help="Boxes of `fleet` and `load`."
)
@click.option("--tickets", type=click.IntRange(min=1), help="Tickets of `load`, in all.")
@click.option("--jobs", type=click.IntRange(min=1, max=256), help="Processes; default: one a core.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw service over time to this file.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@friendly
def sim(
    scenario: str,
    *,
    seed: int,
    hours: float | None,
    lanes: int | None,
    boxes: int | None,
    tickets: int | None,
    jobs: int | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Run a scenario; Ctrl-C prints what there is."""
    from ops.sim.chart import chart
    from ops.sim.report import show
    from ops.sim.study import study, to_json

    ask = Ask(seed=seed, hours=hours, lanes=lanes, boxes=boxes, tickets=tickets)
    with _progress() as tell:
        cores = len(os.sched_getaffinity(0))
        made = study(scenario, ask, tell, jobs=jobs or cores, keep_logs=svg is not None)
    if svg is not None:
        svg.write_text(chart(made), encoding="utf-8")
    if as_json:
        print(json.dumps(to_json(made), indent=2))
    else:
        console = Console()
        show(made, console if console.is_terminal else Console(width=_FILE_WIDTH))
    if made.interrupted:
        raise SystemExit(130)


@contextmanager
def _progress() -> Generator[Callable[[str, float], None], None, None]:
    """Show how far a study is, on standard error and only to a person."""
    if not sys.stderr.isatty():
        yield lambda what, done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, done: bar.update(task, description=what, completed=done)
