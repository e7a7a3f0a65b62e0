"""The decision head: from the encoder's rows to one logit an option, in numpy and float32.

    h = rows + type_emb[kind]
    two layers:  h += attention(LN(h));  h += linear2(relu(linear1(LN(h))))
    logit of an option = Linear(gelu(Linear(LN(h at its mark))))

Every linear map and every LN has a bias; attention sees all tokens; there are no positions. The head's
second part, which says whether to act, is not read: its answer carries no signal.

Source: the decision model's `DecisionModel` with PyTorch's `TransformerEncoderLayer(norm_first=True)`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from workers.encoder.errors import UnusableModel
from workers.encoder.questions import KINDS, Kind
from workers.encoder.tensors import Array, TensorFile, tensor

_EPS = 1e-5
_HEAD_WIDTH = 64  # numbers an attention head has
_WIDTH_MAX = 8192


@dataclass(frozen=True, slots=True)
class Affine:
    """A linear map or a norm: weight and bias."""

    weight: Array
    bias: Array

    def linear(self, x: Array) -> Array:
        """Return x W^T + b."""
        return x @ self.weight.T + self.bias

    def norm(self, x: Array) -> Array:
        """Return each row with mean 0 and variance 1, scaled and shifted."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled: Array = centred / np.sqrt(variance + np.float32(_EPS)) * self.weight + self.bias
        return scaled


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer layer, normed before each of its halves."""

    norm1: Affine
    attend: Affine  # rows of queries, then keys, then values
    out: Affine
    norm2: Affine
    up: Affine
    down: Affine

    def __call__(self, h: Array, at: Sequence[int] | None = None) -> Array:
        """Return the rows after this layer: all of them, or only those at some positions."""
        normed = self.norm1.norm(h)
        kept = h if at is None else h[list(at)]
        asking = normed if at is None else normed[list(at)]
        kept = kept + self.out.linear(self._attention(asking, normed))
        hidden = np.maximum(self.up.linear(self.norm2.norm(kept)), np.float32(0))
        return kept + self.down.linear(hidden)

    def _attention(self, asking: Array, all_rows: Array) -> Array:
        width = asking.shape[1]
        heads = max(1, width // _HEAD_WIDTH)
        weight, bias = self.attend.weight, self.attend.bias
        queries = asking @ weight[:width].T + bias[:width]
        pairs = all_rows @ weight[width:].T + bias[width:]
        q = queries.reshape(-1, heads, width // heads).transpose(1, 0, 2)
        k = pairs[:, :width].reshape(-1, heads, width // heads).transpose(1, 2, 0)
        v = pairs[:, width:].reshape(-1, heads, width // heads).transpose(1, 0, 2)
        scores = (q @ k) * np.float32(1 / math.sqrt(width // heads))
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (powers / powers.sum(axis=-1, keepdims=True)) @ v
        rows: Array = mixed.transpose(1, 0, 2).reshape(-1, width)
        return rows


@dataclass(frozen=True, slots=True)
class Head:
    """A loaded decision head."""

    types: Array  # (3, width)
    layers: tuple[Layer, ...]
    norm: Affine
    hidden: Affine
    last: Affine

    @classmethod
    def read(cls, file: TensorFile, *, layers: int = 2) -> Self:
        """Read a head; no other tensor of the file is touched.

        Args:
            file: With the tensor names of the decision model.
            layers: Transformer layers, 0 or more.

        Raises:
            UnusableModel: A tensor is missing, of the wrong shape, or holds NaN.
        """
        shape = file.shapes.get("type_emb.weight", ())
        width = shape[1] if len(shape) == 2 else 0
        heads = max(1, width // _HEAD_WIDTH)
        if not 0 < width <= _WIDTH_MAX or width % heads:
            raise UnusableModel(
                file.path, f"no decision head: the type embedding 'type_emb.weight' is {shape}"
            )
        return cls(
            types=tensor(file, "type_emb.weight", (len(KINDS), width)),
            layers=tuple(_layer(file, f"head.layers.{number}", width) for number in range(layers)),
            norm=_affine(file, "scorer.0", (width,)),
            hidden=_affine(file, "scorer.1", (width, width)),
            last=_affine(file, "scorer.3", (1, width)),
        )

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(self.types.shape[1])

    def logits(self, rows: Array, kind: Kind, markers: Sequence[int]) -> list[float]:
        """Return a logit for each option.

        Args:
            rows: (tokens, width), the encoder's output after its last norm.
            kind: The question's.
            markers: Position of each option's mark.
        """
        h: Array = rows.astype(np.float32) + self.types[KINDS.index(kind)]
        for layer in self.layers[:-1]:
            h = layer(h)
        # of the last layer only the marks are looked at, which halves the work
        marked = self.layers[-1](h, markers) if self.layers else h[list(markers)]
        inner = self.hidden.linear(self.norm.norm(marked))
        logits = self.last.linear(_gelu(inner))
        return [float(logit) for logit in logits[:, 0]]


def _gelu(x: Array) -> Array:
    # numpy has no erf, and there are as many numbers as options times width: a few thousand
    erf = np.fromiter(map(math.erf, (x / math.sqrt(2.0)).ravel()), np.float64, x.size)
    return (0.5 * x * (1.0 + erf.reshape(x.shape))).astype(np.float32)


def _affine(file: TensorFile, name: str, shape: tuple[int, ...]) -> Affine:
    return Affine(tensor(file, f"{name}.weight", shape), tensor(file, f"{name}.bias", (shape[0],)))


def _layer(file: TensorFile, name: str, width: int) -> Layer:
    attention = f"{name}.self_attn"
    return Layer(
        norm1=_affine(file, f"{name}.norm1", (width,)),
        attend=Affine(
            tensor(file, f"{attention}.in_proj_weight", (3 * width, width)),
            tensor(file, f"{attention}.in_proj_bias", (3 * width,)),
        ),
        out=_affine(file, f"{attention}.out_proj", (width, width)),
        norm2=_affine(file, f"{name}.norm2", (width,)),
        up=_affine(file, f"{name}.linear1", (4 * width, width)),
        down=_affine(file, f"{name}.linear2", (width, 4 * width)),
    )
