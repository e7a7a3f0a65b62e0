"""Settings: defaults, then a TOML file, then environment variables, each refused with its path when wrong.

Rules of this file: the environment is an argument; nothing is read at import; a quantity's unit is in its
name. `FAIRLANE__GATEWAY__PORT=8000` sets `gateway.port`; `FAIRLANE_CONFIG` names the file, else
`~/.config/fairlane/fairlane.toml` is read if it is there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from policies.shape import is_object
from scheduler.core.limits import Limits, Npu
from scheduler.errors import SettingsError

_PREFIX = "FAIRLANE__"
# What may serve rows without settings: in the process, a constant, and the servers whose commands are shipped
# (workers/upstream/templates.py).
ENGINES = ("llama", "llama-cpp-python", "null", "1bit", "llama-server", "flm", "llama-cpp-server")
Port = Annotated[int, Meta(ge=0, le=65535)]
Timeout = Annotated[float, Meta(gt=0.0, le=86_400.0)]
Weight = Annotated[float, Meta(ge=0.001, le=1_000.0)]


class Gateway(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP front."""

    host: str = "127.0.0.1"  # loopback: nothing is reachable from outside unless asked for
    port: Port = 13305  # 0: a free one, printed at start
    body_max_bytes: Annotated[int, Meta(ge=1024, le=16 * 1024 * 1024)] = (
        16 * 1024 * 1024  # a longer request gets 413
    )
    request_timeout_s: Timeout = 600.0  # a request may wait and run this long in all
    # an answer that is not streamed sends status and headers after this long, and then white space, because
    # proxies and clients give up on a silent connection; 0: only when it is complete
    wait_headers_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = 60.0
    wait_space_s: Annotated[float, Meta(ge=0.0, le=86_400.0)] = (
        15.0  # white space each so often; 0: once
    )
    allowed_hosts: list[str] = []  # further Host names to accept, beside loopback and `host`
    allowed_origins: list[str] = []  # web pages that may call, such as "http://localhost:3000"


class Lane(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One named lane."""

    weight: Weight = 1.0  # share of the device beside the others
    keys: list[str] = []  # sha256 (hex) of the API keys that belong to this lane


class Memory(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memory that loaded models and outside lanes share."""

    # for all devices together; 0: all of the machine's less the reserve
    budget_gib: Annotated[float, Meta(ge=0.0, le=65_536.0)] = 0.0
    reserve_gib: Annotated[float, Meta(ge=0.0, le=65_536.0)] = 4.0  # at most a quarter is kept free

    def kept_free(self, total: int) -> int:
        """Return the bytes of a machine's memory that are to stay free."""
        return int(min(total / 4, self.reserve_gib * 2**30))


class Workers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worker processes of this box."""

    # what serves rows that name no engine: llama is llama-cpp-python in the process, any other name one of
    # `engines`; null answers every row with a constant, for measuring
    engine: Annotated[str, Meta(min_length=1, max_length=64)] = "llama"
    threads: Annotated[int, Meta(ge=0, le=1024)] = 0  # 0: half of the processors, at least one
    template_pins: str = ""  # path of a document of pins that count beside the shipped ones
    template_pin_strict: bool = (
        False  # refuse a file whose template is not the pinned one: else it is told
    )
    null_seats: Annotated[int, Meta(ge=1, le=4096)] = 64  # of null
    null_hold_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = (
        0.0  # null holds a seat for up to so long
    )
    null_log: str = ""  # file in which null writes down when it did; empty: nowhere
    null_fails: Literal["", "hrx", "npu", "cpu"] = ""  # where null fails each job, after its hold


class EngineConf(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine that is a server; workers/ENGINES.md. What is left out is as shipped for that name."""

    # program of a child and its arguments, split as a shell would; {path} {model} {device} {ctx} {ctx_all}
    # {slots} {port} {threads} {tag} {python} are filled in afterwards; empty: a neighbour, only asked
    command: str = ""
    parallel: str = ""  # further arguments for a row with more than one slot
    roles: dict[str, str] = {}  # role of a row's extra file -> its arguments, {file} among them
    types: dict[str, str] = {}  # type of a row that is no llm -> its arguments
    tags: str = (
        ""  # command that lists the installed tags; a tag that it does not name is not started
    )
    environ: dict[str, str] = {}  # what the child's environment has beside ours
    url: str = ""  # base address of a neighbour, for rows that name none
    key_file: str = ""  # file with the neighbour's API key
    ready: str = "/health"  # path that answers 200 when it serves
    # path that tells llama-server's slots; "cpu": its processor time tells; empty: nothing does
    idle: str = ""
    id_slot: bool = False  # takes id_slot and cache_prompt
    backend: str = ""  # what really computes, {device} filled in; empty: unknown
    nice: Annotated[int, Meta(ge=0, le=19)] = 0
    seats: Annotated[int, Meta(ge=0, le=4096)] = (
        0  # jobs at a time in all; 0: as many as a row has slots
    )
    start_s: Timeout = 300.0  # a child is ready within this, or is ended
    cancel_grace_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = (
        2.0  # a child that works longer on a cancelled job is ended
    )
    stall_s: Timeout = 120.0  # nothing said and nothing done for so long: the job fails


class Scorer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tells code, prose and short texts apart; workers/WORKERS.md has a section on each."""

    backend: Literal["builtin", "laya-daemon", "llama-cpp"] = "builtin"  # who does it
    gguf: str = ""  # path of the model: the daemon's own GGUF, or llama-cpp's encoder
    head: str = ""  # path of the decision head beside llama-cpp's encoder, safetensors or npz
    device: Annotated[str, Meta(max_length=64)] = (
        "auto"  # in the backend's own words: auto, cpu, hrx, cuda:0, vulkan:0
    )
    # laya-daemon's program, split as a shell would; {gguf} and {device} are filled in afterwards
    command: str = "laya daemon {gguf} --family typed-decisions --device {device}"
    # a backend of which more than one answer in a hundred takes longer gives way to builtin; 0: never
    slow_ms: Annotated[float, Meta(ge=0.0, le=60_000.0)] = 100.0

    def __post_init__(self) -> None:
        if self.backend == "laya-daemon" and not self.gguf and "{gguf}" in self.command:
            raise ValueError("backend is laya-daemon, but gguf names no file")
        if self.backend == "llama-cpp" and not (self.gguf and self.head):
            raise ValueError("backend is llama-cpp, but gguf or head names no file")


class Journal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the broker writes down, so that the next one goes on from it."""

    enabled: bool = True  # without it, conversations and accounts end with the broker
    # bytes of events after which a new segment begins, or twice its checkpoint where that is more
    segment_bytes: Annotated[int, Meta(ge=4096, le=2**30)] = 1024 * 1024
    keep: Annotated[int, Meta(ge=1, le=1000)] = 8  # segments on disk; the oldest gives way


class Store(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where models' files are and how they are pulled; workers/store/STORE.md.

    Which hub, with which token, and whether there is any at all is HF_ENDPOINT's, HF_TOKEN's and
    HF_HUB_OFFLINE's to say, as for every other program.
    """

    # models' files; default $XDG_DATA_HOME/fairlane/models, else ~/.local/share/fairlane/models
    dir: str = ""
    # what they may take together; what no row of the table names goes first; 0: as much as the disk has
    quota_gib: Annotated[float, Meta(ge=0.0, le=1_048_576.0)] = 0.0
    parallel: Annotated[int, Meta(ge=1, le=64)] = 4  # rows pulled at the same time
    timeout_s: Annotated[float, Meta(gt=0.0, le=600.0)] = 10.0  # silence that ends a connection
    attempts: Annotated[int, Meta(ge=1, le=100)] = (
        4  # in a row that bring nothing, then a pull fails
    )


class Sensors(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is read of heat, power and load; workers/sensors/SENSORS.md."""

    enabled: bool = (
        True  # without it, nothing is known of heat and power, and no rule on them fires
    )
    root: Annotated[str, Meta(min_length=1)] = "/"  # where sys and proc are; another tree for tests
    amdsmi: bool = True  # ask AMD's library for what the files do not tell; with root "/" only
    replay: str = ""  # path of a recorded trace, played at 1 Hz in place of reading


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of one box."""

    # sockets; default $XDG_RUNTIME_DIR/fairlane, else a directory of this user in /tmp
    run_dir: str = ""
    # what survives the processes; default $XDG_STATE_HOME/fairlane, else ~/.local/state/fairlane
    state_dir: str = ""
    # a laya-first table: a path, "embedded" or "laya-first"; default: the user's own, else the embedded one
    table: str = ""
    table_overlay: str = ""  # path of the site's overlay: ctx, slots, ttl_s, pinned, weights
    # further names of rows and collections
    aliases: dict[str, str] = msgspec.field(default_factory=lambda: {"auto": "user.Laya-First"})
    log_level: str = "INFO"  # DEBUG, INFO, WARNING or ERROR
    gateway: Gateway = Gateway()
    limits: Limits = Limits()
    npu: Npu = Npu()
    workers: Workers = Workers()
    memory: Memory = Memory()
    scorer: Scorer = Scorer()
    journal: Journal = Journal()
    sensors: Sensors = Sensors()
    store: Store = Store()
    lanes: dict[str, Lane] = {}  # those with a weight or keys of their own
    engines: dict[str, EngineConf] = {}  # those that are servers, over the shipped ones

    def __post_init__(self) -> None:
        if self.limits.queue_per_lane > self.limits.queue_total:
            raise ValueError("limits.queue_per_lane is larger than limits.queue_total")
        if self.workers.engine not in {*ENGINES, *self.engines}:
            known = ", ".join((*ENGINES, *self.engines))
            raise ValueError(
                f"{self.workers.engine!r} is no engine; there are {known} - at `$.workers.engine`"
            )
        stop_c, resume_c = self.limits.stop_tctl_c, self.limits.resume_tctl_c
        if resume_c is not None and (stop_c is None or resume_c >= stop_c):
            raise ValueError("limits.resume_tctl_c is not below a limits.stop_tctl_c")
        if self.log_level not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
            raise ValueError("log_level is none of DEBUG, INFO, WARNING, ERROR")

    def frontend(self) -> str:
        """Return the endpoint clients connect to."""
        return f"ipc://{self.run_dir}/clients.sock"

    def backend(self) -> str:
        """Return the endpoint workers connect to."""
        return f"ipc://{self.run_dir}/workers.sock"


def load(environ: Mapping[str, str], path: str | None = None) -> Settings:
    """Return the settings in force.

    Args:
        environ: The environment.
        path: A settings file that must exist; None: the one FAIRLANE_CONFIG names, else the user's
            own if there is one.

    Raises:
        SettingsError: A file that cannot be read, a name that does not exist or a value of the wrong
            type or range; the message names the path of the setting.
    """
    values = _from_file(environ, path)
    for name, text in sorted(environ.items()):
        if name.startswith(_PREFIX):
            _overlay(values, name.removeprefix(_PREFIX).lower().split("__"), text, name)
    _check_named(values.get("lanes"), "lanes", Lane)
    _check_named(values.get("engines"), "engines", EngineConf)
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error}") from error
    return msgspec.structs.replace(
        settings,
        run_dir=settings.run_dir or _default_run_dir(environ),
        state_dir=settings.state_dir or _default_state_dir(environ),
        store=msgspec.structs.replace(settings.store, dir=_models_dir(settings, environ)),
    )


def _from_file(environ: Mapping[str, str], path: str | None) -> dict[str, Any]:
    named = path or environ.get("FAIRLANE_CONFIG")
    home = environ.get("HOME", "~")
    base = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    file = Path(named) if named else Path(base, "fairlane", "fairlane.toml")
    if not named and not file.is_file():
        return {}
    try:
        return msgspec.toml.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise SettingsError(f"cannot read the settings file {file}: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from error


def _overlay(values: dict[str, Any], path: list[str], text: str, name: str) -> None:
    at: dict[str, object] = values
    for part in path[:-1]:
        below = at.setdefault(part, {})
        if not is_object(below):
            raise SettingsError(f"{name}: `{part}` is no section")
        at = below
    at[path[-1]] = text.split(",") if path[-1] in {"allowed_hosts", "allowed_origins"} else text


def _check_named(named: object, section: str, kind: type[Struct]) -> None:
    """Refuse a wrong lane or engine under its name, which msgspec hides in a path through a dictionary."""
    for name, one in named.items() if is_object(named) else ():
        try:
            msgspec.convert(one, kind, strict=False)
        except msgspec.ValidationError as error:
            raise SettingsError(f"settings: {error} - in {section}.{name}") from error


def _default_run_dir(environ: Mapping[str, str]) -> str:
    runtime = environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/fairlane" if runtime else f"/tmp/fairlane-{os.getuid()}"  # noqa: S108  # 0700, see sockets


def _default_state_dir(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_STATE_HOME") or f"{environ.get('HOME', '/tmp')}/.local/state"  # noqa: S108
    return f"{base}/fairlane"


def _models_dir(settings: Settings, environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "/tmp")  # noqa: S108
    given = settings.store.dir
    if given:
        return home + given[1:] if given.startswith("~/") else given
    base = environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    return f"{base}/fairlane/models"
