"""A scenario from end to end: each part under each scheduler, and the one object that is told of it."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct, structs

from ops.sim.crew import Done, Task, work
from ops.sim.figures import Figures, figures
from ops.sim.scenarios import SCENARIOS, Ask
from ops.sim.world import SCHEDULERS, Outcome, Plan, run

# figure -> which part's is told of all parts: the one that is worst by it
_WORST: dict[str, Callable[[list[Any]], Any]] = {
    "jain": min,
    "gap_over_bound": max,
    "weight_error": max,
}
_SUMS = (
    "idle_while_waiting_s",
    "fallbacks",
    "loads",
    "tickets",
    "refused",
    "virtual_s",
    "wall_s",
    "cpu_s",
)
_LIGHT = (
    "light_lane_max_wait_s",
    "light_lane_median_wait_s",
    "light_lane_bound_s",
    "light_lane_hold_s",
)

_ROUNDING = 1e-9


class Study(Struct, kw_only=True):
    """What was run so far. scheduler -> part -> figures."""

    scenario: str
    seed: int
    hours: float
    wall_s: float = 0.0
    interrupted: bool = False
    parts: dict[str, dict[str, Figures]]
    plans: dict[str, Plan]
    outcomes: dict[str, Outcome]  # scheduler -> of the first part, for the picture


def study(
    scenario: str,
    ask: Ask,
    tell: Callable[[str, float], None],
    *,
    jobs: int = 1,
    keep_logs: bool = False,
) -> Study:
    """Run a scenario.

    Args:
        scenario: Its name in the table.
        ask: What the command line asks of it.
        tell: Told what is run now and how far all of it is, 0 to 1.
        jobs: Processes to run it in, >= 1. The figures do not depend on it.
        keep_logs: Whether the first part's logs are needed afterwards; then this process runs it all.

    Returns:
        All of it; after Ctrl-C what there is.
    """
    row = SCENARIOS[scenario]
    hours = ask.hours or row.hours
    plans = row.parts(ask, hours * 3600.0, ask.lanes or row.lanes)
    made = Study(
        scenario=scenario,
        seed=ask.seed,
        hours=hours,
        parts={name: {} for name in SCHEDULERS},
        plans=plans,
        outcomes={},
    )
    began_at = time.perf_counter()
    tasks = _tasks(made)
    told: dict[tuple[str, str], Figures] = {}
    try:
        alone = jobs == 1 or keep_logs
        runs = _one_by_one(made, tasks, tell, keep_logs) if alone else work(tasks, jobs, tell)
        for done in runs:
            told[done.task.scheduler, done.task.part] = done.figures
            made.interrupted |= done.interrupted
    except KeyboardInterrupt:
        made.interrupted = True
    for scheduler, parts in made.parts.items():
        parts.update({part: told[scheduler, part] for part in plans if (scheduler, part) in told})
    made.interrupted |= len(told) < len(tasks)
    made.wall_s = time.perf_counter() - began_at
    return made


def _tasks(made: Study) -> list[Task]:
    """Return all runs; those of the fair queue, which take longest, come first."""
    return [
        Task(
            part,
            scheduler,
            plan if scheduler == "fair" else structs.replace(plan, tickets=plan.beside),
            f"{made.seed}/{part}",
        )
        for scheduler in SCHEDULERS
        for part, plan in made.plans.items()
    ]


def _one_by_one(
    made: Study, tasks: list[Task], tell: Callable[[str, float], None], keep_logs: bool
) -> Iterator[Done]:
    first = next(iter(made.plans))
    for number, task in enumerate(tasks):

        def tell_all(share: float, before: int = number, name: str = str(task)) -> None:
            tell(name, (before + share) / len(tasks))

        outcome = run(task.plan, task.scheduler, task.seed, tell_all)
        if keep_logs and task.part == first:
            made.outcomes[task.scheduler] = outcome
        yield Done(task, figures(task.plan, outcome), outcome.interrupted)
        if outcome.interrupted:
            return


def to_json(made: Study) -> dict[str, object]:
    """Return the object that `--json` prints."""
    return {
        "simulated": True,
        "scenario": made.scenario,
        "seed": made.seed,
        "virtual_hours": made.hours,
        "tickets": sum(f.tickets for parts in made.parts.values() for f in parts.values()),
        "wall_s": round(made.wall_s, 3),
        "interrupted": made.interrupted,
        "schedulers": {
            name: merged(parts, with_parts=not SCENARIOS[made.scenario].many)
            for name, parts in made.parts.items()
        },
    }


def merged(parts: dict[str, Figures], *, with_parts: bool) -> dict[str, object]:
    """Return the figures of all parts in one: the worst of each bound, the sum of each count."""
    runs = list(parts.values())
    out: dict[str, object] = {
        name: pick(values) if (values := _given(runs, name)) else None
        for name, pick in _WORST.items()
    }
    light = max(
        (f for f in runs if f.light_lane_max_wait_s is not None and f.light_lane_bound_s),
        key=lambda f: (f.light_lane_max_wait_s or 0.0) / (f.light_lane_bound_s or 1.0),
        default=None,
    )
    out |= {name: getattr(light, name) if light else None for name in _LIGHT}
    out |= {name: sum(getattr(f, name) for f in runs) for name in _SUMS}
    busy_s = sum(f.busy * f.virtual_s for f in runs)
    useful_s = sum((f.goodput or 0.0) * f.busy * f.virtual_s for f in runs)
    out["goodput"] = useful_s / busy_s if busy_s else None
    if with_parts:
        out["parts"] = {name: msgspec.to_builtins(f) for name, f in parts.items()}
    else:
        out |= _many(runs)
    return out


def _many(runs: list[Figures]) -> dict[str, object]:
    jains, gaps = _given(runs, "jain"), _given(runs, "gap_over_bound")
    alone = _given([f for f in runs if f.seats == 1], "gap_over_bound")
    return {
        "boxes": len(runs),
        "jain_median": median(jains) if jains else None,
        "gap_over_bound_median": median(gaps) if gaps else None,
        "boxes_over_bound": _over(gaps),
        "one_seat_boxes_over_bound": _over(alone),
    }


def _over(gaps: list[float]) -> int:
    return sum(gap > 1.0 + _ROUNDING for gap in gaps)


def _given(runs: list[Figures], name: str) -> list[float]:
    return [value for f in runs if (value := getattr(f, name)) is not None]
