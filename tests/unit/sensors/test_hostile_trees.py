"""Whatever is in the tree: one reading is unknown, the others are as they were, and nothing is raised."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import ops
from scheduler.wire.words import Reading
from support.amd_tree import CARD, GPU, K10, NPU, RAPL, plant, put
from workers.sensors.collector import Collector
from workers.sensors.specs import SPECS

# reading -> the one file it rests on that no other reading needs
FILES = {
    "tctl": f"{K10}/temp1_input",
    "gpu_edge": f"{GPU}/temp1_input",
    "gfx_clock": f"{GPU}/freq1_input",
    "gpu_busy": f"{CARD}/gpu_busy_percent",
    "memory_used": f"{CARD}/mem_info_vram_used",
    "npu_state": f"{NPU}/power_state",
    "package_energy": f"{RAPL}/energy_uj",
    "uptime": "proc/uptime",
}
NOT_PLANTED = (
    "kfd_processes", "suspended", "resets", "kernel", "npu_driver", "memory_available",
)  # fmt: skip
SOUND = dict.fromkeys(SPECS, "") | dict.fromkeys(NOT_PLANTED, "missing")


def reasons(root: Path, rounds: int = 1) -> dict[str, str]:
    collector = Collector(root, deadline_s=1.0)  # a loaded machine is no hung file
    readings = [collector.collect(100.0 + n) for n in range(rounds)][-1]
    collector.close()
    return {one.name: one.reason for one in readings}


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\xff\xfe\x00binary", b"12 34", b"0x1F", b"1e3", b"9" * 21, b"7" * 5_000_000,
     b"-", b"\xd9\xa3\xd9\xa4\n", b"39375\x00"],
    ids=["empty", "line end", "binary", "two numbers", "hex", "float", "long", "huge", "sign",
         "foreign digits", "NUL"],
)  # fmt: skip
@pytest.mark.parametrize("name", FILES)
def test_bytes_that_are_no_number_spoil_one_reading(
    name: str, content: bytes, tmp_path: Path
) -> None:
    put(plant(tmp_path), FILES[name], content)
    expected = SOUND | {name: "unreadable"}
    if name == "uptime" and content == b"12 34":
        expected = SOUND  # two numbers is what that file has
    assert reasons(tmp_path) == expected


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there_spoils_one_reading(name: str, tmp_path: Path) -> None:
    (plant(tmp_path) / FILES[name]).unlink()
    assert reasons(tmp_path) == SOUND | {name: "missing"}


@pytest.mark.parametrize("name", FILES)
def test_a_directory_or_a_loop_of_links_in_its_place_spoils_one_reading(
    name: str, tmp_path: Path
) -> None:
    file = plant(tmp_path) / FILES[name]
    file.unlink()
    file.symlink_to(file)
    assert reasons(tmp_path) == SOUND | {name: "unreadable"}
    file.unlink()
    file.mkdir()
    assert reasons(tmp_path) == SOUND | {name: "unreadable"}


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_that_nobody_writes_makes_one_reading_stale(name: str, tmp_path: Path) -> None:
    file = plant(tmp_path) / FILES[name]
    file.unlink()
    os.mkfifo(file)
    assert reasons(tmp_path, rounds=3) == SOUND | {name: "stale"}
    _let_go(file)


def test_a_source_that_begins_to_hang_keeps_its_value_until_it_is_stale(tmp_path: Path) -> None:
    file = plant(tmp_path) / FILES["tctl"]
    collector = Collector(tmp_path, deadline_s=0.5)
    collector.collect(100.0)
    file.unlink()
    os.mkfifo(file)
    told = []
    for second in range(1, 7):
        found = {one.name: one for one in collector.collect(100.0 + second)}
        told.append((found["tctl"].value, found["tctl"].reason, found["tctl"].age_s))
        assert found["gpu_edge"].value == 35.0
    assert told == [
        (39.375, "", 1.0), (39.375, "", 2.0), (39.375, "", 3.0),
        (None, "stale", 4.0), (None, "stale", 5.0), (None, "stale", 6.0),
    ]  # fmt: skip
    _let_go(file)
    file.unlink()
    put(tmp_path, FILES["tctl"], 50000)
    deadline = time.monotonic() + 30.0
    at = 107.0
    while (found := {r.name: r for r in collector.collect(at)})["tctl"].value != 50.0:
        assert time.monotonic() < deadline, found["tctl"]
        at += 1.0
    collector.close()


def test_a_chip_whose_name_hangs_is_passed_over(tmp_path: Path) -> None:
    plant(tmp_path)
    for folder in ("sys/class/hwmon/hwmon0", "sys/class/drm/card0/device"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "sys/class/hwmon/hwmon0/name").unlink()
    pipes = [
        tmp_path / "sys/class/hwmon/hwmon0/name",
        tmp_path / "sys/class/drm/card0/device/vendor",
    ]
    for pipe in pipes:
        os.mkfifo(pipe)
    assert reasons(tmp_path) == SOUND
    for pipe in pipes:
        _let_go(pipe)


def test_a_whole_driver_that_hangs_costs_its_deadlines_once(tmp_path: Path) -> None:
    plant(tmp_path)
    pipes = [tmp_path / FILES[n] for n in ("gpu_edge", "gfx_clock", "gpu_busy", "memory_used")]
    for pipe in [*pipes, tmp_path / f"{CARD}/gpu_metrics", tmp_path / f"{GPU}/power1_average"]:
        pipe.unlink()
        os.mkfifo(pipe)
    collector = Collector(tmp_path, deadline_s=0.2)
    collector.collect(100.0)
    times: list[float] = []
    found: dict[str, Reading] = {}
    for second in range(5):
        began = time.monotonic()
        found = {one.name: one for one in collector.collect(101.0 + second)}
        times.append(time.monotonic() - began)
    assert found["tctl"].valid
    assert found["uptime"].valid
    assert {n for n, one in found.items() if one.reason == "stale"} == {
        "gpu_edge", "gfx_clock", "gpu_busy", "memory_used", "socket_power", "gfx_power",
        "npu_power", "gfx_activity", "npu_activity",
        "throttle_thermal", "throttle_power",
    }  # fmt: skip
    assert min(times) < 0.2, times  # of the later rounds; one deadline would be more
    collector.close()
    for pipe in [*pipes, tmp_path / f"{CARD}/gpu_metrics", tmp_path / f"{GPU}/power1_average"]:
        _let_go(pipe)


def test_an_endless_file_is_read_to_its_bound(tmp_path: Path) -> None:
    plant(tmp_path)
    for path in (FILES["tctl"], f"{CARD}/gpu_metrics"):
        file = tmp_path / path
        file.unlink()
        file.symlink_to("/dev/zero")
    found = reasons(tmp_path)
    assert found["tctl"] == "unreadable"
    assert found["gfx_power"] == "unknown revision"
    assert found["uptime"] == ""


def test_numbers_that_change_while_it_runs_are_found_again(tmp_path: Path) -> None:
    plant(tmp_path)
    collector = Collector(tmp_path)
    before = {one.name: one.value for one in collector.collect(100.0)}
    (tmp_path / K10).rename(tmp_path / "sys/class/hwmon/hwmon3")
    (tmp_path / GPU).rename(tmp_path / f"{CARD}/hwmon/hwmon11")
    (tmp_path / "sys/class/drm/card1").rename(tmp_path / "sys/class/drm/card128")
    assert {one.name: one.value for one in collector.collect(101.0)} == before
    collector.close()


def test_of_two_chips_of_the_processor_the_labelled_one_of_the_kernel_counts(
    tmp_path: Path,
) -> None:
    plant(tmp_path)
    chips = {
        "hwmon3": ("k10temp", None),
        "hwmon4": ("zenpower", 50_000),
        "hwmon5": ("k10temp", None),
    }
    for hwmon, (name, tctl) in chips.items():
        folder = f"sys/class/hwmon/{hwmon}"
        put(tmp_path, f"{folder}/name", name)
        put(tmp_path, f"{folder}/temp1_input", tctl or 0)
        if tctl:
            put(tmp_path, f"{folder}/temp1_label", "Tctl")
    (told,) = [one for one in Collector(tmp_path).collect(1.0) if one.name == "tctl"]
    assert (told.value, told.source) == (39.375, "k10temp")


def test_a_label_that_hangs_or_is_none_hides_no_other(tmp_path: Path) -> None:
    plant(tmp_path)
    put(tmp_path, f"{K10}/temp0_label", b"\xff")
    (tmp_path / f"{GPU}/temp0_label").mkdir()
    pipe = tmp_path / f"{GPU}/power0_label"
    os.mkfifo(pipe)
    assert reasons(tmp_path) == SOUND
    _let_go(pipe)


def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    folder = plant(tmp_path) / "sys/class/powercap"
    shutil.rmtree(folder)
    folder.symlink_to(folder)
    assert reasons(tmp_path) == SOUND | {"package_energy": "unreadable"}


@pytest.mark.parametrize("more", ["x" * 4000, "[/red]\x1b[31m\x07", "0\nsecond line"])
def test_what_a_file_calls_itself_is_a_short_word_that_the_wire_takes(
    more: str, tmp_path: Path
) -> None:
    put(plant(tmp_path), f"{RAPL}/name", f"package-{more}")
    readings = Collector(tmp_path).collect(1.0)
    told = msgspec.convert(msgspec.to_builtins(readings), list[Reading])
    (energy,) = [one for one in told if one.name == "package_energy"]
    assert energy.valid
    assert energy.label.startswith("package-")
    assert energy.label.isprintable()


def test_a_counter_that_was_all_ones_once_is_not_in_the_sum(tmp_path: Path) -> None:
    plant(tmp_path)
    collector, told = Collector(tmp_path), list[object]()
    for second, counter in enumerate((5_000_000, 2**64 - 1, 6_000_000)):
        put(tmp_path, f"{RAPL}/energy_uj", counter)
        found = {one.name: one for one in collector.collect(float(second))}["package_energy"]
        told.append(found.value if found.valid else found.reason)
    assert told == [5.0, "all ones", 6.0]


def test_an_unplugged_chip_is_missing_and_comes_back(tmp_path: Path) -> None:
    plant(tmp_path)
    collector = Collector(tmp_path)
    (tmp_path / K10).rename(tmp_path / "aside")
    found = {one.name: one for one in collector.collect(100.0)}
    assert (found["tctl"].value, found["tctl"].reason) == (None, "missing")
    (tmp_path / "aside").rename(tmp_path / K10)
    assert {one.name: one for one in collector.collect(101.0)}["tctl"].value == 39.375
    collector.close()


def test_a_sleeping_card_is_not_woken_by_its_table(tmp_path: Path) -> None:
    plant(tmp_path)
    put(tmp_path, f"{CARD}/power/runtime_status", "suspended")
    found = reasons(tmp_path)
    assert {n for n, why in found.items() if why == "asleep"} == {
        "gfx_power", "npu_power", "gfx_activity", "npu_activity",
        "throttle_thermal", "throttle_power",
    }  # fmt: skip


def test_the_npu_of_another_maker_is_none(tmp_path: Path) -> None:
    put(plant(tmp_path), f"{NPU}/vendor", "0x8086")
    assert reasons(tmp_path)["npu_state"] == "wrong chip"


def test_an_empty_root_is_a_box_without_sensors(tmp_path: Path) -> None:
    assert set(reasons(tmp_path).values()) == {"missing"}
    assert set(reasons(tmp_path / "nowhere").values()) == {"missing"}


def test_what_may_not_be_read_says_so(tmp_path: Path) -> None:
    file = plant(tmp_path / "tree") / FILES["package_energy"]
    file.chmod(0)
    if os.geteuid() != 0:
        assert reasons(tmp_path / "tree") == SOUND | {"package_energy": "permission denied"}
        return
    root = _readable_copy(tmp_path / "tree")  # root may read anything: let nobody look
    try:
        nobody = pwd.getpwnam("nobody")
        command = [sys.executable, "-c", _AS_NOBODY, str(root)]
        tree = str(Path(ops.__file__).parents[1])
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60,
            env={"PYTHONPATH": tree, "FAIRLANE_TEST_UID": str(nobody.pw_uid)},
        )  # fmt: skip
    finally:
        shutil.rmtree(root)
    assert ran.stdout.strip() == "permission denied", ran.stderr


_AS_NOBODY = """
import os, sys
from pathlib import Path
from workers.sensors.collector import Collector
os.setgid(int(os.environ["FAIRLANE_TEST_UID"]))
os.setuid(int(os.environ["FAIRLANE_TEST_UID"]))
found = {one.name: one.reason for one in Collector(Path(sys.argv[1])).collect(1.0)}
print(found["package_energy"])
"""


def _readable_copy(tree: Path) -> Path:
    """Return a copy that another user may look into: the tests' own directories are private."""
    root = Path(
        subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip()
    )
    shutil.copytree(tree, root, dirs_exist_ok=True)
    root.chmod(0o755)
    return root


def _let_go(pipe: Path) -> None:
    """Open a pipe to write, so that whoever waits for it gets its end and his thread too."""
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return  # nobody waits any more
