"""The processes of a box, each started by one function: broker, gateway, helpers, device workers.

`python -m ops.processes KIND` is what the supervisor runs; the commands of the same names call the same
functions. Imports are inside the functions, so that no process pays for the others' libraries.
"""

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from policies.row import Row
from scheduler import log, settings
from scheduler.errors import FairlaneError
from scheduler.settings import Settings
from scheduler.wire.messages import Ready
from scheduler.wire.words import Kind
from workers.build import UnusableBuild
from workers.engine import Engine
from workers.pinned import Pinned
from workers.process import die_with_parent, started_at

SUPERVISOR = "FAIRLANE_SUPERVISOR"  # pid of the supervisor, in the environment of what it starts
UNUSABLE = 78  # exit status of a process that would fail again at once (EX_CONFIG of sysexits.h)


def broker(conf: Settings) -> None:
    """Run the broker."""
    from ops.table import load_table
    from policies.desugar import POLICY_NAME
    from scheduler.bus import lock
    from scheduler.bus.broker import Broker, next_boot
    from scheduler.bus.journal import Journal
    from scheduler.bus.resume import begin, kernel_boot
    from scheduler.core.catalogue import from_table
    from scheduler.core.events import Restarted
    from scheduler.wire.catalogue import CatalogueBody

    lock.take(Path(conf.run_dir))  # both are held until this process ends
    lock.take_state(Path(conf.state_dir))
    source = load_table(conf)
    named = {name: lane.weight for name, lane in conf.lanes.items()}
    kernel = kernel_boot()
    start = Restarted(
        at=time.monotonic(),
        boot=next_boot(Path(conf.state_dir)),
        same_kernel=False,
        shift_s=0.0,
        catalogue=from_table(source.table, collection=POLICY_NAME, aliases=conf.aliases),
        limits=conf.limits,
        weights={**source.table.weights, **named},
        memory=_memory(conf),
        npu=conf.npu,
    )
    folder = Path(conf.state_dir) / "journal"
    core = begin(start, kernel, folder, conf.journal)
    journal = Journal(folder, conf.journal, core, kernel)
    catalogue = CatalogueBody(source.text, overlay=source.overlay)
    supervisor = int(os.environ.get(SUPERVISOR, "0"))  # it lives: its end would be ours
    about: dict[str, str | int] = {
        "version": version("fairlane"),
        "table": source.name,
        "supervisor": supervisor,
    }
    Broker(core, catalogue, conf.frontend(), conf.backend(), about=about, journal=journal).run()


def _memory(conf: Settings) -> int:
    """Return the bytes that models and outside lanes may take together."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if conf.memory.budget_gib:
        return int(conf.memory.budget_gib * 2**30)
    return total - conf.memory.kept_free(total)


def gateway(conf: Settings) -> None:
    """Run the HTTP front."""
    from scheduler.gateway.server import run

    run(conf)


def scorer(conf: Settings) -> None:
    """Run a scorer worker."""
    from workers.circuit import open_classifier
    from workers.runner import Runner
    from workers.scorer import Scorer
    from workers.session import Session

    classifier = open_classifier(conf.scorer)  # warm, or still at it: what is not warm is not READY
    try:
        helper = Scorer(classifier, conf.frontend())
        ready = _ready("scorer", "", 1, classifier.name)
        Runner(Session(ready), conf.backend(), helper=helper).run()
    finally:
        classifier.close()


def store(conf: Settings) -> None:
    """Run the store worker."""
    from workers.runner import Runner
    from workers.session import Session
    from workers.store.worker import Store

    helper = Store(Path(conf.state_dir) / "policies", conf.store)
    Runner(Session(_ready("store", "", 1, "files")), conf.backend(), helper=helper).run()


def sensors(conf: Settings) -> None:
    """Run the sensors worker."""
    os.nice(5)  # nobody waits for it, least of all a box that starts
    from workers.runner import Runner
    from workers.sensors.worker import Sensors
    from workers.session import Session

    helper = Sensors(conf.sensors)
    session = Session(_ready("sensors", "", 1, helper.backend()))
    Runner(session, conf.backend(), helper=helper).run()


def hrx(conf: Settings) -> None:
    """Run the worker of the iGPU."""
    _device(conf, "hrx")


def npu(conf: Settings) -> None:
    """Run the worker of the NPU."""
    _device(conf, "npu")


def cpu(conf: Settings) -> None:
    """Run the worker of the helper models."""
    _device(conf, "cpu")


def _device(conf: Settings, kind: Kind) -> None:
    from workers.runner import Runner
    from workers.session import Session

    if conf.workers.engine == "null":
        from workers.null import NullEngine

        null = conf.workers
        fails = null.null_fails == kind
        idle = NullEngine(null.null_seats, null.null_hold_s, null.null_log, fails=fails)
        ready = _ready(
            kind, f"{kind}0", idle.seats, idle.backend, idle.slots, version=version("fairlane")
        )
        Runner(Session(ready), conf.backend(), engine=idle).run()
        return
    from workers.engines import Engines
    from workers.pinned import load_pinned
    from workers.rows import look_in

    look_in(Path(conf.store.dir))
    pinned = load_pinned(conf.workers.template_pins, is_strict=conf.workers.template_pin_strict)
    engines = Engines(
        kind, conf, _rows(conf), pinned, lambda: _in_process(kind, conf.workers.threads, pinned)
    )
    ready = _ready(
        kind, f"{kind}0", engines.seats, engines.backend, engines.slots,
        by_row=engines.by_row, version=_version(engines.backend),
    )  # fmt: skip
    try:
        Runner(Session(ready), conf.backend(), engine=engines).run()
    finally:
        engines.close()


def _rows(conf: Settings) -> dict[str, Row]:
    """Return the table's rows; none of a table that cannot be read, which the broker says better."""
    from ops.table import load_table

    try:
        return dict(load_table(conf).table.rows)
    except FairlaneError:
        return {}


def _version(backend: str) -> str:
    """Return the version of what computes here, as far as it is known: a server does not tell its own."""
    return f"llama-cpp-python {version('llama-cpp-python')}" if backend == "llama.cpp cpu" else ""


def _in_process(kind: Kind, threads: int, pinned: Pinned) -> Engine:
    """Return the engine that computes in this process, politely: broker and gateway need its processors."""
    from workers.llama import LlamaEngine

    made: list[Engine] = []
    failed: list[UnusableBuild] = []

    def make() -> None:
        os.nice(10)  # of this thread, and of those that it starts: Linux has one for each
        try:
            made.append(LlamaEngine(kind, threads, pinned))
        except UnusableBuild as error:
            failed.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _ready(
    kind: Kind,
    device: str,
    seats: int,
    backend: str,
    slots: int = 0,
    *,
    by_row: bool = False,
    version: str = "",
) -> Ready:
    return Ready(
        name=device or kind,
        kind=kind,
        device=device,
        pid=os.getpid(),
        pid_started=started_at(),
        nonce=uuid.uuid4().hex,
        seats=seats,
        backend=backend,
        slots=slots,
        version=version,
        by_row=by_row,
    )


KINDS: dict[str, Callable[[Settings], None]] = {
    "broker": broker,
    "gateway": gateway,
    "scorer": scorer,
    "store": store,
    "sensors": sensors,
    "hrx": hrx,
    "npu": npu,
    "cpu": cpu,
}


def run(kind: str, conf: Settings) -> int:
    """Run one process to its end and return its exit status."""
    log.configure(kind, level=conf.log_level)
    try:
        KINDS[kind](conf)
    except (FairlaneError, UnusableBuild) as error:
        print(f"fairlane {kind}: {error}", file=sys.stderr)
        return UNUSABLE
    return 0


def main() -> int:
    """Run the process named on the command line, as the supervisor starts it."""
    supervisor = os.environ.get(SUPERVISOR)
    if supervisor is not None:
        die_with_parent()
        if os.getppid() != int(supervisor):  # it ended before the kernel was told to watch it
            return 1
    return run(sys.argv[1], settings.load(os.environ))


if __name__ == "__main__":
    sys.exit(main())
