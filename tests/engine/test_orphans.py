"""What a worker that was killed leaves behind: the kernel ends its child, its successor the rest."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from support.box import lives
from support.engines import bench, fake, row
from support.wait import until
from workers.upstream.registry import Registry

WORKER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from support.engines import bench, fake, row\n"
    "with bench(Path(sys.argv[1]), row(), fake=fake('leaves-child')) as engines:\n"
    "    engines.run()\n"
    "    print('serving', flush=True)\n"
    "    time.sleep(600)\n"
)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has an engine with one child, which has one of its own."""
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        yield process
        left = (
            psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        )
        process.kill()
        for one in left:
            with suppress(psutil.NoSuchProcess):
                one.kill()


def test_a_killed_workers_child_dies_with_it_and_the_next_worker_ends_the_rest(
    worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    (child,) = psutil.Process(worker.pid).children()
    (grandchild,) = child.children()
    worker.send_signal(signal.SIGKILL)
    worker.wait(30)  # its successor is started when it has ended, all threads of it
    until(lambda: not lives(child), "the child's end by the kernel")
    assert lives(grandchild)  # of which the kernel knows nothing
    with bench(tmp_path, row(), fake=fake()):
        assert not lives(grandchild)
    assert list(tmp_path.rglob("*.json")) == []


def test_what_a_living_worker_has_is_not_touched(
    worker: subprocess.Popen[str], tmp_path: Path
) -> None:
    (child,) = psutil.Process(worker.pid).children()
    registry = Registry(tmp_path / "engines" / "hrx", os.getpid())
    assert registry.reap() == 0
    assert lives(child)


def test_a_pid_that_is_somebody_elses_by_now_is_not_touched(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as bystander:
        registry = Registry(tmp_path, 2**22 + 1)  # no such worker
        registry.add("engine-x", bystander.pid, "m")
        file = tmp_path / "engine-x.json"
        entry = file.read_text().split(", ")
        entry[2] = str(float(entry[2]) - 100.0)  # it started when another process had that pid
        file.write_text(", ".join(entry))
        assert registry.reap() == 0
        assert lives(psutil.Process(bystander.pid))
        bystander.kill()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '["a", 1, 2.0, 3, 4.0]'])
def test_a_file_that_was_cut_short_hinders_nobody(text: str, tmp_path: Path) -> None:
    (tmp_path / "engine-x.json").write_text(text)
    assert Registry(tmp_path, os.getpid()).reap() == 0
    assert list(tmp_path.iterdir()) == []
