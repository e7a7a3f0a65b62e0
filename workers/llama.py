"""llama-cpp-python in this process: any number of models loaded, one seat, one working thread.

On a machine without the appliance's devices this stands in for them, and says so: its backend is
"llama.cpp cpu". The thread loads on demand, keeps what it loaded until told to let go, and reuses
the prefix that the last prompt shares with the next one. Cancelling stops a prefill through llama.cpp's
abort callback and a decode at the next token.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from policies.shape import is_object
from scheduler import asking, turns
from scheduler.wire.catalogue import CatalogueBody
from workers import build, tokenizing
from workers.answering import Answering
from workers.engine import Sink
from workers.fields import sampling, wants_base64
from workers.job import End, Error, Job, JobError, Stage, Unloaded
from workers.loaded import Loaded
from workers.pinned import Pinned
from workers.rack import Rack
from workers.schema import schema_of
from workers.shapes import Shape
from workers.texts import too_long

log = logging.getLogger(__name__)
_OPS = ("chat", "completion", "embed", "tokenize")
_ENDPOINTS: dict[str, asking.Endpoint] = {"completion": "completion", "embed": "embed"}


class _Unload(NamedTuple):
    """A row to let go of."""

    model: str
    done: Callable[[Unloaded], None]


class LlamaEngine:
    """Runs chat and completion jobs on llama.cpp's CPU backend."""

    backend = "llama.cpp cpu"
    seats = 1
    slots = 64
    by_row = True

    def __init__(self, device: str, threads: int, pinned: Pinned) -> None:
        """Check the build and start the thread; nothing is loaded.

        Args:
            device: Kind of device this engine stands in for; only its rows are run.
            threads: Processor threads; 0: half of the processors, so that two engines fit.
            pinned: What the files' templates are held to.

        Raises:
            workers.build.UnusableBuild: The installed build would crash.
        """
        threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._rack = Rack(device, self.backend, threads, pinned)
        self._jobs: queue.SimpleQueue[tuple[Job, Sink] | _Unload] = queue.SimpleQueue()
        self._known: set[int] = set()  # leases queued or running
        self._cancelled: set[int] = set()
        check_build()
        threading.Thread(target=self._work, name="llama", daemon=True).start()

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn which rows there are."""
        self._rack.learn(dict(body.parsed().rows))

    def start(self, job: Job, sink: Sink) -> None:
        """Queue a job for the thread."""
        self._known.add(job.lease)
        self._jobs.put((job, sink))

    def cancel(self, lease: int) -> None:
        """Stop a job."""
        if lease in self._known:
            self._cancelled.add(lease)

    def close(self) -> None:
        """Nothing outlives the process."""

    def unload(self, model: str, done: Callable[[Unloaded], None]) -> None:
        """Let go of a row after the jobs that wait."""
        self._jobs.put(_Unload(model, done))

    def resident(self) -> list[str]:
        """Return the loaded models."""
        return self._rack.names()

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each row on disk."""
        return self._rack.sizes()

    def _work(self) -> None:
        while True:
            work = self._jobs.get()
            if isinstance(work, _Unload):
                self._rack.drop(work.model)
                work.done(Unloaded(work.model))
                continue
            job, sink = work
            try:
                if job.lease in self._cancelled:
                    sink(End(job.lease, cancelled=True))
                else:
                    self._run(job, sink)
            except JobError as error:
                sink(Error(job.lease, error.status, error.code, error.message, error.facts))
            except Exception as error:  # the job boundary: whatever a model file does to
                # the library, this job fails, and the next one starts from a fresh load
                log.exception("job failed", extra={"action": "model_failed"})
                self._rack.drop(job.model)
                message = f"The engine failed: {type(error).__name__}: {error}"
                sink(Error(job.lease, 500, "engine_failed", message))
            finally:
                self._known.discard(job.lease)
                self._cancelled.discard(job.lease)

    def _run(self, job: Job, sink: Sink) -> None:
        began_at = time.monotonic()
        if job.op not in _OPS:
            message = (
                f"The engine llama-cpp-python serves {', '.join(_OPS)}, and not {job.op}; "
                "a row whose engine is a server that has it does, such as llama-server or a url."
            )
            raise JobError(501, "not_implemented", message, {"engine": "llama-cpp-python"})
        if job.op == "tokenize":
            question = tokenizing.read(job.body)
            loaded, load_s = self._load(job, sink)
            sink(loaded.tokenize(job, question, load_s))
            return
        body = request_of(job)
        arguments = sampling(body)  # refused before anything is loaded for it
        schema = schema_of(body.get("response_format"))
        is_packed = job.op == "embed" and wants_base64(body)
        loaded, load_s = self._load(job, sink)
        if job.op == "embed":
            texts, lease = turns.embed_inputs(body), job.lease
            gone = self._cancelled
            sink(loaded.embed(job, texts, load_s, lambda: lease in gone, in_base64=is_packed))
            return
        arguments["grammar"] = loaded.grammar(schema)
        prompt = loaded.prompt(job.op, body)
        room = loaded.row.ctx - len(prompt)
        if room < 1:
            raise too_long(len(prompt), loaded.row.ctx)
        wanted = (
            body.get("max_completion_tokens") or body.get("max_tokens") or loaded.row.max_tokens
        )
        sink(Stage(job.lease, "prefill"))
        options = body.get("stream_options")
        answer = Answering(job, sink, Shape(job.op, loaded.row.model), load_s)
        answer.wants_usage = is_object(options) and bool(options.get("include_usage"))
        answer.began_at = began_at
        loaded.generate(
            prompt,
            arguments,
            min(wanted or room, room),
            answer,
            lambda: job.lease in self._cancelled,
        )

    def _load(self, job: Job, sink: Sink) -> tuple[Loaded, float | None]:
        for model in job.evict:
            self._rack.drop(model)  # what leaves does so before what comes
        loaded = self._rack.get(job.model)
        if loaded is not None:
            return loaded, None
        row = self._rack.row(job.model)
        sink(Stage(job.lease, "load"))
        return self._rack.load(row)


def request_of(job: Job) -> dict[str, Any]:
    """Return a job's request, checked as at the gateway: the bus carries whatever a client sends.

    Raises:
        JobError: 400, it is malformed.
    """
    try:
        asking.read(job.body, _ENDPOINTS.get(job.op, "chat"), {})
    except asking.BadRequest as error:
        facts = {"param": error.param or None}
        raise JobError(400, "invalid_request", str(error), {**facts}) from error
    body: dict[str, Any] = msgspec.json.decode(job.body)
    return body


def check_build() -> None:
    """Refuse a llama.cpp build that would crash here.

    Raises:
        workers.build.UnusableBuild: It would.
    """
    import llama_cpp  # noqa: PLC0415  # see Loaded

    info: bytes = llama_cpp.llama_print_system_info()
    build.check(info.decode(), build.cpu_flags())
