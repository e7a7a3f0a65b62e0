"""Wrong settings are refused with the path of what is wrong."""

from collections.abc import Callable

import pytest

from support.box import Box

WRONG_NAMES = [
    ("gateway.prt", "prt"),
    ("nothing", "nothing"),
    ("workers.speed", "speed"),
    ("limits.queue_totl", "queue_totl"),
    ("lanes.a.colour", "colour"),
]
WRONG_VALUES = [
    ("gateway.port", "abc"),
    ("gateway.port", "70000"),
    ("gateway.body_max_bytes", "0"),
    ("workers.engine", "warp"),
    ("workers.null_seats", "0"),
    ("limits.queue_total", "-1"),
    ("limits.beat_s", "0"),
    ("limits.decide_s", "-1"),
    ("lanes.a.weight", "0"),
    ("log_level", "LOUD"),
]


def refusal(box: Box) -> str:
    """Return what `fairlane settings` says, checked to be one line and exit status 3."""
    shown = box.cli("settings")
    assert (shown.returncode, shown.stdout) == (3, "")
    assert len(shown.stderr.splitlines()) == 1
    return shown.stderr


def section_of(path: str) -> str:
    return path.rpartition(".")[0]


@pytest.mark.parametrize(("path", "name"), WRONG_NAMES)
def test_a_wrong_name_in_the_environment_is_refused_with_its_path(
    prepared: Callable[..., Box], path: str, name: str
) -> None:
    said = refusal(prepared(**{path.replace(".", "__"): "1"}))
    assert name in said
    assert section_of(path) in said


@pytest.mark.parametrize(("path", "name"), WRONG_NAMES)
def test_a_wrong_name_in_the_file_is_refused_with_its_path(
    prepared: Callable[..., Box], path: str, name: str
) -> None:
    box = prepared()
    file = box.home / "fairlane.toml"
    file.write_text(f"{path} = 1\n")
    box.environ["FAIRLANE_CONFIG"] = str(file)
    said = refusal(box)
    assert name in said
    assert section_of(path) in said


@pytest.mark.parametrize(("path", "value"), WRONG_VALUES)
def test_a_value_out_of_its_range_is_refused_with_its_path(
    prepared: Callable[..., Box], path: str, value: str
) -> None:
    assert path.rpartition(".")[2] in refusal(prepared(**{path.replace(".", "__"): value}))


def test_a_file_that_is_no_toml_is_refused_by_name(prepared: Callable[..., Box]) -> None:
    box = prepared()
    file = box.home / "broken.toml"
    file.write_text("[gateway\n")
    box.environ["FAIRLANE_CONFIG"] = str(file)
    assert str(file) in refusal(box)


def test_a_box_with_wrong_settings_starts_nothing(prepared: Callable[..., Box]) -> None:
    box = prepared(gateway__prt=1)
    assert box.spawn().wait(timeout=60) == 3
    assert box.log() == []


def test_the_environment_wins_over_the_file(prepared: Callable[..., Box]) -> None:
    box = prepared(gateway__port=4321)
    file = box.home / "fairlane.toml"
    file.write_text("[gateway]\nport = 1234\n")
    box.environ["FAIRLANE_CONFIG"] = str(file)
    assert "gateway.port = 4321" in box.cli("settings").stdout
