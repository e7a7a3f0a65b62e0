"""The decision head beside the same formulas in float64."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from support.modernbert import KINDS, WIDTH, TinyModel, Weights
from workers.encoder.config import open_tensors
from workers.encoder.head import Head
from workers.encoder.questions import Kind

MODEL = TinyModel()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Head:
    return Head.read(open_tensors(MODEL.write_head(tmp_path_factory.mktemp("head") / "h")))


def rows(count: int, seed: int = 3) -> Weights:
    return np.random.default_rng(seed).standard_normal((count, WIDTH))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("count", "markers"), [(1, [0]), (40, [3, 17, 9]), (512, [511, 0])])
def test_logits_are_those_of_the_reference(
    head: Head, kind: str, count: int, markers: list[int]
) -> None:
    given = rows(count)
    said = head.logits(given.astype(np.float32), cast("Kind", kind), markers)
    assert said == pytest.approx(MODEL.logits(given, kind, markers).tolist(), abs=2e-3)


def test_the_kind_of_question_matters(head: Head) -> None:
    given = rows(20).astype(np.float32)
    first, second, third = (head.logits(given, cast("Kind", kind), [4])[0] for kind in KINDS)
    assert len({round(logit, 2) for logit in (first, second, third)}) == 3


def test_a_row_beside_the_marks_matters(head: Head) -> None:
    given = rows(20).astype(np.float32)
    before = head.logits(given, "choice", [4])
    given[13] = rows(1, seed=4)[0]
    assert head.logits(given, "choice", [4])[0] != pytest.approx(before[0], abs=1e-2)


def test_a_head_may_have_no_layers(tmp_path: Path) -> None:
    bare = Head.read(open_tensors(MODEL.write_head(tmp_path / "h")), layers=0)
    assert len(bare.logits(rows(5).astype(np.float32), "choice", [1, 2])) == 2
