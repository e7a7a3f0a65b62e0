"""What a check says, and what it may look at."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from policies.table import Table
from scheduler.settings import Settings


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"  # the box serves, with less than it might
    FAIL = "fail"  # something will not work


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    check: str  # name of the check, such as "run_dir"
    state: State
    text: str  # what was found
    remedy: str = ""  # what to do; empty where there is nothing to do


class Patient(Struct):
    """What is looked at: one box's settings on this machine."""

    settings: Settings
    environ: Mapping[str, str]
    table: Table | None = None  # None: it is refused
    status: dict[str, Any] | None = None  # of the box that runs there; None: none answers
    is_held: bool = False  # the run directory is held by a process, whether or not it answers
    root: Path = Path("/")  # where dev is; another tree for tests


def ok(check: str, text: str) -> Finding:
    """Return that something is as it should be."""
    return Finding(check, State.OK, text)


def warn(check: str, text: str, remedy: str) -> Finding:
    """Return that something is missing which a box can do without."""
    return Finding(check, State.WARN, text, remedy)


def fail(check: str, text: str, remedy: str) -> Finding:
    """Return that something will not work."""
    return Finding(check, State.FAIL, text, remedy)
