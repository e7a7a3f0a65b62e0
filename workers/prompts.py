"""The prompts that a loaded model keeps computed, one a conversation: one in its context, others beside it.

The context holds one conversation. When another one's turn comes, what it holds is copied out (27 ms for
4,000 tokens of SmolLM2-135M, 92 MB; computing them takes its processor most of a minute) and what that
one left is copied in (17 ms). Memory is taken for what is kept only, at most `slots` whole contexts.

A conversation that is new begins from whichever kept prompt shares the longest beginning with its own: agents
of one kind have their instructions in common.

Rules of this file: whoever uses the context without `enter`, or fails in it, calls `forget`. What is not
known to be right is computed again.
"""

from collections import OrderedDict
from ctypes import POINTER, c_uint8
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# A prompt is copied from another conversation only for so many tokens: copying the longest one there is
# takes about as long as computing these.
_WORTH = 64
_SEQUENCE = 0  # the one that llama_cpp.Llama computes in


class _Kept(NamedTuple):
    """A conversation's tokens, and the keys and values that were computed for them."""

    tokens: NDArray[np.intc]
    state: NDArray[np.uint8]


class Prompts:
    """The conversations of one loaded model."""

    def __init__(self, library: Any, llama: Any, slots: int) -> None:
        """Keep nothing.

        Args:
            library: The module `llama_cpp`, which ships no types.
            llama: Its `Llama`, of one sequence.
            slots: Conversations to keep, the one in the context among them, >= 1.
        """
        self._library = library
        self._llama = llama
        self._slots = slots
        self._current: str | None = None
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # least recently used first

    def enter(self, conversation: str, prompt: list[int]) -> int:
        """Make the context the conversation's, and return how many of the prompt's tokens it holds.

        That is always less than all: computing the last one is what an answer begins with.
        """
        wanted = np.array(prompt[:-1], dtype=np.intc)
        shared = self._in_context(wanted)
        if conversation != self._current:
            own = self._kept.pop(conversation, None)
            self._leave()
            if own is not None and _shared(own.tokens, wanted) >= shared:
                self._restore(own)
            else:
                self._borrow(wanted, shared)
            self._current = conversation
            shared = self._in_context(wanted)
        return self._cut(shared)

    def forget(self) -> None:
        """Forget what the context holds; nobody knows what that is any more."""
        self._current = None
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()  # noqa: SLF001  # reset() itself leaves the cells

    def bytes(self) -> int:
        """Return the memory that is taken beside the context."""
        return sum(kept.state.nbytes + kept.tokens.nbytes for kept in self._kept.values())

    def _in_context(self, wanted: NDArray[np.intc]) -> int:
        return _shared(self._llama._input_ids, wanted)  # noqa: SLF001  # those of its n_tokens

    def _leave(self) -> None:
        """Copy out what the context holds, in the place of what was used least recently."""
        key, self._current = self._current, None
        if key is None or self._slots < 2 or not self._llama.n_tokens:
            return
        while len(self._kept) > self._slots - 2:
            self._kept.popitem(last=False)
        context, tokens = self._llama.ctx, self._llama._input_ids.copy()  # noqa: SLF001
        if self._cut(len(tokens)) < len(tokens):
            return
        size = self._library.llama_state_seq_get_size(context, _SEQUENCE)
        state = np.empty(size, np.uint8)
        if self._library.llama_state_seq_get_data(context, _bytes(state), size, _SEQUENCE) == size:
            self._kept[key] = _Kept(tokens, state)

    def _borrow(self, wanted: NDArray[np.intc], shared: int) -> None:
        """Begin with what another conversation has in common, unless the context has about as much."""
        others = [(_shared(kept.tokens, wanted), key) for key, kept in self._kept.items()]
        most, key = max(others, default=(0, ""))
        if most >= shared + _WORTH:
            self._restore(self._kept[key])

    def _restore(self, kept: _Kept) -> None:
        llama, state = self._llama, kept.state
        self.forget()
        if self._library.llama_state_seq_set_data(llama.ctx, _bytes(state), state.size, _SEQUENCE):
            llama.n_tokens = len(kept.tokens)
            llama.input_ids[: len(kept.tokens)] = kept.tokens
        else:
            self.forget()

    def _cut(self, length: int) -> int:
        """Let the context hold so many tokens and no more; return how many it holds now.

        A recurrent model cannot forget a part: it holds all of them or none.
        """
        llama = self._llama
        if llama._ctx.kv_cache_seq_rm(_SEQUENCE, length, -1):  # noqa: SLF001
            llama.n_tokens = length
            llama._requires_eval = True  # noqa: SLF001  # no logits belong to its last token
            return length
        current = self._current
        self.forget()
        self._current = current
        return 0


def _shared(known: NDArray[np.intc], wanted: NDArray[np.intc]) -> int:
    """Return how many tokens two prompts begin with in common."""
    length = min(len(known), len(wanted))
    differing = np.nonzero(known[:length] != wanted[:length])[0]
    return int(differing[0]) if len(differing) else length


def _bytes(state: NDArray[np.uint8]) -> Any:
    return state.ctypes.data_as(POINTER(c_uint8))
