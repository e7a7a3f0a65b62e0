"""Training never sees the labelled cases that the classifier is reported on."""

import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

import ops
from support.shared import folder

TREE = Path(ops.__file__).parents[1]
# Whatever a training opens, told by the interpreter itself.
SCRIPT = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from workers.builtin.train import main
status = main(["fit", sys.argv[1], "--out", sys.argv[2]])
print(status, any("route_cases" in name for name in opened), len(opened) > 10)
"""


@pytest.mark.slow
def test_training_without_the_labelled_cases_gives_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="numpy is a training dependency")
    data = folder("data/laya/train")
    shutil.copytree(data, tmp_path / "train")  # where the cases are not
    out = tmp_path / "weights.bin"
    environ = {**os.environ, "PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "train", out],
        env=environ, check=True, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "False", "True"]
    assert out.read_bytes() == (files("workers.builtin") / "weights.bin").read_bytes()
