"""Programs that some tests need and no Python package carries: Debian's, installed when that may be done.

Root on a machine with apt gets the package; anybody else is told by a skip what is missing. Where
MISSING_PROGRAMS is "fail", as in `.ci/run`, a missing program fails the test: nothing is skipped there
without being seen.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

INSTALL_S = 600.0  # seconds that one run of apt may take, its downloads included
# Debian's own way to say that a package must not start its service when it is installed.
POLICY = Path("/usr/sbin/policy-rc.d")


def require(package: str, *programs: str) -> tuple[Path, ...]:
    """Return the paths of a Debian package's programs, in the order they were asked for.

    Args:
        package: Its name, such as "prometheus".
        programs: What it puts on the path, such as "prometheus" and "promtool".
    """
    if _missing(programs):
        problem = _install(package)
        if missing := _missing(programs):
            _without(f"{', '.join(missing)} of Debian's package {package} is not here: {problem}")
    return tuple(Path(found) for found in map(shutil.which, programs) if found)


def _missing(programs: tuple[str, ...]) -> list[str]:
    return [program for program in programs if shutil.which(program) is None]


@functools.cache  # an installation that failed is not tried again by the next test
def _install(package: str) -> str:
    """Install a package unless another process just did; return why that did not work, or ""."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    if os.geteuid() != 0:
        return f"install it with: sudo apt-get install {package}"
    with _alone(), _no_service():
        install = ("install", "-y", "-q", "--no-install-recommends", package)
        if _apt(*install) == "":
            return ""
        return _apt("update", "-q") or _apt(*install)  # the lists may be absent, or too old


def _apt(*arguments: str) -> str:
    """Run apt; return the end of what it said if it failed."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    patient = ("-o", "DPkg::Lock::Timeout=120", "-o", "Acquire::Retries=5")
    command = ("apt-get", *patient, *arguments)
    try:
        ran = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=INSTALL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"`{' '.join(command)}` took more than {INSTALL_S:.0f} s"
    return "" if ran.returncode == 0 else f"`{' '.join(command)}`: {ran.stderr.strip()[-300:]}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep a second run of the tests from installing at the same time."""
    lock = Path(tempfile.gettempdir(), "fairlane-tests-apt.lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _no_service() -> Iterator[None]:
    """Keep packages from starting services, unless the machine has a rule for that already."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _without(problem: str) -> NoReturn:
    if os.environ.get("MISSING_PROGRAMS") == "fail":
        pytest.fail(problem)
    pytest.skip(problem)
