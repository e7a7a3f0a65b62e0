"""One broker a run directory, and one a state directory."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from scheduler.bus import lock
from scheduler.errors import BusError


def test_a_directory_that_is_taken_is_refused_until_its_holder_is_gone(tmp_path: Path) -> None:
    held = lock.take(tmp_path)
    with pytest.raises(
        lock.RunDirTaken, match=r"a box already runs in .*; stop it, or set run_dir"
    ):
        lock.check_free(tmp_path, tmp_path)
    os.close(held)
    lock.check_free(tmp_path, tmp_path)


def test_a_state_directory_has_one_broker_whatever_their_run_directories(tmp_path: Path) -> None:
    held = lock.take_state(tmp_path)
    assert held is not None
    with pytest.raises(
        lock.StateDirTaken, match=r"keeps its state in .*; stop it, or set state_dir"
    ):
        lock.check_free(tmp_path / "run", tmp_path)
    os.close(held)
    lock.check_free(tmp_path / "run", tmp_path)


def test_a_state_directory_that_can_keep_nothing_stops_no_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert lock.take_state(tmp_path / "file" / "state") is None

    def no_locks(_descriptor: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert lock.take_state(tmp_path) is None


def test_a_directory_is_made_for_this_user_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / "a" / "run"
    os.close(lock.take(run_dir))
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((run_dir / "lock").stat().st_mode) == 0o600


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BusError, match=r"cannot use the run directory .*file/run"):
        lock.take(tmp_path / "file" / "run")
