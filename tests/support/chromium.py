"""A real browser without a window: Debian's chromium, driven by its chromedriver.

Where it is missing it is installed, if this is root and apt is there; else the test is skipped and says what
is missing.
"""

import fcntl
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NEEDS = {"chromium": "chromium", "chromedriver": "chromium-driver"}  # program -> Debian's package
_INSTALL = ("apt-get", "-o", "DPkg::Lock::Timeout=300")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@functools.cache
def programs() -> tuple[str, str]:
    """Return the paths of chromium and chromedriver; skip the test that asks where they cannot be had."""
    with Path(tempfile.gettempdir(), f"fairlane-chromium-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs side by side install it once
        if _missing() and os.geteuid() == 0 and shutil.which("apt-get"):
            _install()
    missing = _missing()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (Debian packages of these names)")
    return str(shutil.which("chromium")), str(shutil.which("chromedriver"))


def _missing() -> list[str]:
    return [package for program, package in NEEDS.items() if shutil.which(program) is None]


def _install() -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *NEEDS.values()]):
        subprocess.run(
            [*_INSTALL, *words],
            env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False,
        )  # fmt: skip
