"""A model loaded by llama-cpp-python, and what can be asked of it.

The one module that touches the library's objects. It ships no types, so they are `Any` here and nowhere
else.
"""

import contextlib
import ctypes
import logging
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from policies.table import Row
from policies.why import Reason
from scheduler.log import note
from workers.answering import Answering
from workers.job import End, Fact, Job, JobError
from workers.listening import listening
from workers.prompts import Prompts
from workers.rows import unusable
from workers.shapes import Usage
from workers.templates import digest_of
from workers.texts import plain_text, refuse_what_is_no_text, too_long
from workers.tokenizing import Question, reply
from workers.vectors import packed, pooled, unit

log = logging.getLogger(__name__)
_TOKENS_PER_MESSAGE = 2  # any template marks where a message begins and says whose it is
_BATCH = 256  # prompt tokens a decode call takes; the abort callback is asked within one


class Loaded:
    """A loaded model."""

    def __init__(self, row: Row, path: str, threads: int) -> None:
        """Load a file.

        Raises:
            JobError: It cannot be loaded.
        """
        import llama_cpp  # noqa: PLC0415  # 0.25 s and 60 MB that a process without a job need not pay
        from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: PLC0415

        self.row = row
        is_embedding = row.type == "embedding"  # it reads a whole text in one batch
        with listening(llama_cpp) as lines:
            try:
                self._llama: Any = llama_cpp.Llama(
                    path,
                    n_ctx=row.ctx,
                    n_batch=row.ctx if is_embedding else _BATCH,
                    n_ubatch=row.ctx if is_embedding else _BATCH,
                    n_threads=threads,
                    n_threads_batch=threads,
                    embedding=is_embedding,
                    verbose=False,
                )
            except (ValueError, OSError) as error:
                raise _failed(row, " ".join(lines) or str(error)) from error
        template: str | None = self._llama.metadata.get("tokenizer.chat_template")
        self.digest = "" if template is None else digest_of(template)
        self._formatter: Any = None
        if template is not None:
            token = self._llama._model.token_get_text  # noqa: SLF001  # the library's own way to special tokens
            try:
                self._formatter = Jinja2ChatFormatter(
                    template, token(self._llama.token_eos()), token(self._llama.token_bos())
                )
            except (
                Exception
            ) as error:  # a template is somebody's program: compiling it may raise anything
                raise _failed(row, f"its chat template is no program: {error}") from error
        self._llama_cpp: Any = llama_cpp
        self._longest = longest_token(self._llama)
        slots = 1 if is_embedding else row.slots
        self._prompts = Prompts(llama_cpp, self._llama, slots)
        self.size = _size(llama_cpp, self._llama, slots)

    def embed(
        self,
        job: Job,
        texts: list[str],
        load_s: float | None,
        is_cancelled: Callable[[], bool],
        *,
        in_base64: bool = False,
    ) -> End:
        """Return the end of a job that embeds texts, each into a vector of length 1.

        Text by text, because the library mixes the vectors of several texts up where a model pools
        nothing; such a model is pooled by the mean of its tokens here.

        Raises:
            JobError: 400, a text does not fit.
        """
        vectors: list[list[float]] = []
        tokens = 0
        for text in texts:
            if is_cancelled():
                return End(job.lease, cancelled=True, load_s=load_s)
            # a text without a token, where the vocabulary adds none, is embedded as a blank
            known = text if self._llama.tokenize(text.encode(errors="replace")) else " "
            count = len(self._llama.tokenize(known.encode(errors="replace")))
            if count > self.row.ctx:
                raise too_long(count, self.row.ctx, "input")
            vectors.append(unit(pooled(self._llama.embed(known, normalize=False))))
            tokens += count
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": packed(vector) if in_base64 else vector,
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        reply = {"object": "list", "model": self.row.model, "data": data, "usage": usage}
        return End(job.lease, msgspec.json.encode(reply), prompt_tokens=tokens, load_s=load_s)

    def tokenize(self, job: Job, question: Question, load_s: float | None) -> End:
        """Return the end of a job that tells a text in tokens."""
        llama = self._llama
        tokens: list[int] = llama.tokenize(
            question.text().encode(errors="replace"),
            add_bos=question.add_special,
            special=question.parse_special,
        )

        buffer = ctypes.create_string_buffer(4 * self._longest)

        def piece_of(token: int) -> bytes:
            vocabulary, size = llama._model.vocab, len(buffer)  # noqa: SLF001  # its own holds 32 bytes
            is_special = True
            length = self._llama_cpp.llama_token_to_piece(
                vocabulary, token, buffer, size, 0, is_special
            )
            return buffer.raw[:length]

        return End(job.lease, msgspec.json.encode(reply(tokens, question, piece_of)), load_s=load_s)

    def grammar(self, schema: str | None) -> Any:
        """Return the grammar of a JSON schema, or None for plain text.

        Args:
            schema: As `workers.schema` lets it through.

        Raises:
            JobError: 400, llama.cpp makes no grammar of it.
        """
        if schema is None:
            return None
        library = self._llama_cpp
        facts: dict[str, Fact] = {"param": "response_format"}
        try:
            made = library.LlamaGrammar.from_json_schema(schema, verbose=False)
        except Exception as error:  # the converter raises whatever a schema makes it trip over
            message = f"'response_format': this schema cannot be served: {error}"
            raise JobError(400, "invalid_value", message, facts) from error
        # The library hands a null sampler on and crashes in it, so it is made once here to be looked at.
        vocabulary, root = self._llama._model.vocab, made._root  # noqa: SLF001
        probe = library.llama_sampler_init_grammar(
            vocabulary,
            made._grammar.encode(),  # noqa: SLF001
            root.encode(),
        )
        if not probe:
            message = "'response_format': llama.cpp makes no grammar of this schema."
            raise JobError(400, "invalid_value", message, facts)
        library.llama_sampler_free(probe)
        return made

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
            raise too_long(at_least, self.row.ctx, counted="at least ")

    def _format(self, messages: list[dict[str, Any]]) -> str:
        if self._formatter is None:
            raise JobError(400, "no_chat_template", f"'{self.row.model}' has no chat template.")
        for said in messages:
            refuse_what_is_no_text(said.get("content"))
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
        is_cancelled: Callable[[], bool],
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
        cached = self._prompts.enter(answer.conversation, prompt)

        def at_token(_tokens: object, _logits: object) -> bool:
            return is_cancelled()

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
                self._prompts.forget()  # an aborted batch leaves cells of which the library knows nothing
        # What was sampled and computed on; the token that reached the limit is not computed on any more,
        # and the one that ends an answer is no part of it.
        made = max(0, llama.n_tokens - len(prompt)) + (finish_reason == "length")
        usage = Usage(len(prompt), cached, min(made, max_tokens))
        answer.end(finish_reason, usage, cancelled=is_cancelled())

    @contextlib.contextmanager
    def _abortable(self, is_cancelled: Callable[[], bool]) -> Generator[None]:
        # Costs 2-3 % of the decode rate and stops a prefill in milliseconds instead of at its end.
        def is_over(_data: object) -> bool:
            return is_cancelled()

        callback = self._llama_cpp.ggml_abort_callback(is_over)
        none = self._llama_cpp.ggml_abort_callback(0)
        self._llama_cpp.llama_set_abort_callback(self._llama.ctx, callback, None)
        try:
            yield
        finally:
            self._llama_cpp.llama_set_abort_callback(self._llama.ctx, none, None)


def _failed(row: Row, reason: str) -> JobError:
    note(log, "model_failed", level=logging.WARNING, model=row.model, error=reason)
    return unusable(row, Reason.LOAD_FAILED, f"it cannot be loaded: {reason}")


def _size(library: Any, llama: Any, slots: int) -> int:
    """Return the bytes a loaded model takes at most: its tensors, and keys and values of all its slots."""
    model = llama._model.model  # noqa: SLF001  # as in Loaded
    layers: int = library.llama_model_n_layer(model)
    heads: int = library.llama_model_n_head(model)
    width = library.llama_model_n_embd(model) // max(1, heads)
    cache = (
        2 * 2 * layers * width * library.llama_model_n_head_kv(model)
    )  # K and V in half precision
    size: int = library.llama_model_size(model) + slots * llama.n_ctx() * cache
    return size


def longest_token(llama: Any) -> int:
    """Return the bytes of the longest token of a vocabulary: no text has fewer tokens than that allows."""
    piece = llama._model.token_get_text  # noqa: SLF001  # as in Loaded
    return max(1, *(len(piece(token).encode(errors="replace")) for token in range(llama.n_vocab())))
