"""The systemd units as `make install` places them, read back."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

from support.box import TREE
from support.debian import require

SERVICES = sorted((TREE / "ops" / "systemd").glob("*.service"))


class Unit(Struct):
    """One service with what all have in common."""

    name: str  # such as "broker"
    command: list[str]
    values: dict[str, str]  # of the section Service; a later one goes over an earlier one


class _Keys(configparser.ConfigParser):
    """The sections of a unit. systemd allows a key more than once; here the last one counts."""

    def __init__(self) -> None:
        super().__init__(strict=False, interpolation=None, delimiters=("=",))

    def optionxform(self, optionstr: str) -> str:
        """Keep the case of a key."""
        return optionstr


def install(root: Path) -> Path:
    """Run `make install` into a directory; return the folder of the units."""
    program = root / "bin" / "fairlane"
    program.parent.mkdir(parents=True)
    # the command of the tree under test, wherever the environment of the tests stands
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ops.cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    subprocess.run(
        ["make", "install", f"DESTDIR={root}", f"FAIRLANE={program}"],
        cwd=TREE, env={**os.environ, "PYTHONPATH": str(TREE)}, check=True, capture_output=True,
    )  # fmt: skip
    return root / "etc" / "systemd" / "system"


def read(folder: Path) -> dict[str, Unit]:
    """Return the services of a folder by name, each with what the shared drop-in adds."""
    common = folder / "fairlane-.service.d" / "10-common.conf"
    units: dict[str, Unit] = {}
    for file in sorted(folder.glob("*.service")):
        keys = _Keys()
        keys.read([file, common], encoding="utf-8")
        name = file.stem.removeprefix("fairlane-")
        values = dict(keys["Service"])
        units[name] = Unit(name, values["ExecStart"].split(), values)
    return units


def tool(name: str) -> str:
    """Return a program of systemd's."""
    (found,) = require("systemd", name)
    return str(found)
