"""Disks that are full before a pull, and that fill up during one; and a quota."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.fakehub import FakeHub, Fault
from support.pulling import FILE, REPO, Puller, downloads, gguf, hub_row, reachable
from support.storehouse import StoreHouse
from support.wait import until
from workers.store import disk

GIB, MIB = 2**30, 2**20


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with FakeHub() as made, reachable(made.url, monkeypatch, tmp_path):
        yield made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let root mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_pull_that_cannot_fit_is_refused_before_its_first_byte(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    puller = Puller(tmp_path, hub_row())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 64 * MIB + 1000))
    ended = puller.pull()
    assert ended.cause == "pull_failed"
    assert f"{FILE} of {REPO}: 0.00 GiB are needed and 0.06 GiB are free" in ended.message
    assert "`fairlane models rm MODEL`, or set store.dir" in ended.message
    assert downloads(hub) == []
    monkeypatch.undo()
    with reachable(hub.url, monkeypatch, tmp_path):
        assert puller.pull().cause == ""


def test_pulls_that_run_together_do_not_count_the_same_room(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gguf(tmp_path)
    slow = Fault(rate=20_000)
    hub.put(REPO, FILE, content, slow)
    hub.put("org/two", FILE, gguf(tmp_path, seed=2))
    puller = Puller(tmp_path, hub_row("A"), hub_row("B", "org/two"))
    free = 64 * MIB + len(content) * 3 // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free))
    puller.ask("A")
    until(lambda: downloads(hub), "the first is on its way")
    ended = puller.pull("B")
    assert (ended.model, ended.cause) == ("B", "pull_failed")
    slow.rate = 0
    until(lambda: len(puller.ended) == 2, "the other")
    assert (puller.ended[1].model, puller.ended[1].cause) == ("A", "")


def test_a_disk_that_fills_up_ends_the_pull_and_keeps_what_came(
    hub: FakeHub, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gguf(tmp_path)
    hub.put(REPO, FILE, content)
    puller = Puller(small_disk, hub_row())
    # as if another program took the room after it was looked at
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, GIB))
    ended = puller.pull()
    assert ended.cause == "pull_failed"
    assert "is full (No space left on device); what has come is kept" in ended.message
    assert not puller.file().exists()
    (left,) = puller.file().parent.glob(".*.part")
    assert content.startswith(left.read_bytes())
    assert left.stat().st_size > 100_000
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    sent = hub.sent()
    kept = left.stat().st_size
    assert puller.pull().cause == ""
    assert puller.file().read_bytes() == content
    assert hub.sent() - sent == len(content) - kept


def test_a_limit_of_the_process_is_told_like_a_full_disk(tmp_path: Path) -> None:
    content = gguf(tmp_path)
    with FakeHub() as hub, StoreHouse(tmp_path / "models", hub.url, hub_row()) as house:
        hub.put(REPO, FILE, content)
        house.start()
        assert house.process is not None
        resource.prlimit(
            house.process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY)
        )
        house.fetch()
        ended = house.ended()
        assert ended.cause == "pull_failed"
        assert "is full (File too large)" in ended.message
        resource.prlimit(
            house.process.pid,
            resource.RLIMIT_FSIZE,
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
        )
        house.fetch()
        assert house.ended().cause == ""
        assert (tmp_path / "models" / REPO / FILE).read_bytes() == content


def test_a_directory_that_cannot_be_written_is_told(hub: FakeHub, tmp_path: Path) -> None:
    hub.put(REPO, FILE, gguf(tmp_path))
    (tmp_path / "models").write_text("a file where the directory should be")
    puller = Puller(tmp_path, hub_row())
    ended = puller.pull()
    assert ended.cause == "pull_failed"
    assert "cannot be written" in ended.message
    assert "or set store.dir to another directory" in ended.message


def test_over_the_quota_what_no_row_names_makes_room(hub: FakeHub, tmp_path: Path) -> None:
    sizes = {}
    for number, repo in enumerate(("org/old", "org/older", "org/new"), 1):
        content = gguf(tmp_path, seed=number)
        sizes[repo] = len(content)
        hub.put(repo, FILE, content)
    total = sum(sizes.values())
    quota = {"quota_gib": total * 0.8 / GIB}
    puller = Puller(tmp_path, hub_row("older", "org/older"), hub_row("old", "org/old"), **quota)
    assert puller.pull("older").cause == ""
    assert puller.pull("old").cause == ""
    ended = Puller(
        tmp_path, hub_row("older", "org/older"), hub_row("old", "org/old"), hub_row("new", "org/new"),
        **quota,
    ).pull("new")  # fmt: skip
    assert ended.cause == "pull_failed"
    assert "more than store.quota_gib" in ended.message
    newer = Puller(tmp_path, hub_row("new", "org/new"), **quota)
    assert newer.pull("new").cause == ""
    assert sorted(one.repo for one in disk.kept(newer.models)) == ["org/new", "org/old"]


def test_over_the_quota_what_is_being_pulled_stays(hub: FakeHub, tmp_path: Path) -> None:
    first, second = gguf(tmp_path, seed=1), gguf(tmp_path, seed=2)
    slow = Fault(rate=20_000)
    hub.put("org/slow", FILE, first, slow)
    hub.put("org/new", FILE, second)
    quota = {"quota_gib": len(first) * 1.5 / GIB}
    puller = Puller(tmp_path, hub_row("slow", "org/slow"), **quota)
    puller.ask("slow")
    until(lambda: downloads(hub), "it is on its way")
    puller.learn(hub_row("new", "org/new"))  # the table does not name it any more
    assert puller.pull("new").cause == "pull_failed"
    slow.rate = 0
    until(lambda: len(puller.ended) == 2, "the slow one")
    assert "the table changed" in puller.ended[1].message
    assert puller.file(repo="org/slow").read_bytes() == first
