"""The programs beside this one that rows and scorer need: servers, the daemon, and their files."""

import shlex
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from ops.doctor.finding import Finding, Patient, fail, ok, warn
from workers.engines import engine_of
from workers.upstream.templates import engines as known_engines

_KNOCK_S = 2.0  # a server of this network takes a connection within this


def engines(patient: Patient) -> Iterator[Finding]:
    """Look for the program of every engine that a row of the table names."""
    conf, table = patient.settings, patient.table
    known, rows = known_engines(conf.engines), table.rows.values() if table else ()
    used: dict[str, list[str]] = {}
    asked: dict[str, list[str]] = {}  # address of a neighbour -> the rows it serves
    for row in rows:
        name = engine_of(row, conf.workers.engine)
        engine = known.get(name)
        if engine is not None and (engine.command or engine.key_file):
            used.setdefault(name, []).append(row.model)
        if engine is not None and not engine.command:
            asked.setdefault(row.url or engine.url, []).append(row.model)
    found: list[str] = []
    for name, models in sorted(used.items()):
        engine, place = known[name], f"engines.{name}"
        problem = _no_program(engine.command, patient) or _no_file(engine.key_file)
        if problem:
            yield fail(
                "engines",
                f"{name}, which serves {', '.join(models)}: {problem}",
                f"Install it, or name its path in {place}.command; a key's file is {place}.key_file.",
            )
        else:
            found.append(name)
    if found:
        yield ok("engines", f"{', '.join(found)}: what they need is here")
    for url, models in sorted(asked.items()):
        yield _neighbour(url, models)


def _neighbour(url: str, models: list[str]) -> Finding:
    """Say whether somebody listens where rows are served by a server that is not ours."""
    what = f"{url or 'no address'}, which serves {', '.join(models)}"
    try:
        place = urlsplit(url)
        port = place.port or (443 if place.scheme == "https" else 80)
        with socket.create_connection((place.hostname or "", port), timeout=_KNOCK_S):
            return ok("engines", f"{what}: somebody listens there")
    except (OSError, ValueError) as error:
        return warn(
            "engines",
            f"{what}: nobody answers there: {error}",
            "Start that server, or correct its address; until then these rows cannot be used.",
        )


def scorer(patient: Patient) -> Iterator[Finding]:
    """Look for what the scorer's backend is made of."""
    conf = patient.settings.scorer
    if conf.backend == "builtin":
        yield ok("scorer", "the builtin one needs nothing")
        return
    problems = [_no_file(conf.gguf), _no_file(conf.head)]
    if conf.backend == "laya-daemon":
        problems.append(_no_program(conf.command, patient))
    for problem in filter(None, problems):
        yield fail(
            "scorer",
            f"{conf.backend}: {problem}",
            "Put it there, or set scorer.backend to builtin: without a scorer all goes to the default model.",
        )
    if not any(problems):
        yield ok("scorer", f"{conf.backend}: its files and its program are here")


def _no_program(command: str, patient: Patient) -> str:
    """Return why a command has no program; empty: it has one, or is none."""
    words = shlex.split(command)
    if not words or words[0] == "{python}":
        return ""
    if shutil.which(words[0], path=patient.environ.get("PATH", "")) is None:
        return f"there is no program {words[0]} on the PATH, or it may not be run"
    return ""


def _no_file(name: str) -> str:
    """Return why a file cannot be read; empty: it can, or there is to be none."""
    if not name:
        return ""
    try:
        with Path(name).open("rb"):
            return ""
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
