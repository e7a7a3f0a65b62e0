"""A row at a server that somebody else runs: asked, never started, never ended."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from policies.table import Row
from policies.why import Reason
from scheduler.settings import EngineConf
from workers.job import JobError
from workers.rows import unusable
from workers.upstream import slots
from workers.upstream.call import CallFailed, Target, get, target_of

HEALTH_S = 2.0  # an answer about its health is believed for so long
_TIMEOUT_S = 5.0
_NO_PATH = frozenset({404, 405, 501})
_MODELS = "/v1/models"


class Neighbour:
    """One row at one neighbour."""

    def __init__(self, row: Row, engine: str, conf: EngineConf) -> None:
        """Remember where it is; nothing is asked.

        Args:
            row: The row; its tag, or else its model, is the name the neighbour knows.
            engine: Name of the engine.
            conf: Where it is, where the row does not say so itself, and how it is asked.
        """
        self.name = row.tag or row.model
        self._row = row
        self._engine = engine
        self._conf = conf
        self._url = row.url or conf.url
        self._target: Target | None = None
        self._well_at: float | None = None  # when it last said that it is well

    @property
    def target(self) -> Target:
        """Where it is."""
        if self._target is None:
            raise RuntimeError("asked before it was ready")
        return self._target

    @property
    def is_resident(self) -> bool:
        """Whether it was well when it was asked last."""
        return self._well_at is not None

    @property
    def size(self) -> int:
        """Nothing that is known here: its memory is its own affair."""
        return 0

    def ready(self, on_load: Callable[[], None], is_wanted: Callable[[], bool]) -> float | None:
        """Ask whether it is well. It loads what it loads without telling; see `Place`."""
        if self._well_at is not None and time.monotonic() - self._well_at < HEALTH_S:
            return None
        self._well_at = None
        if not self._url:
            raise self._unusable(f"neither the row nor engines.{self._engine} has a url")
        try:
            self._target = target_of(self._url, self._key())
            status, _ = get(self._target, self._conf.ready, _TIMEOUT_S)
            if status in _NO_PATH and self._conf.ready == EngineConf().ready:
                # what nobody has set: Ollama, flm and lemond have no such path, all have this one
                status, _ = get(self._target, _MODELS, _TIMEOUT_S)
        except ValueError as error:
            raise self._unusable(str(error)) from error
        except CallFailed as error:
            raise self._unusable(f"{self._address()} does not answer: {error}; start it") from error
        if status in {401, 403}:
            key = f"see engines.{self._engine}.key_file"
            raise self._unusable(f"{self._address()} refuses our key with {status}; {key}")
        if not 200 <= status < 300:
            text = f"{self._address()} is not well: it says {status}"
            raise self._unusable(f"{text}; see engines.{self._engine}.ready")
        self._well_at = time.monotonic()
        return None

    def _address(self) -> str:
        return f"{self._target}{self._conf.ready}"

    def _key(self) -> str:
        if not self._conf.key_file:
            return ""
        path = Path(self._conf.key_file).expanduser()
        try:
            key = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(f"the key file {path} cannot be read: {error}") from error
        if not (key.isascii() and key.isprintable() and key):
            raise self._unusable(f"the key file {path} must hold the key on one line and no more")
        return key

    def _unusable(self, text: str) -> JobError:
        return unusable(self._row, Reason.LOAD_FAILED, text)

    def enter(self, conversation: str, op: str) -> tuple[object, Mapping[str, bytes]]:
        """Count the job: which slots a neighbour has is its own affair."""
        return None, {}

    def leave(self, entered: object) -> None:
        """Nothing is held."""

    def is_idle(self, entered: object) -> bool | None:
        """Return whether it works for nobody; whose work it does, nobody can tell."""
        if self._target is None or not self._conf.idle.startswith("/"):
            return None
        busy = slots.busy(self._target, self._conf.idle)
        return None if busy is None else not busy

    def progress(self) -> object | None:
        """Nobody can tell."""
        return None

    def give_up(self, entered: object) -> bool:
        """It is not ours to end: its work on a cancelled request may go on, and the seat is given back."""
        return True

    def fault(self, wait_s: float) -> str:
        """It may be gone, but it is not ours to say how."""
        return ""

    def stop(self) -> None:
        """It keeps what it has loaded."""
        self._well_at = None
