"""The store killed at any moment of a pull: never a corrupt file under a name, and the next one goes on."""

import hashlib
import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from scheduler.wire import messages as wire
from support.fakehub import FakeHub, Fault
from support.pulling import DIGEST, FILE, REPO, gguf, hub_row, row_of
from support.storehouse import TREE, StoreHouse
from support.wait import at_best, until
from workers import rows
from workers.job import JobError
from workers.store.records import Unreadable, read, whole

KILLS = 20


def check_disk(file: Path, content: bytes) -> None:
    """Hold the disk to it: the whole file or none, a part that is a beginning, a record that is right."""
    if file.exists():
        assert file.read_bytes() == content
    for part in file.parent.glob(".*.part") if file.parent.is_dir() else ():
        left = part.read_bytes()
        assert content.startswith(left)
    record = read(file)  # a damaged one would raise
    if record is not None:
        assert (record.bytes, record.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert record.templates == {"default": DIGEST}


@pytest.mark.slow
def test_killed_at_twenty_random_moments_it_goes_on_and_no_corrupt_file_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, dice = tmp_path / "models", random.Random(20)
    monkeypatch.setattr(rows, "_models", models)
    content = gguf(tmp_path, kib=6000)
    file, row = models / REPO / FILE, row_of(hub_row())
    with FakeHub() as hub, StoreHouse(models, hub.url, hub_row()) as house:
        # it would take ten seconds, and is killed after four at the most
        hub.put(REPO, FILE, content, Fault(rate=600_000))
        left = 0
        for _ in range(KILLS):
            house.start()
            assert house.stock()["M"].state == "missing"
            house.fetch()
            asked = len(hub.asked)
            until(lambda asked=asked: len(hub.asked) > asked, "a request")  # type: ignore[misc]
            kill_at = time.monotonic() + dice.random() * 0.35
            while time.monotonic() < kill_at:
                house.all(wire.Beat)
                time.sleep(0.001)
            house.kill()
            check_disk(file, content)
            with pytest.raises(JobError):
                rows.file_of(row)
            parts = list(file.parent.glob(".*.part")) if file.parent.is_dir() else []
            now = sum(part.stat().st_size for part in parts)
            assert now >= left, "what has come was lost"
            left = now
        assert 0 < left < len(content)
        hub.fault(REPO, FILE)
        sent = hub.sent()
        house.start()
        house.fetch()
        assert house.ended().cause == ""
        check_disk(file, content)
        assert rows.file_of(row) == file
        assert hub.sent() - sent == len(content) - left  # not a byte twice


# Pulls that are killed before the n-th of their calls that change the disk, whatever they are: n and the
# directory come by lines, and what the pull said, or the signal that ended it, goes back. Each is a fork.
_PULLER = """
import os, signal, sys
from pathlib import Path
import workers.store.hub
from support.pulling import Puller, hub_row

def counted(call, left):
    def wrapped(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    return wrapped

def pull(count, folder):
    puller = Puller(Path(folder), hub_row())
    puller.stock
    left = [count]
    os.fsync = counted(os.fsync, left)
    for name in ("mkdir", "open", "replace", "unlink"):
        setattr(Path, name, counted(getattr(Path, name), left))
    print(puller.pull().message or "ready", flush=True)
    os._exit(0)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        count, folder = line.split()
        pull(int(count), folder)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        print("signal", os.WTERMSIG(status), flush=True)
"""


def test_killed_before_any_of_its_calls_that_change_the_disk_it_ends_well_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, row = gguf(tmp_path, kib=40), row_of(hub_row())
    path = os.pathsep.join([str(TREE), str(TREE / "tests"), os.environ.get("PYTHONPATH", "")])
    with FakeHub() as hub:
        hub.put(REPO, FILE, content)
        environ = {
            **os.environ,
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path),
            "PYTHONPATH": path,
        }
        with subprocess.Popen(
            [sys.executable, "-c", _PULLER],
            env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as puller:  # fmt: skip
            assert puller.stdin is not None
            assert puller.stdout is not None

            def pull(count: int, folder: Path) -> str:
                assert puller.stdin is not None
                assert puller.stdout is not None
                print(count, folder, file=puller.stdin, flush=True)
                return puller.stdout.readline().strip()

            kills = 0
            for count in range(1, 100):
                folder = tmp_path / str(count)
                file = folder / "models" / REPO / FILE
                monkeypatch.setattr(rows, "_models", folder / "models")
                if pull(count, folder) == "ready":
                    break
                kills += 1
                check_disk(file, content)
                if whole(file) is None:
                    with pytest.raises(JobError):
                        rows.file_of(row)
                assert pull(0, folder) == "ready"
                check_disk(file, content)
                assert rows.file_of(row) == file
                assert not list(file.parent.glob(".*.part"))
            puller.stdin.close()
    assert kills >= 10


def test_a_damaged_record_is_made_anew_at_the_next_start(tmp_path: Path) -> None:
    models = tmp_path / "models"
    content = gguf(tmp_path)
    with FakeHub() as hub, StoreHouse(models, hub.url, hub_row()) as house:
        hub.put(REPO, FILE, content)
        house.start()
        house.fetch()
        assert house.ended().cause == ""
        house.kill()
        record = models / REPO / f".{FILE}.json"
        record.write_bytes(record.read_bytes()[:100])
        with pytest.raises(Unreadable):
            read(models / REPO / FILE)
        asked = len(hub.asked)
        house.start()
        assert house.stock()["M"].state == "ready"
        check_disk(models / REPO / FILE, content)
        assert house.log.count("record_unreadable") == 1
        assert len(hub.asked) == asked


def test_a_pull_that_stalls_never_holds_a_heartbeat(tmp_path: Path) -> None:
    def longest_gap_s() -> float:
        with (
            FakeHub() as hub,
            StoreHouse(tmp_path / "models", hub.url, hub_row(), timeout_s=1.5, attempts=2) as house,
        ):
            hub.put(REPO, FILE, gguf(tmp_path), Fault(stall=100_000))
            house.start()
            house.fetch()
            ended = house.ended()
            assert ended.cause == "pull_failed"
            assert "nothing came for 1.5 s" in ended.message
            assert house.all(wire.Pulling)[-1][1].done_bytes == 100_000
            beats = [at for at, _ in house.all(wire.Beat)]
            assert len(beats) > 5
            return max(later - sooner for sooner, later in pairwise(beats))

    # asked for every 0.2 s; the import of the client holds Python's lock a little
    at_best(longest_gap_s, 1.0, "seconds between two heartbeats")


def test_the_environment_that_every_program_of_the_hub_reads_counts(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_filed")
    with FakeHub() as hub:
        hub.put(REPO, FILE, gguf(tmp_path))
        hub.gate(REPO, "hf_filed")
        settings = {"HF_TOKEN_PATH": tmp_path / "token"}
        with StoreHouse(tmp_path / "a", hub.url, hub_row(), HF_HUB_OFFLINE=1, **settings) as house:
            house.start()
            house.fetch()
            assert "HF_HUB_OFFLINE is set" in house.ended().message
            assert hub.asked == []
        with StoreHouse(tmp_path / "a", hub.url, hub_row(), **settings) as house:
            house.start()
            house.fetch()
            assert house.ended().cause == ""
        assert {path.split("/resolve/")[0] for path in hub.paths()} == {f"/{REPO}"}


def test_two_boxes_with_one_directory_download_a_file_once(tmp_path: Path) -> None:
    content = gguf(tmp_path)
    models = tmp_path / "models"
    slow = Fault(rate=30_000)
    with (
        FakeHub() as hub,
        StoreHouse(models, hub.url, hub_row()) as one,
        StoreHouse(models, hub.url, hub_row()) as two,
    ):
        hub.put(REPO, FILE, content, slow)
        one.start()
        two.start()
        one.fetch()
        until(lambda: one.all(wire.Pulling), "the first is at it")
        two.fetch()
        until(lambda: len(two.all(wire.Pulling)) > 1, "the other sees it grow")
        slow.rate = 0
        assert one.ended().cause == ""
        assert two.ended().cause == ""
        assert hub.sent() == len(content)
        check_disk(models / REPO / FILE, content)
