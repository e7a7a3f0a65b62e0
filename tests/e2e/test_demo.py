"""What `make run` shows: three prompts, each with its class, and then it keeps serving."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import ops
from support.wait import until


def test_the_demo_places_its_three_prompts_and_keeps_serving(tmp_path: Path) -> None:
    tree = str(Path(ops.__file__).parents[1])
    environ = {
        **os.environ,
        "PYTHONPATH": tree,
        "FAIRLANE__RUN_DIR": str(tmp_path / "run"),
        "FAIRLANE__STATE_DIR": str(tmp_path / "state"),
        "FAIRLANE__GATEWAY__PORT": "0",
    }
    said = tmp_path / "said.txt"
    with said.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-m", "ops.cli", "demo"], env=environ, cwd=tree, stdout=out
        )
    try:
        until(lambda: "until Ctrl-C" in said.read_text(), "the three answers", within_s=120)
        check(said.read_text())
        assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30) == 0
    finally:
        demo.kill()
        demo.wait()


def check(text: str) -> None:
    """Check what was said of the three prompts."""
    assert [line.split()[1] for line in text.splitlines() if line.startswith("class")] == [
        "code",
        "long_doc",
        "short",
    ]
    assert text.count("hrx, computed by llama.cpp cpu") == 3
    assert "expected class" not in text
