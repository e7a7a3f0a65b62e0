"""Training the builtin classifier: `OMP_NUM_THREADS=1 python -m workers.builtin.train fit DATA`.

`fit DATA` writes `weights.bin` beside this file (or to `--out`); `cross-validate DATA` leaves one
source out at a time and prints what the rest says about it. DATA is the directory with the
JSON-lines files `sources.py` names; nothing else in it is opened. The same data gives the same
bytes. numpy is needed here and nowhere else in the package.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from workers.builtin.fit import (
    Floats,
    Ints,
    Matrix,
    Settings,
    fit,
    logits,
    matrix,
    row_masses,
    softmax,
)
from workers.builtin.sources import read_sources
from workers.builtin.templates import CLASSES, Prompt, expand
from workers.builtin.weights import pack

SEED = 7
PER_TEMPLATE = 24
# Our own prompts count double: the public questions alone pull open questions toward short.
OWN_SHARE = 2.0
# Scores are divided by this, so that probabilities mean what they say on sources not trained on.
TEMPERATURE = 1.0

_STEPS_OF_A_BYTE = 127


def read_prompts(data: Path) -> list[Prompt]:
    """Everything there is to train on: the public sources and our own templates."""
    return read_sources(data) + expand(seed=SEED, per_template=PER_TEMPLATE)


def train(data: Path) -> bytes:
    """The weights file's bytes for the data in `data`."""
    prompts = read_prompts(data)
    weights, bias = _fit(prompts, matrix([prompt.text for prompt in prompts]))
    centred = weights - weights.mean(axis=1, keepdims=True)
    step = float(np.abs(centred).max()) / _STEPS_OF_A_BYTE
    steps = np.rint(centred / step).astype(np.int8)
    first, second, third = (round(float(value) / TEMPERATURE, 6) for value in bias)
    return pack(steps.tobytes(), scale=step / TEMPERATURE, bias=(first, second, third))


def cross_validate(data: Path) -> str:
    """A table of each source's prompts, answered by a model that saw none of that source."""
    prompts = read_prompts(data)
    x, labels = matrix([prompt.text for prompt in prompts]), _numbers(prompts)
    origin = np.array([prompt.source for prompt in prompts])
    lines = ["source              class      code prose short  right"]
    outside: list[tuple[Floats, Ints]] = []
    shares: list[float] = []
    for source in sorted(set(origin.tolist())):
        inside = origin == source
        rest = [prompt for prompt in prompts if prompt.source != source]
        weights, bias = _fit(rest, _rows(x, ~inside))
        scores = logits(weights, bias, _rows(x, inside))
        outside.append((scores, labels[inside]))
        answers = scores.argmax(axis=1)
        shares.append(float((answers == labels[inside]).mean()))
        for number, label in enumerate(CLASSES):
            counts = np.bincount(answers[labels[inside] == number], minlength=len(CLASSES))
            if total := int(counts.sum()):
                row = "".join(f"{count:>6}" for count in counts)
                lines.append(f"{source:<20}{label:<8}{row}  {counts[number] / total:.1%}")
    lines.append(f"mean over sources: {sum(shares) / len(shares):.1%}")
    lines.extend(
        f"temperature {heat:.2f}: log loss {_log_loss(outside, heat):.4f}"
        for heat in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
    )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(prog="python -m workers.builtin.train")
    parser.add_argument("command", choices=("fit", "cross-validate"))
    parser.add_argument("data", type=Path, help="directory of the JSON-lines prompt files")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("weights.bin"))
    options = parser.parse_args(arguments)
    if options.command == "fit":
        options.out.write_bytes(train(options.data))
    else:
        sys.stdout.write(cross_validate(options.data))
    return 0


def _fit(prompts: list[Prompt], x: Matrix) -> tuple[Floats, Floats]:
    shares = {prompt.source: OWN_SHARE for prompt in prompts if prompt.source.startswith("own:")}
    return fit(x, _numbers(prompts), row_masses(prompts, shares), Settings())


def _numbers(prompts: list[Prompt]) -> Ints:
    return np.array([CLASSES.index(prompt.label) for prompt in prompts], dtype=np.int64)


def _rows(x: Matrix, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Matrix:
    """The chosen rows of `x`."""
    lengths = np.diff(x.starts)
    ends = np.cumsum(lengths[chosen])
    return Matrix(
        buckets=x.buckets[np.repeat(chosen, lengths)],
        starts=np.concatenate([np.zeros(1, dtype=np.int64), ends]),
        scales=x.scales[chosen],
    )


def _log_loss(outside: list[tuple[Floats, Ints]], heat: float) -> float:
    """Mean over sources of the mean log loss, scores divided by `heat`."""
    losses = [
        float(-np.log(softmax(scores / heat)[np.arange(len(labels)), labels]).mean())
        for scores, labels in outside
    ]
    return sum(losses) / len(losses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
