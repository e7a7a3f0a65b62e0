"""Runs of a study side by side, one process a core. A run is its plan's and its seed's alone.

The processes are deaf to Ctrl-C, which a terminal sends to all of them: the first process hears it, says
so through an event, and takes what each run has until then.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing.sharedctypes import SynchronizedArray
from multiprocessing.synchronize import Event

from msgspec import Struct

from ops.sim.figures import Figures, figures
from ops.sim.world import Plan, run

_LOOK_S = 0.2  # between two looks at how far the runs are


class Task(Struct, frozen=True):
    """One run: a part of a scenario under a scheduler."""

    part: str
    scheduler: str
    plan: Plan
    seed: str

    def __str__(self) -> str:
        return f"{self.part}, {self.scheduler}"


class Done(Struct, frozen=True):
    """What came of a task."""

    task: Task
    figures: Figures
    interrupted: bool


class _Shared:
    """What a process of the crew was given at its start."""

    stop: Event
    shares: "SynchronizedArray[float]"


def work(tasks: list[Task], jobs: int, tell: Callable[[str, float], None]) -> Iterator[Done]:
    """Run tasks in so many processes and yield what came of them, in no order.

    Args:
        tasks: The longest first.
        jobs: Processes, >= 1.
        tell: Told what is run now and how far all of it is, 0 to 1.

    Yields:
        All of them; after Ctrl-C those that had begun, cut short and marked so.
    """
    context = multiprocessing.get_context("spawn")  # a progress bar's thread must not be forked
    stop, shares = context.Event(), context.Array("d", len(tasks))
    with ProcessPoolExecutor(jobs, context, _begin, (stop, shares)) as pool:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # what starts now inherits it
        try:
            open_tasks = {pool.submit(_run, n, task): task for n, task in enumerate(tasks)}
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while open_tasks:
            try:
                finished, _ = wait(open_tasks, _LOOK_S, return_when="FIRST_COMPLETED")
                tell(str(next(iter(open_tasks.values()))), sum(shares[:]) / len(tasks))
            except KeyboardInterrupt:
                stop.set()
                _give_up(open_tasks)
                continue
            for future in finished:
                task = open_tasks.pop(future)
                told, interrupted = future.result()
                yield Done(task, told, interrupted)


def _give_up(open_tasks: "dict[Future[tuple[Figures, bool]], Task]") -> None:
    """Forget the tasks that have not begun."""
    for future in list(open_tasks):
        if future.cancel():
            del open_tasks[future]


def _begin(stop: Event, shares: "SynchronizedArray[float]") -> None:
    _Shared.stop, _Shared.shares = stop, shares


def _run(number: int, task: Task) -> tuple[Figures, bool]:
    def tell(share: float) -> None:
        _Shared.shares[number] = share
        if _Shared.stop.is_set():
            raise KeyboardInterrupt

    outcome = run(task.plan, task.scheduler, task.seed, tell)
    _Shared.shares[number] = 1.0
    return figures(task.plan, outcome), outcome.interrupted
