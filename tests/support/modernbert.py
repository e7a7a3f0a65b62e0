"""A tiny random decision model and what it must answer, computed once more in float64.

Written from the architecture's description, with nothing of `workers.encoder` in it: the encoder is
ModernBERT (pre-norm, no biases, layer 0 without its first norm, every third layer looks at all tokens and
the others 64 to each side, rotary positions in halves, GeGLU), the head a decision head.
"""

import json
import math
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.gguf import Value, write_gguf

Weights = NDArray[np.float64]

WIDTH, HEADS, INNER, LAYERS = 128, 2, 192, 5
HEAD_WIDTH = WIDTH // HEADS
WINDOW = 64  # tokens to each side
THETA_ALL, THETA_NEAR = 160_000.0, 10_000.0
EPS = 1e-5
# llama.cpp computes GELU by its tanh formula, from a table of half-precision numbers. With this gain that
# moves no row by more than 1.2e-3, while a window wrong by one token moves rows by 7e-2.
GAIN = 0.7
WORDS = ("the", "is", " the", " question", "choice", " code", " a", "er", "in")
SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]")
KINDS = ("choice", "score", "noul")
CONFIG: dict[str, object] = {
    "max_len": 512,
    "head_max_len": 192,
    "head_layers": 2,
    "temperature": [1.6369, 1.2514, 1.9834],
    "temperature_by_options": {"choice:2": 1.906, "choice:3-5": 1.760, "choice:11+": 0.1006},
}


def byte_letters() -> list[str]:
    """Return the letter that a byte-level vocabulary has for each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in kept else chr(next(others)) for byte in range(256)]


def merges_of(words: tuple[str, ...], letters: list[str]) -> tuple[list[str], list[str]]:
    """Return tokens and merges that build each word from its left."""
    tokens: list[str] = []
    merges: list[str] = []
    for word in words:
        spelled = [letters[byte] for byte in word.encode()]
        for end in range(2, len(spelled) + 1):
            left, right = "".join(spelled[: end - 1]), spelled[end - 1]
            if (merge := f"{left} {right}") not in merges:
                merges.append(merge)
                tokens.append(left + right)
    return tokens, merges


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level vocabulary with a few words."""

    tokens: list[str]
    merges: list[str]

    @classmethod
    def tiny(cls) -> "Vocabulary":
        """Return all bytes, some words, the special tokens last."""
        letters = byte_letters()
        words, merges = merges_of(WORDS, letters)
        return cls([*letters, *words, *SPECIAL], merges)

    def id_of(self, token: str) -> int:
        """Return a token's id."""
        return self.tokens.index(token)

    def values(self) -> dict[str, Value]:
        """Return the keys of a GGUF."""
        normal, control = 1, 3
        kinds = [control if token in SPECIAL else normal for token in self.tokens]
        return {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "modern-bert",
            "tokenizer.ggml.tokens": self.tokens,
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.merges": self.merges,
            "tokenizer.ggml.bos_token_id": self.id_of("[CLS]"),
            "tokenizer.ggml.eos_token_id": self.id_of("[SEP]"),
            "tokenizer.ggml.seperator_token_id": self.id_of("[SEP]"),
            "tokenizer.ggml.padding_token_id": self.id_of("[PAD]"),
            "tokenizer.ggml.mask_token_id": self.id_of("[MASK]"),
            "tokenizer.ggml.unknown_token_id": self.id_of("[UNK]"),
        }


class TinyModel:
    """Random weights from a seed, their files, and the answers they lead to."""

    def __init__(self, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self.vocabulary = Vocabulary.tiny()
        self.encoder = self._encoder_weights()
        self.head = self._head_weights()

    # --- files ---

    @cached_property
    def gguf_values(self) -> dict[str, Value]:
        """The keys of the encoder's file."""
        a = "modern-bert"
        return {
            "general.architecture": a,
            f"{a}.vocab_size": len(self.vocabulary.tokens),
            f"{a}.context_length": 1024,
            f"{a}.embedding_length": WIDTH,
            f"{a}.block_count": LAYERS,
            f"{a}.feed_forward_length": INNER,
            f"{a}.attention.head_count": HEADS,
            f"{a}.attention.layer_norm_epsilon": EPS,
            f"{a}.attention.causal": False,
            f"{a}.attention.sliding_window": 2 * WINDOW,
            f"{a}.attention.sliding_window_pattern": 3,
            f"{a}.rope.freq_base": THETA_ALL,
            f"{a}.rope.freq_base_swa": THETA_NEAR,
            **self.vocabulary.values(),
        }

    def write_encoder(self, path: Path, **changed: Value | None) -> Path:
        """Write the encoder's GGUF; dots of a changed key are written as `__`, None drops it."""
        other = {name.replace("__", "."): value for name, value in changed.items()}
        values = {k: v for k, v in (self.gguf_values | other).items() if v is not None}
        return write_gguf(path, values, self.encoder)

    def write_head(self, path: Path, config: dict[str, object] | None = None) -> Path:
        """Write the head's safetensors, its configuration in the metadata."""
        metadata = {"laya.config": json.dumps(CONFIG if config is None else config)}
        return write_safetensors(path, self.head, metadata)

    def write_npz(self, path: Path) -> Path:
        """Write the head as npz."""
        arrays = {name: weights.astype(np.float32) for name, weights in self.head.items()}
        np.savez(path, **{"laya.config": np.array(json.dumps(CONFIG))}, **arrays)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options
        return path

    # --- what they must compute ---

    def rows(self, ids: list[int]) -> Weights:
        """Return the encoder's rows, (tokens, WIDTH)."""
        w = self.encoder
        h = norm(w["token_embd.weight"][ids], w["token_embd_norm.weight"])
        for layer in range(LAYERS):
            name = f"blk.{layer}"
            x = h if layer == 0 else norm(h, w[f"{name}.attn_norm.weight"])
            near = layer % 3 != 0
            h = (
                h
                + attention(x @ w[f"{name}.attn_qkv.weight"].T, near)
                @ w[f"{name}.attn_output.weight"].T
            )
            up = norm(h, w[f"{name}.ffn_norm.weight"]) @ w[f"{name}.ffn_up.weight"].T
            h = h + (gelu(up[:, :INNER]) * up[:, INNER:]) @ w[f"{name}.ffn_down.weight"].T
        return norm(h, w["output_norm.weight"])

    def logits(self, rows: Weights, kind: str, markers: list[int]) -> Weights:
        """Return the head's logit for each mark."""
        w = self.head
        h = rows + w["type_emb.weight"][KINDS.index(kind)]
        for layer in range(2):
            name = f"head.layers.{layer}"
            x = norm(h, w[f"{name}.norm1.weight"], w[f"{name}.norm1.bias"])
            qkv = x @ w[f"{name}.self_attn.in_proj_weight"].T + w[f"{name}.self_attn.in_proj_bias"]
            h = h + self._linear(mixed(qkv, len(h)), f"{name}.self_attn.out_proj")
            x = norm(h, w[f"{name}.norm2.weight"], w[f"{name}.norm2.bias"])
            h = h + self._linear(
                np.maximum(self._linear(x, f"{name}.linear1"), 0), f"{name}.linear2"
            )
        x = norm(h[markers], w["scorer.0.weight"], w["scorer.0.bias"])
        return self._linear(gelu(self._linear(x, "scorer.1")), "scorer.3")[:, 0]

    def _linear(self, x: Weights, name: str) -> Weights:
        return x @ self.head[f"{name}.weight"].T + self.head[f"{name}.bias"]

    # --- weights ---

    def _encoder_weights(self) -> dict[str, Weights]:
        count = len(self.vocabulary.tokens)
        weights = {
            "token_embd.weight": self._normal(count, WIDTH),
            "token_embd_norm.weight": self._around_one(WIDTH),
            "output_norm.weight": self._around_one(WIDTH),
        }
        for layer in range(LAYERS):
            name = f"blk.{layer}"
            if layer > 0:
                weights[f"{name}.attn_norm.weight"] = self._around_one(WIDTH)
            weights[f"{name}.attn_qkv.weight"] = self._map(3 * WIDTH, WIDTH, GAIN)
            weights[f"{name}.attn_output.weight"] = self._map(WIDTH, WIDTH, GAIN)
            weights[f"{name}.ffn_norm.weight"] = self._around_one(WIDTH)
            weights[f"{name}.ffn_up.weight"] = self._map(2 * INNER, WIDTH, GAIN)
            weights[f"{name}.ffn_down.weight"] = self._map(WIDTH, INNER, GAIN)
        return weights

    def _head_weights(self) -> dict[str, Weights]:
        weights = {"type_emb.weight": self._normal(3, WIDTH) * 0.3}
        for layer in range(2):
            name = f"head.layers.{layer}"
            weights[f"{name}.self_attn.in_proj_weight"] = self._map(3 * WIDTH, WIDTH)
            weights[f"{name}.self_attn.in_proj_bias"] = self._normal(3 * WIDTH) * 0.1
            self._affine(weights, f"{name}.self_attn.out_proj", WIDTH, WIDTH)
            self._affine(weights, f"{name}.linear1", 4 * WIDTH, WIDTH)
            self._affine(weights, f"{name}.linear2", WIDTH, 4 * WIDTH)
            for norm_name in ("norm1", "norm2"):
                self._norm(weights, f"{name}.{norm_name}")
        self._norm(weights, "scorer.0")
        self._affine(weights, "scorer.1", WIDTH, WIDTH)
        self._affine(weights, "scorer.3", 1, WIDTH)
        weights["scorer.3.weight"] *= 20  # options stand apart as those of a trained head do
        return weights

    def _affine(self, weights: dict[str, Weights], name: str, rows: int, columns: int) -> None:
        weights[f"{name}.weight"] = self._map(rows, columns)
        weights[f"{name}.bias"] = self._normal(rows) * 0.1

    def _norm(self, weights: dict[str, Weights], name: str) -> None:
        weights[f"{name}.weight"] = self._around_one(WIDTH)
        weights[f"{name}.bias"] = self._normal(WIDTH) * 0.1

    def _normal(self, *shape: int) -> Weights:
        # rounded to what the files hold, so that both sides start from the same weights
        return self._random.standard_normal(shape).astype(np.float32).astype(np.float64)

    def _map(self, rows: int, columns: int, gain: float = 1.5) -> Weights:
        scaled = self._normal(rows, columns) * (gain / math.sqrt(columns))
        return scaled.astype(np.float32).astype(np.float64)

    def _around_one(self, count: int) -> Weights:
        return (1.0 + 0.2 * self._normal(count)).astype(np.float32).astype(np.float64)


def write_safetensors(
    path: Path, tensors: dict[str, Weights], metadata: dict[str, str] | None = None
) -> Path:
    """Write float32 tensors and return the path."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    data = bytearray()
    for name, weights in tensors.items():
        raw = weights.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(weights.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def norm(x: Weights, weight: Weights, bias: Weights | float = 0.0) -> Weights:
    """Return a layer norm of each row."""
    centred = x - x.mean(-1, keepdims=True)
    normed: Weights = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS) * weight + bias
    return normed


def gelu(x: Weights) -> Weights:
    """Return the exact GELU."""
    erf = np.vectorize(math.erf)(x / math.sqrt(2))
    gated: Weights = x * (1 + erf) / 2
    return gated


def attention(qkv: Weights, near: bool) -> Weights:
    """Return attention with rotary positions, of all tokens or the near ones."""
    q, k, v = np.split(qkv, 3, axis=1)
    theta = THETA_NEAR if near else THETA_ALL
    return mixed(np.hstack([rotated(q, theta), rotated(k, theta), v]), WINDOW if near else len(qkv))


def mixed(qkv: Weights, reach: int) -> Weights:
    """Return each row's attention over the rows at most `reach` away."""
    place = np.arange(len(qkv))
    hidden = np.abs(place[:, None] - place[None, :]) > reach
    heads: list[Weights] = []
    for head in range(HEADS):
        part = slice(head * HEAD_WIDTH, (head + 1) * HEAD_WIDTH)
        q, k, v = (third[:, part] for third in np.split(qkv, 3, axis=1))
        scores = np.where(hidden, -np.inf, q @ k.T / math.sqrt(HEAD_WIDTH))
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(powers / powers.sum(-1, keepdims=True) @ v)
    return np.hstack(heads)


def rotated(x: Weights, theta: float) -> Weights:
    """Return rows turned by their position: a head's first half is paired with its second."""
    half = HEAD_WIDTH // 2
    speed = theta ** (-np.arange(half) / half)
    angle = np.arange(len(x))[:, None] * speed[None, :]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    shaped = x.reshape(len(x), HEADS, HEAD_WIDTH)
    first, second = shaped[..., :half], shaped[..., half:]
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.reshape(x.shape)


def expected(logits: Weights, temperature: float) -> tuple[Weights, float]:
    """Return the probabilities and the confidence of a choice."""
    powers = np.exp((logits - logits.max()) / temperature)
    shares: Weights = powers / powers.sum()
    entropy = -(shares * np.log(shares)).sum()
    return shares, float(1 - entropy / math.log(len(shares)))
