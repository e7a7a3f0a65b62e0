"""A ModernBERT encoder in llama.cpp, by the library's low-level interface.

`llama_cpp.Llama` adds special tokens of its own, takes no ids and returns pooled rows; the decision head
needs a row a token. The library ships no types, so its objects are `Any` here, and only here in this package.
"""

import ctypes
import os
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workers.badfile import BadFile
from workers.encoder.errors import FailedDecision, UnusableModel
from workers.encoder.layout import Special
from workers.encoder.tensors import Array
from workers.gguf import architecture_of
from workers.listening import listening

ARCHITECTURE = "modern-bert"
REMEDY = (
    f"The llama-cpp scorer needs an encoder of architecture '{ARCHITECTURE}'. "
    "A file of architecture 'ggmlc', encoder and head in one, is read by the program `laya`: "
    'set scorer.backend = "laya-daemon"'
)
_CLS = ("tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id")
_SEP = ("tokenizer.ggml.seperator_token_id", "tokenizer.ggml.eos_token_id")  # llama.cpp's spelling
_MASK = ("tokenizer.ggml.mask_token_id",)


class Encoder:
    """A loaded encoder. One text at a time: it has one context, and a lock around it."""

    def __init__(self, path: Path, *, max_len: int, threads: int) -> None:
        """Load a file.

        Args:
            path: A GGUF of architecture modern-bert.
            max_len: Tokens that will be encoded at most, >= 1.
            threads: Processor threads, >= 1.

        Raises:
            UnusableModel: llama.cpp cannot read it, or it is another kind of model.
        """
        import llama_cpp  # noqa: PLC0415  # 0.25 s and 60 MB that a process without a model need not pay

        self._library: Any = llama_cpp
        self._path = path
        self._max_len = max_len
        self._lock = threading.Lock()
        self._context: Any = None
        self._batch: Any = None
        self._model: Any = self._loaded()
        try:
            self._vocab: Any = llama_cpp.llama_model_get_vocab(self._model)
            self.special = self._special()
            self.width = int(llama_cpp.llama_model_n_embd_out(self._model))
            self._context = self._begun(threads)
            self._batch = llama_cpp.llama_batch_init(max_len, 0, 1)
        except BaseException:
            self.close()
            raise

    def tokenize(self, text: str) -> list[int]:
        """Return the ids of a text: nothing is added to it, and no special token is read out of it.

        Raises:
            FailedDecision: llama.cpp fails, or the encoder is closed.
        """
        raw = text.encode("utf-8", "replace")
        room = len(raw) + 8  # no token is shorter than a byte
        ids = (self._library.llama_token * room)()
        add_special, parse_special = False, False
        with self._open() as library:
            count = library.llama_tokenize(
                self._vocab, raw, len(raw), ids, room, add_special, parse_special
            )
        if count < 0:
            raise FailedDecision(f"llama.cpp cannot tokenise a text of {len(raw)} bytes")
        return list(ids[:count])

    def rows(self, ids: Sequence[int]) -> Array:
        """Return the encoder's output after its last norm, (len(ids), width).

        Raises:
            FailedDecision: There are no ids or more than `max_len`, or llama.cpp fails.
        """
        if not 0 < len(ids) <= self._max_len:  # llama.cpp ends the process over a batch too long
            raise FailedDecision(f"{len(ids)} tokens do not fit into {self._max_len}")
        with self._open() as library:
            self._fill(ids)
            status = library.llama_encode(self._context, self._batch)
            if status != 0:
                raise FailedDecision(f"llama.cpp failed to encode {len(ids)} tokens: {status}")
            pointer = library.llama_get_embeddings(self._context)
            if not pointer:
                raise FailedDecision("llama.cpp returned no rows")
            rows = np.ctypeslib.as_array(pointer, shape=(len(ids), self.width))
            return np.array(rows, dtype=np.float32)  # a copy: the memory is the next call's

    def close(self) -> None:
        """Give the memory back."""
        with self._lock:
            library = self._library
            if self._batch is not None:
                library.llama_batch_free(self._batch)
            if self._context is not None:
                library.llama_free(self._context)
            if self._model is not None:
                library.llama_model_free(self._model)
            self._batch = self._context = self._model = None

    @contextmanager
    def _open(self) -> Generator[Any]:
        """Hold the model: freed memory would end the process, not fail."""
        with self._lock:
            if self._context is None:
                raise FailedDecision("the encoder is closed")
            yield self._library

    def _fill(self, ids: Sequence[int]) -> None:
        batch = self._batch
        batch.n_tokens = len(ids)
        for place, token in enumerate(ids):
            batch.token[place] = token
            batch.pos[place] = place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = 1

    def _loaded(self) -> Any:
        library = self._library
        try:
            architecture = architecture_of(self._path)
        except (
            BadFile
        ) as error:  # llama.cpp would load a chat model of any size whole, or end the process
            raise UnusableModel(self._path, error.reason) from error
        if architecture != ARCHITECTURE:
            raise UnusableModel(self._path, f"its architecture is '{architecture}'. {REMEDY}")
        params = library.llama_model_default_params()
        params.n_gpu_layers = 0
        # The repacked weights of a native build on a machine with AMX crash in any batch of a quantised
        # model (ggml-org/llama.cpp #20824).
        params.use_extra_bufts = False
        with listening(library) as lines:
            model = library.llama_model_load_from_file(os.fsencode(self._path), params)
        if not model:
            said = " ".join(lines) or "llama.cpp gives no reason"
            raise UnusableModel(self._path, f"llama.cpp cannot load it: {said}")
        return model

    def _begun(self, threads: int) -> Any:
        library = self._library
        trained = int(library.llama_model_n_ctx_train(self._model))
        if trained < self._max_len:
            raise UnusableModel(
                self._path, f"it reads {trained} tokens and its head {self._max_len}: no pair"
            )
        params = library.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = self._max_len
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = True
        params.pooling_type = library.LLAMA_POOLING_TYPE_NONE
        params.flash_attn_type = library.LLAMA_FLASH_ATTN_TYPE_DISABLED  # its rows differ by 2e-3
        with listening(library) as lines:
            context = library.llama_init_from_model(self._model, params)
        if not context:
            raise UnusableModel(self._path, f"llama.cpp makes no context: {' '.join(lines)}")
        return context

    def _special(self) -> Special:
        cls, sep, mask = (self._token(*keys) for keys in (_CLS, _SEP, _MASK))
        text: bytes | None = self._library.llama_vocab_get_text(self._vocab, mask)
        return Special(cls, sep, mask, (text or b"").decode("utf-8", "replace") or "[MASK]")

    def _token(self, *keys: str) -> int:
        """Return a special token's id.

        Only what the file says: for a key that is missing llama.cpp assumes another model's id.
        """
        count = int(self._library.llama_vocab_n_tokens(self._vocab))
        for key in keys:
            said = self._text(key)
            if said.isascii() and said.isdigit() and int(said) < count:
                return int(said)
        raise UnusableModel(
            self._path, f"its vocabulary has no {' or '.join(keys)}: CLS, SEP and MASK are needed"
        )

    def _text(self, key: str) -> str:
        buffer = ctypes.create_string_buffer(256)
        length = self._library.llama_model_meta_val_str(
            self._model, key.encode(), buffer, len(buffer)
        )
        return buffer.value.decode("utf-8", "replace") if length >= 0 else ""
