"""Writing: one write a burst, a new segment in time, and no journal rather than no box."""

import errno
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ops.replay import replay
from scheduler.bus.journal import Journal, segments
from scheduler.bus.segment import Reader
from scheduler.core import events as ev
from scheduler.settings import Journal as Conf
from support.journals import WrittenStand, actions, newest, served

SMALL = Conf(segment_bytes=4096, keep=3)


def test_a_burst_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = served(tmp_path, 0)
    journal = Journal(tmp_path, Conf(), stand.core, "kernel")
    writes: list[int] = []
    write = os.write

    def counted(descriptor: int, data: bytes) -> int:
        writes.append(len(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    for number in range(20):
        event = ev.Cancelled(stand.now, b"client", f"r{number}")
        journal.note(event, stand.core.handle(event))
    journal.flush()
    journal.flush()
    assert len(writes) == 1


def test_pieces_after_the_first_are_not_written(tmp_path: Path) -> None:
    stand = WrittenStand(tmp_path)
    stand.worker()
    run = stand.run(stream=True)
    stand.produce(run, 1)
    before = stand.journal.view()["bytes"]
    for seq in range(2, 50):
        stand.produce(run, seq)
    assert stand.journal.view()["bytes"] == before
    stand.finish(run)
    stand.journal.close()
    assert replay(newest(tmp_path)).is_clean


def test_it_rotates_and_keeps_so_many_and_each_replays(tmp_path: Path) -> None:
    stand = WrittenStand(tmp_path, conf=SMALL)
    stand.worker()
    stand.scorer()
    for number in range(600):
        stand.serve(number)
        stand.journal.tend(stand.now)
    stand.journal.close()
    kept = segments(tmp_path)
    assert len(kept) == 3
    assert int(kept[0].name.rsplit("-", 1)[1]) > 4
    assert all(replay(segment).is_clean for segment in kept)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in kept}


def test_a_segment_is_at_least_twice_its_checkpoint(tmp_path: Path) -> None:
    stand = WrittenStand(tmp_path, conf=SMALL)
    stand.worker()
    stand.scorer()
    for number in range(300):
        stand.serve(number)
        stand.journal.tend(stand.now)
    stand.journal.close()
    older = segments(tmp_path)[1]
    with Reader(older) as reader:
        checkpoint = reader.offset
    assert older.stat().st_size > 3 * checkpoint > 12_000


def test_what_a_killed_start_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / "journal-1-7.new").write_bytes(b"half a checkpoint")
    served(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["journal-1-1"]


def test_where_it_is_off_nothing_is_written(tmp_path: Path) -> None:
    stand = served(tmp_path / "none", 2, conf=Conf(enabled=False))
    stand.journal.tend(1e9)
    assert stand.journal.view()["state"] == "off"
    assert stand.journal.samples() == {}
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_made_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    stand = served(tmp_path / "file" / "journal", 3)
    assert actions(caplog) == ["journal_lost"]
    view = stand.journal.view()
    assert (view["state"], view["segment"]) == ("failed", None)
    assert "Not a directory" in str(view["error"])


@pytest.mark.parametrize("error", [OverflowError("too large"), ValueError("no text")])
def test_a_state_that_cannot_be_written_down_costs_the_journal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def beginning(*_: object) -> bytes:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("scheduler.bus.journal.beginning", beginning)
        stand = WrittenStand(tmp_path)
        assert stand.journal.view()["state"] == "failed"
        stand.ask("r")
    stand.journal.tend(time.monotonic() + 60.0)
    assert stand.journal.view()["state"] == "on"


def test_it_is_tried_again_after_a_while_and_not_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = tmp_path / "journal"
    folder.touch()
    stand = WrittenStand(folder)
    stand.worker()
    folder.unlink()
    started = time.monotonic()
    stand.journal.tend(started + 5.0)
    assert stand.journal.view()["state"] == "failed"
    assert stand.journal.samples() == {"journal_up": [[0]]}
    stand.journal.tend(started + 31.0)
    assert stand.journal.view()["state"] == "on"
    stand.run()
    stand.journal.close()
    assert replay(newest(folder)).is_clean
    assert actions(caplog) == ["journal_lost", "journal_back"]


def test_a_deleted_folder_is_noticed_and_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    folder = tmp_path / "journal"
    stand = WrittenStand(folder)
    stand.worker()
    shutil.rmtree(folder)
    stand.journal.tend(1e9)
    assert (stand.journal.view()["state"], actions(caplog)) == (
        "on",
        ["journal_lost", "journal_back"],
    )
    stand.run()
    stand.journal.close()
    assert replay(newest(folder)).is_clean


def test_a_disk_that_is_full_in_the_middle_costs_the_journal_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand = WrittenStand(tmp_path)
    stand.worker()
    stand.scorer()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = newest(tmp_path).stat().st_size + 2000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        for number in range(20):
            stand.serve(number)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.strerror(errno.EFBIG) in str(stand.journal.view()["error"])
    assert actions(caplog) == ["journal_lost"]
    report = replay(newest(tmp_path))
    assert (report.is_clean, report.torn_bytes) == (True, 0)  # half a burst was taken back
    assert report.events > 4
    stand.journal.tend(1e9)
    assert stand.journal.view()["state"] == "on"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_small_disk_that_fills_up_and_is_made_free_again(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}")
    try:
        fill_and_free(tmp_path)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill_and_free(folder: Path) -> None:
    stand = WrittenStand(folder, conf=Conf(keep=1))
    stand.worker()
    stand.scorer()
    for number in range(3000):
        stand.serve(number)
        if stand.journal.view()["state"] == "failed":
            break
    assert os.strerror(errno.ENOSPC) in str(stand.journal.view()["error"])
    assert replay(newest(folder)).is_clean
    stand.journal.tend(1e9)
    assert (
        stand.journal.view()["state"] == "failed"
    )  # a checkpoint does not fit beside the old segment
    newest(folder).unlink()
    stand.journal.tend(2e9)
    assert stand.journal.view()["state"] == "on"
    stand.serve(3001)
    stand.journal.close()
    assert replay(newest(folder)).is_clean
