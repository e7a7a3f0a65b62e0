"""All checks, in the order in which a box needs what they look at."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from ops.doctor import devices, places, programs, software
from ops.doctor.finding import Finding, Patient, fail, ok
from ops.table import load_table
from scheduler import settings
from scheduler.bus.client import Client
from scheduler.errors import BrokerUnreachable, FairlaneError, SettingsError
from scheduler.settings import Settings
from workers.rows import look_in

Check = Callable[[Patient], Iterator[Finding]]
CHECKS: tuple[Check, ...] = (
    places.run_dir,
    places.sockets,
    places.state_dir,
    places.store_dir,
    places.disk,
    software.port,
    software.clock,
    software.llama,
    programs.engines,
    programs.scorer,
    devices.gpu,
    devices.npu,
    devices.sensors,
    software.models,
    software.running,
)


def examine(
    environ: Mapping[str, str], config: str | None = None, root: Path = Path("/")
) -> Iterator[Finding]:
    """Yield what all checks say; without readable settings there is nothing else to look at.

    Args:
        environ: The environment.
        config: A settings file.
        root: Where `dev` is.
    """
    try:
        conf = settings.load(environ, config)
    except SettingsError as error:
        yield fail("settings", str(error), "`fairlane settings --example` shows all of them.")
        return
    yield ok("settings", "they are valid")
    look_in(Path(conf.store.dir))
    held = places.is_held(Path(conf.run_dir))
    patient = Patient(
        conf, environ, status=_status(conf) if held else None, is_held=held, root=root
    )
    try:
        source = load_table(conf)
    except SettingsError as error:
        yield fail("table", str(error), "`fairlane laya-first --check` names every fault.")
    else:
        patient.table = source.table
        yield ok("table", f"{source.name}: {len(source.table.rows)} rows")
    for check in CHECKS:
        yield from _made(check, patient)


def _made(check: Check, patient: Patient) -> Iterator[Finding]:
    """Yield what a check says; one that cannot be made is a finding, and keeps no other from being made."""
    try:
        yield from check(patient)
    except (OSError, ValueError, FairlaneError, psutil.Error) as error:
        name = check.__name__
        yield fail(name, f"this could not be looked at: {error}", "See what is said there.")


def _status(conf: Settings) -> dict[str, Any] | None:
    """Return what the box that runs says of itself; None if it does not answer."""
    try:
        with Client(conf.frontend()) as client:
            return client.status()
    except BrokerUnreachable:
        return None
