"""The program itself: its llama.cpp build, clock and port, the models of its table, the box that runs."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil

import scheduler
from ops.doctor.finding import Finding, Patient, fail, ok, warn
from policies.pins import row_verdict
from policies.row import Row
from workers import build, gguf, rows, templates
from workers.badfile import BadFile
from workers.job import JobError

# In a process of its own: a build for another processor ends whoever imports it.
_INFO = "import llama_cpp, sys; sys.stdout.write(llama_cpp.llama_print_system_info().decode())"
_INFO_S, _LIVE_S = 60.0, 3.0  # longest waits: for that import, and for the gateway
_DAY_S = 86_400.0


def llama(patient: Patient) -> Iterator[Finding]:
    """Look whether the llama.cpp build runs on this processor."""
    command = [sys.executable, "-c", _INFO]
    environ = dict(patient.environ)
    try:
        ran = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=_INFO_S, check=False
        )
    except subprocess.TimeoutExpired:
        yield fail("build", f"importing llama_cpp took more than {_INFO_S:.0f} s", build.REMEDY)
        return
    if ran.returncode < 0:
        name = signal.Signals(-ran.returncode).name
        yield fail("build", f"importing llama_cpp ended by {name}", build.REMEDY)
    elif ran.returncode:
        last = ran.stderr.strip().splitlines()[-1:] or ["no reason given"]
        yield fail("build", f"llama_cpp cannot be imported: {last[0]}", build.REMEDY)
    else:
        try:
            build.check(ran.stdout, build.cpu_flags())
        except build.UnusableBuild as error:
            yield fail("build", str(error).removesuffix(build.REMEDY).strip(), build.REMEDY)
        else:
            version = metadata.version("llama-cpp-python")
            yield ok("build", f"llama-cpp-python {version} is portable and runs on this processor")


def clock(_patient: Patient) -> Iterator[Finding]:
    """Look whether the wall clock was set back. Only logs and file times depend on it."""
    newest = max(file.stat().st_mtime for file in Path(scheduler.__file__).parent.glob("*.py"))
    if time.time() < newest - _DAY_S:
        shown = time.strftime("%Y-%m-%d %H:%M", time.localtime())
        yield fail(
            "clock",
            f"it is {shown} by the wall clock, days before this program was written to the disk",
            "Set the clock: `timedatectl set-ntp true`.",
        )
    else:
        yield ok("clock", "the wall clock is plausible")


def port(patient: Patient) -> Iterator[Finding]:
    """Look whether the gateway's port is its own."""
    gateway = patient.settings.gateway
    place = f"{gateway.host}:{gateway.port}"
    if gateway.port == 0:
        yield ok("port", "any free one is taken at the start")
    elif patient.status is not None and _lives(gateway.host, gateway.port):
        yield ok("port", f"the gateway answers at {place}")
    elif (problem := _bound(gateway.host, gateway.port)) == "":
        running = patient.status is not None
        yield (
            warn("port", f"a broker runs and no gateway at {place}", "See the gateway's log.")
            if running
            else ok("port", f"{place} is free")
        )
    else:
        yield fail(
            "port",
            f"{place} cannot be listened on: {problem}{_owner(gateway.port)}",
            "End that program, or set gateway.port (FAIRLANE__GATEWAY__PORT) to another; "
            "gateway.host is an address of this machine.",
        )
    if gateway.host not in {"127.0.0.1", "::1", "localhost"}:
        yield warn(
            "port",
            f"gateway.host is {gateway.host}: other machines may use this box, without a password",
            "Put it behind a firewall or a proxy, or set gateway.host to 127.0.0.1.",
        )


def models(patient: Patient) -> Iterator[Finding]:
    """Look for the file of every row, whether it is whole, and whether its template is the pinned one."""
    table = patient.table
    for row in table.rows.values() if table else ():
        if row.url is not None or row.tag is not None:
            yield ok("models", f"{row.model}: {row.url or row.tag}, whose files are its server's")
            continue
        if row.path is None and row.package is None:
            yield from _fetched(row)
            continue
        try:
            path = rows.file_of(row)
        except JobError as error:
            yield fail("models", error.message, "Put the file there, or name another in the table.")
            continue
        yield from _file(row, path)


def running(patient: Patient) -> Iterator[Finding]:
    """Look at the box that runs, if one does."""
    status = patient.status
    if status is None:
        if not patient.is_held:
            yield ok("box", "none runs in this run_dir")
        return
    absent = [name for name, device in status["devices"].items() if not device["worker"]]
    own = metadata.version("fairlane")
    if status["version"] != own:
        text = f"version {status['version']} runs and {own} is installed"
        yield warn("box", text, "Restart it: `fairlane drain --then-stop`, then start it.")
    if status["draining"]:
        yield warn("box", "it takes no new work: it drains", "`fairlane drain --undo` ends that.")
    if absent:
        yield fail(
            "box",
            f"no worker serves {', '.join(absent)}",
            "See the worker's log; `process_down` says how it ended.",
        )
    if not status["scorers"]:
        text = "no scorer is there: every request goes to the default model"
        yield fail("box", text, "See the scorer's log.")
    journal = status["journal"]
    if journal and journal["error"]:
        text = f"the journal is not written: {journal['error']}"
        yield fail(
            "box", text, "Make room, or give state_dir to this user; it is tried every 30 s."
        )
    if status["ready"] and not absent:
        yield ok("box", f"pid {status['pid']} is ready, up {status['up_s']:.0f} s")


def _fetched(row: Row) -> Iterator[Finding]:
    """Say of a row that is fetched whether it is here."""
    try:
        path = rows.file_of(row)
    except JobError as error:
        yield warn("models", error.message, "It counts once it is on the disk; others stand in.")
    else:
        yield from _file(row, path)


def _file(row: Row, path: Path) -> Iterator[Finding]:
    remedy = f"Fetch {path} again."
    try:
        size, least = path.stat().st_size, gguf.least_size(path) if _is_gguf(path) else 0
        digests = templates.digests_of(path)
    except (BadFile, OSError) as error:
        yield fail("models", f"{row.model}: {error}", remedy)
        return
    if size < least:
        text = f"{row.model}: {path} has {size} bytes and its tensors go on behind byte {least}"
        yield fail("models", text, remedy)
    elif row.type == "llm" and row_verdict(row, digests) == "mismatch":
        found = digests.get("default", "none at all")
        yield fail(
            "models",
            f"{row.model}: the chat template in {path} has digest {found}, not the table's",
            "Fetch the file again; if its template changed on purpose, pin the new digest.",
        )
    else:
        yield ok("models", f"{row.model}: {path.name}, {size / 2**20:.0f} MiB")


def _is_gguf(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() == ".gguf"


def _lives(host: str, number: int) -> bool:
    shown = f"[{host}]" if ":" in host else host
    shown = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(shown, shown)  # noqa: S104  # compared
    try:
        with urllib.request.urlopen(f"http://{shown}:{number}/v1/live", timeout=_LIVE_S) as reply:
            return b'"ok"' in reply.read(256)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _bound(host: str, number: int) -> str:
    """Return why a port cannot be listened on; empty if it can."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except socket.gaierror:
            return "no such host is known"
        except OSError as error:
            return os.strerror(error.errno) if error.errno else str(error)
    return ""


def _owner(number: int) -> str:
    """Return who listens on a port, as far as this user may know."""
    with suppress(psutil.Error, OSError):
        for one in psutil.net_connections("tcp"):
            listens = one.status == psutil.CONN_LISTEN and one.pid
            if listens and tuple(one.laddr)[1:2] == (number,):
                return f" (process {one.pid}, {psutil.Process(one.pid).name()})"
    return ""
