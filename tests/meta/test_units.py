"""The systemd units, their user and the settings that `make install` places."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from ops.example import example, remarks
from ops.processes import KINDS
from scheduler import settings
from scheduler.core import Limits
from support.box import TREE
from support.units import Unit, install, read, tool

# What systemd before 254 does not know, and says so; it has a pause that does not grow instead.
NEWER = re.compile(
    r"Unknown key '(RestartSteps|RestartMaxDelaySec)' in section \[Service\], ignoring"
)
EXPOSED_AT_MOST = 2.0  # of 10; a unit without any of it has 9.6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("root")
    install(path)
    return path


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "etc" / "systemd" / "system"


@pytest.fixture(scope="module")
def units(folder: Path) -> dict[str, Unit]:
    return read(folder)


def run(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=60, check=False
    )


def test_every_process_has_a_unit_that_starts_it(units: dict[str, Unit]) -> None:
    assert units.keys() == KINDS.keys()
    for name, unit in units.items():
        assert unit.command[-1] == name
        assert unit.command[1:3] == ["--config", "/etc/fairlane/fairlane.toml"]


def test_systemd_finds_nothing_wrong(folder: Path) -> None:
    files = [*folder.glob("*.service"), *folder.glob("*.target")]
    verified = run(tool("systemd-analyze"), "verify", "--man=no", *files)
    said = [line for line in verified.stderr.splitlines() if not NEWER.search(line)]
    assert (verified.returncode, said, verified.stdout) == (0, [], "")


def test_a_fault_would_be_found(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "fairlane-broker.service"
    text = (folder / broken.name).read_text()
    broken.write_text(text.replace("PrivateDevices=yes", "PrivateDevices=perhaps"))
    assert "perhaps" in run(tool("systemd-analyze"), "verify", "--man=no", broken).stderr
    broken.write_text(text.replace("ExecStart=/", "ExecStart=/nowhere/"))
    assert run(tool("systemd-analyze"), "verify", "--man=no", broken).returncode != 0


def test_little_of_the_machine_is_open_to_them(folder: Path) -> None:
    for file in folder.glob("*.service"):
        said = run(tool("systemd-analyze"), "security", "--offline=true", file).stdout
        found = re.search(r"exposure level for \S+: ([\d.]+)", said)
        assert found, said
        assert float(found[1]) <= EXPOSED_AT_MOST, f"{file.name}: {found[1]}"


def test_an_engine_dies_before_the_broker(units: dict[str, Unit]) -> None:
    order = sorted(units, key=lambda name: -int(units[name].values["OOMScoreAdjust"]))
    assert order[:3] == ["hrx", "npu", "cpu"]
    assert order[-2:] == ["gateway", "broker"]


def test_only_those_that_need_a_device_see_one(units: dict[str, Unit]) -> None:
    open_to = {
        name: unit.values.get("SupplementaryGroups", "")
        for name, unit in units.items()
        if unit.values.get("PrivateDevices") != "yes"
    }
    assert open_to == {"hrx": "render video", "npu": "render", "sensors": "render video"}
    assert all(units[name].values["DevicePolicy"] == "closed" for name in open_to)
    assert units["npu"].values["LimitMEMLOCK"] == "infinity"


def test_what_is_placed_can_be_read_by_the_user_it_is_for(tmp_path: Path) -> None:
    """Whatever root's umask is: the user of the units reads the settings."""
    before = os.umask(0o077)
    try:
        folder = install(tmp_path)
    finally:
        os.umask(before)
    placed = [*folder.rglob("*"), tmp_path / "etc/fairlane/fairlane.toml"]
    assert len(placed) > 10
    for path in placed:
        assert path.stat().st_mode & 0o444 == 0o444, path
    assert (tmp_path / "etc/fairlane").stat().st_mode & 0o555 == 0o555


@pytest.mark.parametrize("program", ["", "#!/bin/sh\nexit 78\n"])
def test_without_a_program_that_runs_no_settings_are_placed(tmp_path: Path, program: str) -> None:
    """An empty file of settings would be one of defaults, among them other folders than the units'."""
    file = tmp_path / "fairlane"
    if program:
        file.write_text(program)
        file.chmod(0o755)
    made = run("make", "-C", TREE, "install", f"DESTDIR={tmp_path}", f"FAIRLANE={file}")
    assert made.returncode != 0
    assert "placed" not in made.stdout
    assert not (tmp_path / "etc/fairlane/fairlane.toml").exists()
    assert program or "make setup" in made.stderr


def test_a_tree_that_the_units_cannot_see_is_told(tmp_path: Path) -> None:
    made = run(
        "make", "-n", "-C", TREE, "install", "DESTDIR=/nowhere", "FAIRLANE=/home/me/fairlane"
    )
    (case,) = re.findall(r"^case .*?esac$", made.stdout, re.MULTILINE | re.DOTALL)
    assert "the units cannot see /home/me/fairlane" in run("sh", "-c", case).stderr
    assert run("sh", "-c", case.replace("/home/me", "/opt")).stderr == ""


def test_user_and_folders_are_made(root: Path) -> None:
    etc = root / "etc"
    for command in (
        (tool("systemd-sysusers"), f"--root={root}", etc / "sysusers.d" / "fairlane.conf"),
        (
            tool("systemd-tmpfiles"), f"--root={root}", "--create",
            etc / "tmpfiles.d" / "fairlane.conf",
        ),
    ):  # fmt: skip
        made = run(*command)
        if "Operation not permitted" in made.stderr:
            pytest.skip("only root may make them")
        assert made.returncode == 0, made.stderr
    user = next(
        line for line in (etc / "passwd").read_text().splitlines() if line[:9] == "fairlane:"
    )
    assert user.split(":")[5:] == ["/var/lib/fairlane", "/usr/sbin/nologin"]
    assert (root / "run" / "fairlane").stat().st_mode & 0o777 == 0o700


# --- the example of the settings ---


def test_the_example_decodes_to_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "fairlane.toml"
    file.write_text(example())
    bare = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/run/user/1"}
    assert settings.load(bare, str(file)) == settings.load(bare)


def test_the_example_has_every_setting_with_a_remark() -> None:
    text = example()
    values = settings.Settings()
    sections = [getattr(values, name) for name in values.__struct_fields__]
    kinds = {type(one) for one in sections if isinstance(one, Struct)}
    assert kinds > {settings.Gateway, Limits, settings.Sensors}
    kinds |= {settings.Settings, settings.Lane}
    for kind in kinds:
        said = remarks(kind)
        for name in kind.__struct_fields__:
            assert re.search(rf"^#?{name} =|^#?\[(\w+\.)?{name}[.\]]", text, re.MULTILINE), name
            is_section = isinstance(getattr(values, name, None), Struct)
            assert is_section or all(f"# {line}" in text for line in said[name])
            assert is_section or said[name], f"{kind.__name__}.{name} has no remark"


def test_a_value_without_a_default_and_a_lane_can_be_taken_from_it(tmp_path: Path) -> None:
    file = tmp_path / "fairlane.toml"
    text = example().replace("#stop_tctl_c =", "stop_tctl_c = 90.0")
    before, _, lane = text.partition("#[lanes.reviewer]")
    values = [line.removeprefix("#") if "=" in line else line for line in lane.splitlines()]
    file.write_text(f"{before}[lanes.reviewer]\n" + "\n".join(values))
    read_back = settings.load({"HOME": str(tmp_path)}, str(file))
    assert read_back.limits.stop_tctl_c == 90.0
    assert read_back.lanes == {"reviewer": settings.Lane()}


def test_the_installed_settings_have_the_units_folders(root: Path) -> None:
    installed = settings.load({}, str(root / "etc" / "fairlane" / "fairlane.toml"))
    assert (installed.run_dir, installed.state_dir) == ("/run/fairlane", "/var/lib/fairlane")


def test_settings_that_are_there_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "etc" / "fairlane" / "fairlane.toml"
    file.parent.mkdir(parents=True)
    file.write_text('log_level = "DEBUG"\n')
    install(tmp_path)
    assert file.read_text() == 'log_level = "DEBUG"\n'
