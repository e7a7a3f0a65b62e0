"""Room, quota, and what may be removed for it."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from workers.store.disk import Kept, NoRoom, in_use, kept, make_room
from workers.store.layout import file_in, partial_of, record_of
from workers.store.places import Named

MIB = 2**20
NOTHING = Named(frozenset(), frozenset())


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def put(models: Path, name: str, used_at: float, mib: int = 1, *, partial: bool = False) -> Path:
    """Make a file of the hub that was used last at an instant."""
    repo, file = name.rsplit("/", 1)
    path = file_in(models, repo, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = partial_of(path, "abcd") if partial else path
    written.write_bytes(b"\0" * mib * MIB)
    os.utime(written, (used_at, used_at))
    if not partial:
        record_of(path).write_bytes(b"{}")
        os.utime(record_of(path), (used_at, used_at))
    return path


def names(models: Path) -> list[str]:
    return sorted(f"{one.repo}/{one.file}" for one in kept(models))


def room(models: Path, need_mib: int, named: Named = NOTHING, quota_mib: int = 0) -> None:
    make_room(models, need_mib * MIB, named, quota=quota_mib * MIB)


def test_without_a_quota_nothing_is_removed(tmp_path: Path) -> None:
    put(tmp_path, "a/b/old", 1.0)
    room(tmp_path, 1)
    assert names(tmp_path) == ["a/b/old"]


def test_a_quota_removes_what_was_used_longest_ago_until_it_fits(tmp_path: Path) -> None:
    for name, at in (("a/b/mid", 2.0), ("a/b/old", 1.0), ("c/d/new", 3.0)):
        put(tmp_path, name, at)
    room(tmp_path, 1, quota_mib=4)
    assert names(tmp_path) == ["a/b/mid", "a/b/old", "c/d/new"]
    room(tmp_path, 2, quota_mib=4)
    assert names(tmp_path) == ["a/b/mid", "c/d/new"]
    room(tmp_path, 3, quota_mib=4)
    assert names(tmp_path) == ["c/d/new"]
    assert not (tmp_path / "a").exists()  # with its records and directories


def test_loading_counts_as_use(tmp_path: Path) -> None:
    put(tmp_path, "a/b/one", 1.0)
    put(tmp_path, "a/b/two", 2.0)
    os.utime(record_of(tmp_path / "a" / "b" / "one"))  # what `rows.used` does
    room(tmp_path, 3, quota_mib=4)
    assert names(tmp_path) == ["a/b/one"]


def test_what_the_table_names_stays_and_the_rest_is_not_enough(tmp_path: Path) -> None:
    put(tmp_path, "a/b/named", 1.0)
    put(tmp_path, "w/w/part", 1.0)
    put(tmp_path, "a/b/other", 2.0)
    named = Named(frozenset({"w/w"}), frozenset({("a/b", "named")}))
    with pytest.raises(NoRoom, match=r"0.00 GiB are needed, .* store.quota_gib .* raise it"):
        room(tmp_path, 3, named, quota_mib=4)
    assert names(tmp_path) == ["a/b/named", "w/w/part"]


def test_what_an_abandoned_pull_left_counts_and_goes(tmp_path: Path) -> None:
    put(tmp_path, "a/b/begun", 1.0, 3, partial=True)
    assert kept(tmp_path)[0].bytes == 3 * MIB
    room(tmp_path, 2, quota_mib=4)
    assert names(tmp_path) == []


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[list[Path]]:
    """Files that another process has open, maps, or pulls."""
    files = [put(tmp_path, f"a/b/{name}", 1.0) for name in ("open", "mapped")]
    files.append(put(tmp_path, "a/b/pulled", 1.0, partial=True))
    script = (
        "import mmap, sys\nfrom pathlib import Path\n"
        "a = open(sys.argv[1]); p = open(sys.argv[3], 'a')\n"
        "with open(sys.argv[2], 'rb') as f: m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)\n"
        "print('up', flush=True); sys.stdin.read()"
    )
    arguments = [str(files[0]), str(files[1]), str(partial_of(files[2], "abcd"))]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield files
        holder.communicate()


def test_what_a_process_has_open_or_maps_or_pulls_stays(tmp_path: Path, opened: list[Path]) -> None:
    put(tmp_path, "a/b/free", 2.0)
    assert set(opened) <= set(in_use(tmp_path))
    with pytest.raises(NoRoom):
        room(tmp_path, 4, quota_mib=4)
    assert names(tmp_path) == ["a/b/mapped", "a/b/open", "a/b/pulled"]


def test_a_file_behind_a_link_is_in_use_where_the_link_is(tmp_path: Path) -> None:
    models, other = tmp_path / "models", tmp_path / "other"
    put(other, "a/b/m", 1.0)
    put(other, "a/c/one", 1.0)
    (models / "a").mkdir(parents=True)
    (models / "a" / "linked").symlink_to(other / "a" / "b")
    (models / "a" / "d").mkdir()
    (models / "a" / "d" / "one").symlink_to(other / "a" / "c" / "one")
    with (models / "a/linked/m").open(), (models / "a/d/one").open():
        assert set(in_use(models)) == {models / "a/linked/m", models / "a/d/one"}
    assert in_use(models) == {}


def test_room_is_looked_for_on_the_disk_that_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path("/dev/shm")  # noqa: S108  # a disk of its own nearly everywhere
    models = tmp_path / "models"
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one disk alone")
    (models / "a").mkdir(parents=True)
    (models / "a" / "linked").symlink_to(other)

    def usage(path: Path) -> Usage:
        return Usage(0, 0, (100 if path.stat().st_dev == other.stat().st_dev else 1000) * MIB)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    nothing = Named(frozenset(), frozenset())
    here, there = {models / "a" / "b": 500 * MIB}, {models / "a" / "linked": 60 * MIB}
    make_room(models, 0, nothing, places=here)
    with pytest.raises(NoRoom, match=r"0\.10 GiB are free on the disk of .*linked"):
        make_room(models, 0, nothing, places=here | there)


def test_a_descriptor_that_closes_during_the_look_hides_no_other(tmp_path: Path) -> None:
    held = put(tmp_path, "a/b/held", 1.0)
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            for handle in [open(os.devnull) for _ in range(50)]:  # noqa: SIM115, PTH123
                handle.close()

    threads = [threading.Thread(target=open_and_close) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.01)
        with held.open():
            assert all(held in in_use(tmp_path) for _ in range(15))
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_what_is_needed_must_be_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 100 * MIB))
    models = tmp_path / "not" / "there"
    room(models, 36)
    with pytest.raises(NoRoom) as caught:
        room(models, 37)
    text = str(caught.value)
    assert "0.04 GiB are needed and 0.10 GiB are free on the disk of" in text
    assert "`fairlane models rm MODEL`, or set store.dir" in text


def test_last_use_is_the_latest_of_all_its_witnesses(tmp_path: Path) -> None:
    path = put(tmp_path, "a/b/m", 5.0)
    assert kept(tmp_path) == [Kept("a/b", "m", path, MIB, 5.0)]
    os.utime(path, (9.0, 1.0))
    assert kept(tmp_path)[0].used_at == 9.0
    now = time.time()
    os.utime(record_of(path), (now, now))
    assert kept(tmp_path)[0].used_at == pytest.approx(now)
