"""One job's way through an engine: its body out, its answer back, with nothing changed but the model's name.

What the engine refuses is refused with its own status and words. What breaks, or is no answer, is one error.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from policies.shape import is_object
from policies.why import Reason
from scheduler.asking import HEADERS_FIELD, relayed
from scheduler.wire.codec import BODY_MAX
from workers.engine import Sink
from workers.job import End, Error, Fact, Job, JobError, Piece
from workers.upstream import counts, splice
from workers.upstream.call import Call, CallFailed, Reply
from workers.upstream.counts import Counts
from workers.upstream.events import Event, Events, TooLong
from workers.upstream.paths import PATHS, Path

LONGEST_REPLY = BODY_MAX  # bytes of a reply that is not streamed: no message holds more
_LONGEST_ERROR = 256 * 1024
_WORDS = 1024  # characters of an error that is no text of the server's own
_DONE = b"[DONE]"
_STREAM, _JSON = "text/event-stream", "application/json"
_WRAPPERS = ("response", "message")  # whose `model` names it too
_OURS = ("x-fairlane", "x_fairlane")
_decode = msgspec.json.Decoder().decode


def body_of(job: Job, model: str, extra: Mapping[str, bytes]) -> bytes:
    """Return what the engine is sent: the client's bytes but for the model and what is only for us.

    Args:
        job: The job.
        model: The name under which the engine knows the row.
        extra: Further members to set, as JSON.

    Raises:
        JobError: 400, the body is no JSON object: the bus carries whatever a client sends.
    """
    _object(job.body)
    put = {**extra, "model": msgspec.json.encode(model)}
    return splice.edited(job.body, put, _is_ours)


def headers_of(job: Job) -> dict[str, str]:
    """Return the client's headers that the engine is sent; whoever put them there, no others."""
    if HEADERS_FIELD.encode() not in job.body:
        return {}
    told = _object(job.body).get(HEADERS_FIELD)
    return relayed(told) if is_object(told) else {}


def _is_ours(key: str) -> bool:
    return key == "route_trace" or key.lower().startswith(_OURS)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        read = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobError(400, "invalid_request", f"The body is not valid JSON: {error}") from error
    if not is_object(read):
        raise JobError(400, "invalid_request", "The body must be a JSON object.")
    return read


def _is_whole(data: bytes) -> bool:
    try:
        return is_object(_decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _words_of(told: dict[str, Any]) -> dict[str, object]:
    """Return an error in the words of a server that has no error object, as those on FastAPI."""
    said = next((told[name] for name in ("detail", "message") if told.get(name)), None)
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode() if said else ""
    return {"message": text[:_WORDS]} if text else {}


class Relay:
    """One job at one engine."""

    def __init__(self, job: Job, sink: Sink, engine: str, name: str, load_s: float | None) -> None:
        """Begin to count the time.

        Args:
            job: What to do.
            sink: Takes the pieces of a streamed answer.
            engine: Its name, for errors.
            name: Under which the engine knows the row.
            load_s: How long the row was loaded for this job.
        """
        self._job = job
        self._sink = sink
        self._engine = engine
        self._name = name
        self._load_s = load_s
        self._began_at = time.monotonic()
        self._counts = Counts()
        self._ttft_s: float | None = None
        self._is_first = True
        self._ended = False
        self._model = msgspec.json.encode(job.model)

    def path(self) -> Path:
        """Return how the job's operation is asked.

        Raises:
            JobError: 501, no server has such an operation.
        """
        path = PATHS.get(self._job.op)
        if path is None:
            raise self._lacks()
        return path

    def run(self, call: Call, path: Path, body: bytes) -> End:
        """Ask, hand the pieces on, and return how it ended.

        Raises:
            JobError: The engine refused or failed; pieces may have been handed on.
            CallFailed: The connection failed, or what came is no answer.
            CallEnded: It was cancelled.
        """
        reply = call.ask("POST", path.path, body, headers_of(self._job).items())
        if reply.status != 200:
            raise self._refused(reply.status, call.read_all(_LONGEST_ERROR))
        if self._job.stream and path.streams:
            self._check_kind(reply, _STREAM)
            self._stream(call)
            return self._end(b"")
        self._check_kind(reply, _JSON)
        return self._whole(call.read_all(LONGEST_REPLY))

    @staticmethod
    def _check_kind(reply: Reply, wanted: str) -> None:
        if reply.kind != wanted:
            raise CallFailed(f"its answer is {reply.kind or 'of no kind'}, not {wanted}")

    def _whole(self, raw: bytes) -> End:
        try:
            told = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CallFailed("its answer is no JSON") from error
        if not is_object(told):
            raise CallFailed("its answer is no JSON object")
        failure = counts.failure(told)
        if failure is not None:
            raise self._failed(failure, 500)
        self._counts.take(told)
        return self._end(splice.renamed(raw.strip(), told, self._model))

    def _stream(self, call: Call) -> None:
        events = Events()
        while (data := call.read()) is not None:
            try:
                found = events.feed(data)
            except TooLong as error:
                raise CallFailed("it said an event that is too long") from error
            for event in found:
                self._take(event)
        for event in events.finish():
            if event.data == _DONE or _is_whole(event.data):  # else it was cut off
                self._take(event)
        if not self._ended:
            raise CallFailed("its stream ended before the answer did")

    def _take(self, event: Event) -> None:
        if event.data == _DONE:
            self._ended = True
        else:
            self._event(event)

    def _event(self, event: Event) -> None:
        try:
            told = _decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CallFailed("its stream holds what is no JSON") from error
        if not is_object(told):
            raise CallFailed("its stream holds what is no JSON object")
        failure = counts.failure(told)
        if failure is not None:
            raise self._failed(failure, 500)
        self._counts.take(told)
        self._ended = self._ended or counts.ends(told)
        if self._ttft_s is None and counts.has_token(told):
            self._ttft_s = time.monotonic() - self._began_at
        load_s = self._load_s if self._is_first else None
        self._is_first = False
        raw = splice.renamed(event.data, told, self._model, _WRAPPERS)
        self._sink(Piece(self._job.lease, raw, load_s, event.name))

    def _end(self, body: bytes) -> End:
        told = self._counts
        return End(
            self._job.lease, body, False, told.prompt, told.cached, told.output,
            self._load_s, self._ttft_s,
        )  # fmt: skip

    # --- errors ---

    def _lacks(self) -> JobError:
        message = f"The engine {self._engine} does not serve '{self._job.op}'."
        return JobError(501, "not_implemented", message, {"engine": self._engine})

    def _refused(self, status: int, raw: bytes) -> JobError:
        """Return the error of an engine that answered with another status than 200."""
        try:
            told: object = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            told = None
        error = (counts.failure(told) or _words_of(told)) if is_object(told) else {}
        if status == 404 and self._name in str(error.get("message", "")):
            return self._unusable(f"does not have it: {error.get('message')}")
        if status in {404, 405, 501} and self._job.op not in {"chat", "completion"}:
            return self._lacks()
        if status in {401, 403}:
            return self._unusable(f"refuses our key; see engines.{self._engine}.key_file")
        if not 400 <= status <= 599:
            return JobError(502, "engine_failed", f"The engine {self._engine} answered {status}.")
        return self._failed(error, status)

    def _unusable(self, fault: str) -> JobError:
        """Return the error of a row, not of the request: another row may answer."""
        text = f"Model '{self._job.model}' cannot be used: the engine {self._engine} {fault}"
        facts: dict[str, Fact] = {"engine": self._engine, "cause": Reason.LOAD_FAILED.value}
        return JobError(503, "model_not_usable", f"{text.rstrip('.')}.", facts)

    def _failed(self, error: dict[str, object], status: int) -> JobError:
        """Return the engine's own error."""
        said = error.get("message")
        message = said if isinstance(said, str) and said else f"The engine answered {status}."
        code = error.get("code")
        kind = error.get("type")
        facts: dict[str, Fact] = {"engine": self._engine}
        for name in ("param", "n_prompt_tokens", "n_ctx"):
            value = error.get(name)
            if isinstance(value, str | int):
                facts[name] = value
        if kind == "exceed_context_size_error" or code == "context_length_exceeded":
            return JobError(400, "context_length_exceeded", message, facts)
        if status >= 500 and isinstance(code, int) and 400 <= code <= 599:
            status = code  # of an event inside a stream
        plain = "engine_failed" if status >= 500 else "invalid_request"
        named = next((word for word in (code, kind) if isinstance(word, str) and word), plain)
        return JobError(status, named, message, facts)


def error_of(lease: int, error: JobError) -> Error:
    """Return the outcome that tells an error."""
    return Error(lease, error.status, error.code, error.message, error.facts)
