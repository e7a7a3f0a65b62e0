"""llama-cpp-python in this process: one model loaded at a time, one seat, one working thread.

On a machine without the appliance's devices this stands in for them, and says so: its backend is
"llama.cpp cpu". The thread loads on demand, keeps the loaded row until another is asked for, and reuses
the prefix that the last prompt shares with the next one. Cancelling stops a prefill through llama.cpp's
abort callback and a decode at the next token.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from typing import Any

import msgspec

from policies.shape import is_array, is_object
from policies.table import Row, parse_table
from policies.why import Reason
from scheduler import asking
from scheduler.log import note
from scheduler.wire.catalogue import CatalogueBody
from workers import build
from workers.engine import Sink
from workers.fields import sampling
from workers.job import End, Error, Job, JobError, Piece, Stage
from workers.rows import check_template, file_of, unusable
from workers.shapes import Shape, Usage

log = logging.getLogger(__name__)
_TOKENS_PER_MESSAGE = 2  # any template marks where a message begins and says whose it is
_ENDPOINTS: dict[str, asking.Endpoint] = {"completion": "completion", "embed": "embed"}
_BATCH = 256  # prompt tokens a decode call takes; the abort callback is asked within one


class LlamaEngine:
    """Runs chat and completion jobs on llama.cpp's CPU backend."""

    backend = "llama.cpp cpu"
    seats = 1

    def __init__(self, device: str, threads: int) -> None:
        """Check the build and start the thread; nothing is loaded.

        Args:
            device: Kind of device this engine stands in for; only its rows are run.
            threads: Processor threads; 0: half of the processors, so that two engines fit.

        Raises:
            workers.build.UnusableBuild: The installed build would crash.
        """
        self._device = device
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._rows: dict[str, Row] = {}
        self._jobs: queue.SimpleQueue[tuple[Job, Sink]] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._loaded: Loaded | None = None
        check_build()
        threading.Thread(target=self._work, name="llama", daemon=True).start()

    def take_catalogue(self, body: CatalogueBody) -> None:
        """Learn which rows there are."""
        self._rows = dict(parse_table(body.table).rows)

    def start(self, job: Job, sink: Sink) -> None:
        """Queue a job for the thread."""
        self._jobs.put((job, sink))

    def cancel(self, ticket: int) -> None:
        """Stop a job."""
        self._cancelled.add(ticket)

    def resident(self) -> list[str]:
        """Return the loaded model."""
        loaded = self._loaded
        return [loaded.row.model] if loaded else []

    def _work(self) -> None:
        while True:
            job, sink = self._jobs.get()
            try:
                if job.ticket in self._cancelled:
                    sink(End(job.ticket, cancelled=True))
                else:
                    self._run(job, sink)
            except JobError as error:
                sink(Error(job.ticket, error.status, error.code, error.message, error.facts))
            except Exception as error:  # the job boundary: whatever a model file does to
                # the library, this job fails, and the next one starts from a fresh load
                log.exception("job failed", extra={"action": "model_failed"})
                self._loaded = None
                message = f"The engine failed: {type(error).__name__}: {error}"
                sink(Error(job.ticket, 500, "engine_failed", message))
            finally:
                self._cancelled.discard(job.ticket)

    def _run(self, job: Job, sink: Sink) -> None:
        began_at = time.monotonic()
        body = request_of(job)
        arguments = sampling(body)  # refused before anything is loaded for it
        loaded, load_s = self._load(job, sink)
        if job.op == "embed":
            sink(loaded.embed(job, asking.embed_inputs(body), load_s))
            return
        arguments["grammar"] = loaded.grammar(body.get("response_format"))
        prompt = loaded.prompt(job.op, body)
        room = loaded.row.ctx - len(prompt)
        if room < 1:
            raise too_long(len(prompt), loaded.row.ctx)
        wanted = (
            body.get("max_completion_tokens") or body.get("max_tokens") or loaded.row.max_tokens
        )
        sink(Stage(job.ticket, "prefill"))
        options = body.get("stream_options")
        answer = Answering(job, sink, Shape(job.op, loaded.row.model), load_s)
        answer.wants_usage = is_object(options) and bool(options.get("include_usage"))
        answer.began_at = began_at
        loaded.generate(
            prompt,
            arguments,
            min(wanted or room, room),
            answer,
            lambda: job.ticket in self._cancelled,
        )

    def _load(self, job: Job, sink: Sink) -> tuple["Loaded", float | None]:
        if self._loaded is not None and self._loaded.row.model == job.model:
            return self._loaded, None
        row = self._rows.get(job.model)
        if row is None or row.device != self._device:
            raise JobError(
                503, "model_not_usable", f"No row '{job.model}' for {self._device} here."
            )
        path = file_of(row)
        sink(Stage(job.ticket, "load"))
        self._loaded = None  # the old model leaves before the new one comes: memory holds one
        began_at = time.monotonic()
        loaded = Loaded(row, str(path), self._threads)
        load_s = time.monotonic() - began_at
        self._loaded = loaded
        note(
            log,
            "model_loaded",
            model=row.model,
            device=self._device,
            backend=self.backend,
            load_s=load_s,
            template_sha256=loaded.digest,
        )
        return loaded, load_s


class Answering:
    """One answer on its way out: chunks as they come, or the whole at the end."""

    def __init__(self, job: Job, sink: Sink, shape: Shape, load_s: float | None) -> None:
        self._job = job
        self._sink = sink
        self._shape = shape
        self._load_s = load_s
        self._text: list[str] = []
        self._ttft_s: float | None = None
        self.wants_usage = False
        self.began_at = 0.0

    def add(self, text: str) -> None:
        """Take a piece of text."""
        first = self._ttft_s is None
        if first:
            self._ttft_s = time.monotonic() - self.began_at
        if self._job.stream:
            load_s = self._load_s if first else None
            self._sink(Piece(self._job.ticket, self._shape.chunk(text, first=first), load_s))
        else:
            self._text.append(text)

    def end(self, finish_reason: str, usage: Usage, *, cancelled: bool) -> None:
        """Say why it ends."""
        body = b""
        if self._job.stream and not cancelled:
            if self._ttft_s is None:
                self.add("")
            self._sink(Piece(self._job.ticket, self._shape.last_chunk(finish_reason)))
            if self.wants_usage:
                self._sink(Piece(self._job.ticket, self._shape.usage_chunk(usage)))
        elif not cancelled:
            body = self._shape.whole("".join(self._text), finish_reason, usage)
        self._sink(
            End(
                self._job.ticket,
                body,
                cancelled,
                usage.prompt,
                usage.cached,
                usage.output,
                self._load_s,
                self._ttft_s,
            )
        )


class Loaded:
    """A loaded model."""

    def __init__(self, row: Row, path: str, threads: int) -> None:
        """Load a file.

        Raises:
            JobError: It cannot be loaded, or its template is not the pinned one.
        """
        import llama_cpp  # noqa: PLC0415  # 0.25 s and 60 MB that a process without a job need not pay
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: PLC0415

        self.row = row
        try:
            self._llama: Any = llama_cpp.Llama(
                path,
                n_ctx=row.ctx,
                n_batch=_BATCH,
                n_threads=threads,
                n_threads_batch=threads,
                embedding=row.type == "embedding",
                verbose=False,
            )
        except (ValueError, OSError) as error:
            note(log, "model_failed", level=logging.WARNING, model=row.model, error=str(error))
            raise unusable(row, Reason.LOAD_FAILED, f"it cannot be loaded: {error}") from error
        template: str | None = self._llama.metadata.get("tokenizer.chat_template")
        self.digest = check_template(row, template)
        self._formatter: Any = None
        if template is not None:
            token = self._llama._model.token_get_text  # noqa: SLF001  # the library's own way to special tokens
            self._formatter = Jinja2ChatFormatter(
                template, token(self._llama.token_eos()), token(self._llama.token_bos())
            )
        self._llama_cpp: Any = llama_cpp
        self._longest = longest_token(self._llama)

    def embed(self, job: Job, texts: list[str], load_s: float | None) -> End:
        """Return the end of a job that embeds texts; a model without pooling is pooled by the mean."""
        vectors, tokens = self._llama.embed(texts, normalize=True, truncate=True, return_count=True)
        data = [
            {"object": "embedding", "index": index, "embedding": pooled(vector)}
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        reply = {"object": "list", "model": self.row.model, "data": data, "usage": usage}
        return End(job.ticket, msgspec.json.encode(reply), prompt_tokens=tokens, load_s=load_s)

    def grammar(self, response_format: object) -> Any:
        """Return the grammar a response_format asks for, or None.

        Raises:
            JobError: 400, the schema cannot be turned into a grammar.
        """
        shape = response_format if is_object(response_format) else {}
        if shape.get("type") not in ("json_object", "json_schema"):
            return None
        named = shape.get("json_schema")
        schema = named.get("schema", {}) if is_object(named) else {"type": "object"}
        try:
            text = msgspec.json.encode(schema).decode()
            return self._llama_cpp.LlamaGrammar.from_json_schema(text, verbose=False)
        except (
            Exception
        ) as error:  # the library's converter raises whatever a schema makes it trip over
            message = f"'response_format': this schema cannot be served: {error}"
            raise JobError(400, "invalid_value", message, {"param": "response_format"}) from error

    def prompt(self, op: str, body: dict[str, Any]) -> list[int]:
        """Return the prompt's tokens.

        Raises:
            JobError: 400, the template refuses these messages, or there are several prompts.
        """
        if op == "completion":
            prompt = body["prompt"]
            texts = [prompt] if isinstance(prompt, str) else prompt
            if len(texts) != 1:
                raise JobError(
                    400, "unsupported_field", "One 'prompt' at a time.", {"param": "prompt"}
                )
            text, add_bos = texts[0], True
        else:
            messages: list[dict[str, Any]] = body["messages"]
            self._refuse_surely_too_long(len(messages) * _TOKENS_PER_MESSAGE)
            text, add_bos = self._format(messages), False
        self._refuse_surely_too_long(len(text.encode(errors="replace")) // self._longest)
        tokens: list[int] = self._llama.tokenize(
            text.encode(errors="replace"), add_bos=add_bos, special=op == "chat"
        )
        if not tokens:
            raise JobError(400, "invalid_value", "'prompt' must not be empty.", {"param": "prompt"})
        return tokens

    def _refuse_surely_too_long(self, at_least: int) -> None:
        """Refuse by a lower bound on the tokens, before the tokenizer holds the device for seconds."""
        if at_least >= self.row.ctx:
            raise too_long(at_least, self.row.ctx)

    def _format(self, messages: list[dict[str, Any]]) -> str:
        if self._formatter is None:
            raise JobError(400, "no_chat_template", f"'{self.row.model}' has no chat template.")
        plain = [{**m, "content": plain_text(m.get("content"))} for m in messages]
        try:
            text: str = self._formatter(messages=plain).prompt
        except (
            Exception
        ) as error:  # a template is a program of the file's author: it may raise anything
            message = f"The chat template of '{self.row.model}' refuses these messages: {error}"
            raise JobError(400, "template_refused", message, {"param": "messages"}) from error
        return text

    def generate(
        self,
        prompt: list[int],
        arguments: dict[str, Any],
        max_tokens: int,
        answer: Answering,
        is_cancelled: Any,
    ) -> None:
        """Answer a prompt.

        Args:
            prompt: Tokens, fewer than the row's ctx.
            arguments: Of the sampler.
            max_tokens: >= 1.
            answer: Takes the text.
            is_cancelled: Asked during prefill and at each token.
        """
        llama = self._llama
        cached = self._shared_prefix(prompt)
        made = 0

        def at_token(_tokens: object, _logits: object) -> bool:
            nonlocal made
            made += 1
            return bool(is_cancelled())

        finish_reason = "stop"
        criteria = self._llama_cpp.StoppingCriteriaList([at_token])
        with self._abortable(is_cancelled):
            try:
                for chunk in llama.create_completion(
                    prompt,
                    max_tokens=max_tokens,
                    stream=True,
                    stopping_criteria=criteria,
                    **arguments,
                ):
                    choice = chunk["choices"][0]
                    finish_reason = choice["finish_reason"] or finish_reason
                    if choice["text"] and not is_cancelled():
                        answer.add(choice["text"])
            except RuntimeError:
                if not is_cancelled():
                    raise
                llama.reset()  # an aborted batch leaves cells of which the library knows nothing
                llama._ctx.kv_cache_clear()  # noqa: SLF001  # reset() itself does not clear them
        usage = Usage(len(prompt), cached, min(made, max_tokens))
        answer.end(finish_reason, usage, cancelled=bool(is_cancelled()))

    def _shared_prefix(self, prompt: list[int]) -> int:
        """Return how many tokens of the prompt are computed already."""
        known = self._llama._input_ids  # noqa: SLF001  # the library reuses exactly these and tells nobody
        shared: int = self._llama.longest_token_prefix(known, prompt[:-1])
        return shared

    @contextlib.contextmanager
    def _abortable(self, is_cancelled: Any) -> Any:
        # Costs 2-3 % of the decode rate and stops a prefill in milliseconds instead of at its end.
        def is_over(_data: object) -> bool:
            return bool(is_cancelled())

        callback = self._llama_cpp.ggml_abort_callback(is_over)
        none = self._llama_cpp.ggml_abort_callback(0)
        self._llama_cpp.llama_set_abort_callback(self._llama.ctx, callback, None)
        try:
            yield
        finally:
            self._llama_cpp.llama_set_abort_callback(self._llama.ctx, none, None)


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


def pooled(vector: list[Any]) -> list[float]:
    """Return one vector of a text: itself, or the mean of its tokens' vectors."""
    if not vector or not isinstance(vector[0], list):
        return vector
    return [sum(column) / len(vector) for column in zip(*vector, strict=True)]


def longest_token(llama: Any) -> int:
    """Return the bytes of the longest token of a vocabulary: no text has fewer tokens than that allows."""
    piece = llama._model.token_get_text  # noqa: SLF001  # as in Loaded
    return max(1, *(len(piece(token).encode(errors="replace")) for token in range(llama.n_vocab())))


def plain_text(content: object) -> str:
    """Return a message's content as text: text parts joined by newline, nothing for None."""
    if is_array(content):
        return "\n".join(str(p.get("text", "")) for p in content if is_object(p))
    return content if isinstance(content, str) else ""


def too_long(n_prompt_tokens: int, n_ctx: int) -> JobError:
    """Return the refusal of a prompt that does not fit."""
    message = (
        f"This model's context length is {n_ctx} tokens, and the prompt has {n_prompt_tokens}. "
        "Shorten the prompt, or name a model with a longer context."
    )
    facts: dict[str, str | int | float | bool | None] = {
        "n_prompt_tokens": n_prompt_tokens,
        "n_ctx": n_ctx,
        "param": "messages",
    }
    return JobError(400, "context_length_exceeded", message, facts)
