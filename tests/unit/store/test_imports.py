"""The hub's client is large: whoever pulls nothing never imports it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import workers

_SAY = "import sys; print('huggingface_hub' in sys.modules, 'httpx2' in sys.modules)"


@pytest.mark.parametrize(
    "module", ["ops.cli", "workers.rows", "workers.store.worker", "workers.store.library"]
)
def test_it_comes_with_the_first_pull_only(module: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path(workers.__file__).parents[1])}
    command = [sys.executable, "-c", f"import {module}; {_SAY}"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
