"""`fairlane route`: the scorer by itself, for one text or as a daemon that another program drives."""

import signal
import sys
from types import FrameType
from typing import NoReturn

import click
import msgspec

from ops.commands.common import friendly, load
from ops.commands.exits import Exit, finish
from ops.table import load_table
from scheduler import log
from scheduler.errors import SettingsError
from scheduler.settings import Scorer, Settings
from workers.backend import Backend, BackendError
from workers.backends import open_backend
from workers.builtin.weights import WeightsDamagedError
from workers.outward import tell
from workers.serving import LINE_MAX_BYTES, serve


@click.command()
@click.option("--serve", "as_daemon", is_flag=True, help="Answer JSON lines until stdin ends.")
@click.option("--classify", is_flag=True, help="Print class, confidence and device.")
@click.option("--json", "as_json", is_flag=True, help="The same, and more, as a JSON object.")
@click.option("--state", metavar="TEXT", help="The text; - reads standard input.")
@click.option(
    "--backend",
    type=click.Choice(["builtin", "laya-daemon", "llama-cpp"]),
    help="What decides; default: the one of the settings.",
)
@friendly
def route(
    state: str | None, backend: str | None, *, as_daemon: bool, classify: bool, as_json: bool
) -> None:
    """Tell what kind of answer a request needs: code, prose, short, or long_doc."""
    if as_daemon == (state is not None) or (as_daemon and (classify or as_json)):
        raise click.UsageError("say --serve, or --state TEXT with --classify or --json")
    if sys.stdin is None and (as_daemon or state == "-"):
        raise click.UsageError("standard input is closed")
    conf = load()
    if as_daemon:
        _serve(_open(_chosen(conf.scorer, backend), conf.log_level))
    else:
        _show(_text(str(state)), conf, _chosen(conf.scorer, backend), as_json=as_json)


def _chosen(conf: Scorer, backend: str | None) -> Scorer:
    if backend is None:
        return conf
    known = {**msgspec.structs.asdict(conf), "backend": backend}
    try:
        return msgspec.convert(known, Scorer)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error} - at `$.scorer`") from error


def _open(conf: Scorer, level: str) -> Backend:
    log.configure("route", level=level)
    try:
        return open_backend(conf)
    except (BackendError, WeightsDamagedError) as error:
        print(f"fairlane: {error}", file=sys.stderr)
        raise SystemExit(Exit.FAILED) from error


def _serve(backend: Backend) -> None:
    signal.signal(signal.SIGTERM, _leave)
    try:
        serve(backend, sys.stdin.fileno(), sys.stdout.fileno())
    finally:
        backend.close()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _text(state: str) -> str:
    if state != "-":
        return state
    return sys.stdin.buffer.read(LINE_MAX_BYTES).decode("utf-8", "surrogateescape")


def _show(text: str, conf: Settings, scorer: Scorer, *, as_json: bool) -> None:
    table = load_table(conf).table
    backend = _open(scorer, conf.log_level)
    try:
        told = tell(backend, text)
    except BackendError as error:
        print(f"fairlane: {error}", file=sys.stderr)
        raise SystemExit(Exit.FAILED) from error
    finally:
        backend.close()
    row = table.rows[table.classes[told.class_].model]
    if not as_json:
        finish(f"{told.class_} {told.confidence:.2f} {row.device}")
    shown = {
        "class": told.class_,
        "confidence": told.confidence,
        "probabilities": dict(told.probabilities),
        "why": told.why,
        "model": row.model,
        "device": row.device,
        "backend": backend.name,
    }
    finish(msgspec.json.encode(shown).decode())
