"""All engines of a device under a test's hand: rows, jobs, and what came of them."""

import atexit
import json
import logging
import queue
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from policies.table import Row
from scheduler.settings import EngineConf, Settings, Workers
from support.gguf import write_gguf
from workers.engine import Engine
from workers.engines import Engines
from workers.job import End, Error, Job, Outcome, Piece, Stage, Unloaded
from workers.pinned import load_pinned

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi there"}]
FAKE = (
    "{python} -m workers.fake_server --port {port} --model {path} --alias at-{model} --slots {slots} "
    "--ctx {ctx}"
)


def fake(play: str = "well", *more: object, **conf: Any) -> EngineConf:
    """Return an engine whose children are the shipped fake."""
    words = " ".join(map(str, more))
    settings = {"idle": "/slots", "id_slot": True, "start_s": 30.0, **conf}
    return EngineConf(command=f"{FAKE} --play {play} {words}", **settings)


def model_file(folder: Path) -> Path:
    """Return a file that is a model's as far as its head goes."""
    return write_gguf(folder / "m.gguf", {"tokenizer.chat_template": "{{ messages }}"}, {})


_ROOM = tempfile.mkdtemp(prefix="fl-")
atexit.register(shutil.rmtree, _ROOM, ignore_errors=True)
FILE = model_file(Path(_ROOM))


def row(model: str = "m", **fields: Any) -> Row:
    """Return a row of a file that is there."""
    given = {"device": "hrx", "ctx": 4096, "path": str(FILE), "engine": "fake", **fields}
    return Row(model=model, **given)


def url_row(model: str, url: str, **fields: Any) -> Row:
    """Return a row at a neighbour."""
    return row(model, **{"path": None, "engine": None, "url": url, **fields})


def no_in_process() -> Engine:
    """Fail: the test has no row for it."""
    raise AssertionError("nothing is to run in this process")


class Answered:
    """What came of one job, in order, with the times."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[float, Outcome]] = []

    @property
    def end(self) -> End | Error:
        """How it ended."""
        last = self.outcomes[-1][1]
        assert isinstance(last, End | Error)
        return last

    @property
    def ended_at(self) -> float:
        """When."""
        return self.outcomes[-1][0]

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of its stream."""
        return [one for _, one in self.outcomes if isinstance(one, Piece)]

    @property
    def stages(self) -> list[str]:
        """The stages it went through."""
        return [one.stage for _, one in self.outcomes if isinstance(one, Stage)]

    @property
    def text(self) -> str:
        """The text of a streamed chat."""
        said = [json.loads(piece.body)["choices"] for piece in self.pieces]
        return "".join(c[0]["delta"].get("content") or "" for c in said if c)


class Bench:
    """The engines of hrx."""

    def __init__(
        self, folder: Path, rows: Mapping[str, Row], engines: Mapping[str, EngineConf], threads: int
    ) -> None:
        settings = Settings(
            run_dir=str(folder), engines=dict(engines), workers=Workers(threads=threads)
        )
        pinned = load_pinned("", is_strict=False)
        self.engines = Engines("hrx", settings, rows, pinned, no_in_process)
        self._said: dict[int, queue.SimpleQueue[tuple[float, Outcome]]] = {}
        self._leases = 0

    def begin(
        self, model: str = "m", *, op: str = "chat", stream: bool = True, talk: str = "c",
        evict: tuple[str, ...] = (), **body: Any,
    ) -> int:  # fmt: skip
        """Begin a job and return its lease."""
        self._leases += 1
        lease = self._leases
        raw = json.dumps({"model": "auto", "messages": HI, "stream": stream, **body}).encode()
        said = self._said[lease] = queue.SimpleQueue()
        job = Job(lease, op, model, stream, talk, raw, list(evict))
        self.engines.start(job, lambda outcome: said.put((time.monotonic(), outcome)))
        return lease

    def next(self, lease: int, timeout_s: float = 60.0) -> Outcome:
        """Return the next thing that comes of a job."""
        return self._said[lease].get(timeout=timeout_s)[1]

    def until_piece(self, lease: int) -> None:
        """Wait for the first piece of a stream."""
        while not isinstance(self.next(lease), Piece):
            pass

    def rest(self, lease: int, timeout_s: float = 60.0) -> Answered:
        """Return all that comes of a job from here on; nothing may come after its end."""
        answered = Answered()
        while not (answered.outcomes and isinstance(answered.outcomes[-1][1], End | Error)):
            answered.outcomes.append(self._said[lease].get(timeout=timeout_s))
        assert self._said[lease].empty()
        return answered

    def cancel(self, lease: int) -> float:
        """Cancel a job and return after how many seconds its end was told."""
        began_at = time.monotonic()
        self.engines.cancel(lease)
        answered = self.rest(lease)
        assert answered.end == End(lease, cancelled=True)
        return answered.ended_at - began_at

    def run(self, model: str = "m", **how: Any) -> Answered:
        """Run a job to its end."""
        return self.rest(self.begin(model, **how))

    def unload(self, model: str) -> None:
        """Let go of a row."""
        gone: queue.SimpleQueue[Unloaded] = queue.SimpleQueue()
        self.engines.unload(model, gone.put)
        assert gone.get(timeout=60) == Unloaded(model)


@contextmanager
def bench(folder: Path, *rows: Row, threads: int = 1, **engines: EngineConf) -> Iterator[Bench]:
    """Keep engines for as long as the block runs."""
    logging.getLogger("workers").setLevel(
        logging.INFO
    )  # a record is made, so that its action is looked up
    kept = Bench(folder, {one.model: one for one in rows}, engines, threads)
    try:
        yield kept
    finally:
        kept.engines.close()
