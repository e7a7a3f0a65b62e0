"""Settings: defaults, file, environment, each refused with its path."""

import os
from pathlib import Path

import pytest

from scheduler.errors import SettingsError
from scheduler.settings import Settings, load


def fault(environ: dict[str, str], text: str | None = None, tmp_path: Path | None = None) -> str:
    """Return why settings are refused."""
    path = None
    if text is not None and tmp_path is not None:
        path = str(tmp_path / "fairlane.toml")
        Path(path).write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(environ, path)
    return str(caught.value)


def test_the_defaults_listen_on_loopback_and_route_auto() -> None:
    got = load({"HOME": "/nowhere"})
    assert (got.gateway.host, got.gateway.port) == ("127.0.0.1", 13305)
    assert got.aliases == {"auto": "user.Laya-First"}
    assert got.state_dir == "/nowhere/.local/state/fairlane"
    assert got.run_dir.endswith(f"/fairlane-{os.getuid()}")


def test_the_directories_follow_xdg() -> None:
    got = load({"XDG_RUNTIME_DIR": "/run/u", "XDG_STATE_HOME": "/state", "HOME": "/nowhere"})
    assert (got.run_dir, got.state_dir) == ("/run/u/fairlane", "/state/fairlane")
    assert got.frontend() == "ipc:///run/u/fairlane/clients.sock"
    assert got.backend() == "ipc:///run/u/fairlane/workers.sock"


@pytest.mark.parametrize(
    ("given", "directory"),
    [
        ({}, "/nowhere/.local/share/fairlane/models"),
        ({"XDG_DATA_HOME": "/data"}, "/data/fairlane/models"),
        ({"FAIRLANE__STORE__DIR": "/big/models"}, "/big/models"),
        ({"FAIRLANE__STORE__DIR": "~/models"}, "/nowhere/models"),
    ],
)
def test_models_are_where_a_users_data_are_unless_said_otherwise(
    given: dict[str, str], directory: str
) -> None:
    assert load({"HOME": "/nowhere", **given}).store.dir == directory


def test_the_file_comes_before_the_defaults_and_the_environment_before_the_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f.toml"
    file.write_text('run_dir = "/a"\n[gateway]\nport = 1\nhost = "::1"\n')
    got = load({"FAIRLANE__GATEWAY__PORT": "2"}, str(file))
    assert (got.run_dir, got.gateway.port, got.gateway.host) == ("/a", 2, "::1")


@pytest.mark.parametrize("how", ["named", "users own"])
def test_a_file_is_found(tmp_path: Path, how: str) -> None:
    file = tmp_path / "fairlane" / "fairlane.toml"
    file.parent.mkdir()
    file.write_text("[gateway]\nport = 7\n")
    key, value = ("FAIRLANE_CONFIG", file) if how == "named" else ("XDG_CONFIG_HOME", tmp_path)
    assert load({key: str(value)}).gateway.port == 7


def test_numbers_and_lists_in_the_environment_are_read() -> None:
    got = load(
        {
            "HOME": "/nowhere",
            "FAIRLANE__LIMITS__DECIDE_S": "1.5",
            "FAIRLANE__LIMITS__STOP_TCTL_C": "98",
            "FAIRLANE__GATEWAY__ALLOWED_HOSTS": "a,b",
            "FAIRLANE__LANES__MINE__WEIGHT": "2",
        }
    )
    assert (got.limits.decide_s, got.gateway.allowed_hosts) == (1.5, ["a", "b"])
    assert (got.limits.stop_tctl_c, got.limits.resume_tctl_c) == (98.0, None)
    assert got.lanes["mine"].weight == 2.0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("prot = 1", "`prot`"),
        ("[gateway]\nprot = 1", "$.gateway"),
        ("[gateway]\nport = 70000", "$.gateway.port"),
        ("[gateway]\nport = 'x'", "$.gateway.port"),
        ("[gateway]\nbody_max_bytes = 1", "$.gateway.body_max_bytes"),
        ("[gateway]\nrequest_timeout_s = 0", "$.gateway.request_timeout_s"),
        ("[gateway]\nallowed_hosts = [1]", "$.gateway.allowed_hosts"),
        ("[limits]\nqueue_total = 0", "$.limits.queue_total"),
        ("[limits]\nbeat_s = -1.0", "$.limits.beat_s"),
        ("[limits]\nqueue_total = 1", "limits.queue_per_lane is larger than limits.queue_total"),
        ("[limits]\nstop_tctl_c = 130", "$.limits.stop_tctl_c"),
        ("[limits]\nresume_tctl_c = 80", "resume_tctl_c is not below a limits.stop_tctl_c"),
        ("[limits]\nstop_tctl_c = 80\nresume_tctl_c = 80", "resume_tctl_c is not below"),
        ("[npu]\ncanary = 'always'", "$.npu.canary"),
        ("[npu]\ncanary_s = 0", "$.npu.canary_s"),
        ("[workers]\nengine = 'x'", "$.workers.engine"),
        ("[scorer]\nbackend = 'x'", "$.scorer.backend"),
        ("[scorer]\nslow_ms = -1", "$.scorer.slow_ms"),
        ("[scorer]\nbackend = 'laya-daemon'", "gguf names no file - at `$.scorer`"),
        ("[scorer]\nbackend = 'llama-cpp'\ngguf = '/a'", "gguf or head names no file"),
        ("[lanes.a]\nweight = 0", "lanes.a"),
        ("[lanes.a]\nweight = nan", "lanes.a"),
        ("[lanes.a]\nwieght = 1", "wieght"),
        ("log_level = 'LOUD'", "log_level is none of"),
        ("gateway = 1", "$.gateway"),
    ],
)
def test_a_wrong_setting_in_a_file_is_refused_with_its_path(
    tmp_path: Path, text: str, where: str
) -> None:
    assert where in fault({}, text, tmp_path)


@pytest.mark.parametrize("value", ["inf", "1e12"])
@pytest.mark.parametrize("setting", ["[gateway]\nrequest_timeout_s", "[lanes.a]\nweight"])
def test_a_number_without_measure_is_refused(tmp_path: Path, setting: str, value: str) -> None:
    assert "$." in fault({}, f"{setting} = {value}", tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("FAIRLANE__GATEWAY__PROT", "1", "$.gateway"),
        ("FAIRLANE__GATEWAY__PORT", "x", "$.gateway.port"),
        ("FAIRLANE__LIMITS__BEAT_S", "0", "$.limits.beat_s"),
        ("FAIRLANE__", "1", "``"),
        ("FAIRLANE__GATEWAY", "1", "$.gateway"),
    ],
)
def test_a_wrong_variable_is_refused_with_its_path(name: str, value: str, where: str) -> None:
    assert where in fault({name: value, "HOME": "/nowhere"})


def test_a_variable_below_what_is_no_section_is_refused(tmp_path: Path) -> None:
    said = fault({"FAIRLANE__RUN_DIR__X": "1"}, 'run_dir = "/a"', tmp_path)
    assert said == "FAIRLANE__RUN_DIR__X: `run_dir` is no section"


def test_a_daemon_of_another_kind_needs_no_model_file() -> None:
    given = {"FAIRLANE__SCORER__BACKEND": "laya-daemon", "FAIRLANE__SCORER__COMMAND": "mine --x"}
    assert load({"HOME": "/nowhere", **given}).scorer.command == "mine --x"


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing.toml"
    expected = f"cannot read the settings file {missing}: No such file or directory"
    assert fault({"FAIRLANE_CONFIG": missing}) == expected
    with pytest.raises(SettingsError, match="cannot read"):
        load({}, missing)


@pytest.mark.parametrize("raw", [b"[gateway", b"a = \xff", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_refused_with_its_name(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "f.toml"
    file.write_bytes(raw)
    with pytest.raises(SettingsError, match=r"f\.toml"):
        load({}, str(file))


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Settings().run_dir = "/x"  # type: ignore[misc]  # that is the point
