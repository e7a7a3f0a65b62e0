"""The registry: what a crash or a damaged byte leaves of it, and that it never takes a file for another."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import workers
from support.pulling import DIGEST, gguf
from workers.store import records
from workers.store.layout import aside_of, fresh_of, own_files_of, record_of
from workers.store.records import FOUND, Record

REPO = "org/repo"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "m.gguf"
    made.write_bytes(gguf(tmp_path, kib=8))
    return made


def recall(file: Path) -> Record | None:
    return records.recall(file, REPO, file.name, "M")


def kept(file: Path, **other: object) -> Record:
    """Give a file a record as a pull leaves it."""
    plain = Record(
        REPO, file.name, 0, records.sha256_of(file), origin="http://hub", etag="e", at=7.0
    )
    record = msgspec.structs.replace(records.examine(file, plain), **other)
    records.write(file, record)
    return record


def alerts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.action for r in caplog.records if r.levelno >= logging.ERROR]  # type: ignore[attr-defined]  # ours


def test_a_record_is_read_as_it_was_written(file: Path) -> None:
    record = kept(file)
    assert record.templates == {"default": DIGEST}
    assert records.read(file) == records.whole(file) == recall(file) == record
    assert own_files_of(file) == [record_of(file), aside_of(record_of(file))]


def test_a_record_is_text_that_people_read(file: Path) -> None:
    record = kept(file)
    first, check, end = record_of(file).read_bytes().split(b"\n")
    assert json.loads(first)["sha256"] == record.sha256
    assert (len(check), end) == (8, b"")


def test_cut_at_every_byte_it_is_moved_aside_once_and_made_anew(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = kept(file)
    text = record_of(file).read_bytes()
    for length in range(len(text)):
        record_of(file).write_bytes(text[:length])
        caplog.clear()
        assert records.whole(file) is None  # a worker waits for the store's word
        made = recall(file)
        assert made is not None
        assert (made.sha256, made.bytes) == (record.sha256, record.bytes)
        assert (made.origin, made.templates) == (FOUND, record.templates)
        assert alerts(caplog) == ["record_unreadable"]
        assert aside_of(record_of(file)).read_bytes() == text[:length]
        assert recall(file) == made
        assert alerts(caplog) == ["record_unreadable"]


def test_a_byte_that_changed_anywhere_is_seen(file: Path) -> None:
    kept(file)
    text = record_of(file).read_bytes()
    dice = random.Random(5)
    for at in range(len(text)):
        changed = bytearray(text)
        changed[at] ^= dice.randrange(1, 256)
        record_of(file).write_bytes(changed)
        with pytest.raises(records.Unreadable):
            records.read(file)


@pytest.mark.parametrize("content", [b"[]\n", b"{}\n", b"null\n", b"\xff\n", b"\0" * 512])
def test_what_is_no_record_is_seen_though_its_checksum_fits(file: Path, content: bytes) -> None:
    import zlib

    text = content.partition(b"\n")[0]
    record_of(file).write_bytes(text + b"\n%08x\n" % zlib.crc32(text))
    with pytest.raises(records.Unreadable):
        records.read(file)
    made = recall(file)
    assert made is not None
    assert made.origin == FOUND


def test_a_file_without_a_record_is_found(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = recall(file)
    assert made is not None
    assert made.templates == {"default": DIGEST}
    assert records.whole(file) == made
    assert alerts(caplog) == []


def test_a_record_that_comes_while_its_file_is_read_is_the_one_that_counts(file: Path) -> None:
    plain = Record(REPO, file.name, file.stat().st_size, "00", origin="http://hub", etag="e")
    made = records.recall(file, REPO, file.name, "M", lambda: records.write(file, plain))
    assert made == records.read(file) == plain
    assert own_files_of(file) == [record_of(file), aside_of(record_of(file))]


@pytest.mark.parametrize("change", [-1, 1, -1000])
def test_a_file_of_another_length_than_recorded_is_not_taken_for_found(
    file: Path, change: int
) -> None:
    record = kept(file)
    content = file.read_bytes()
    file.write_bytes(content[:change] if change < 0 else content + b"x" * change)
    assert records.whole(file) is None
    assert recall(file) is None
    assert records.read(file) == record


def test_a_record_without_its_file_means_nothing(file: Path) -> None:
    kept(file)
    file.unlink()
    assert records.whole(file) is None
    assert recall(file) is None


def test_a_half_written_record_of_a_crash_is_in_nobodys_way(file: Path) -> None:
    record = kept(file)
    fresh_of(record_of(file)).write_bytes(b'{"half')
    record_of(file).with_name(f".{file.name}.json.1-2.new").write_bytes(b"{")
    assert recall(file) == record
    assert len(own_files_of(file)) == 4  # `remove` takes both along


def test_a_directory_where_the_record_should_be_is_moved_aside(file: Path) -> None:
    record_of(file).mkdir()
    made = recall(file)
    assert made is not None
    assert records.whole(file) == made


# One process that writes two forms of one record by turns, until it is killed.
_WRITER = """
import sys
from pathlib import Path
import msgspec
from workers.store import records
file = Path(sys.argv[1])
record = records.read(file)
print("up", flush=True)
while True:
    for model in ("A" * 900, "B"):
        records.write(file, msgspec.structs.replace(record, model=model))
"""


def test_killed_at_any_instant_the_record_is_of_before_or_of_after(file: Path) -> None:
    record = kept(file, model="B")
    forms = [record, msgspec.structs.replace(record, model="A" * 900)]
    environ = {**os.environ, "PYTHONPATH": str(Path(workers.__file__).parents[1])}
    drawn = random.Random(11)
    for _ in range(8):
        command = [sys.executable, "-c", _WRITER, str(file)]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            kill_at = time.monotonic() + drawn.random() * 0.05
            while time.monotonic() < kill_at:
                pass
            writer.send_signal(signal.SIGKILL)
        assert records.read(file) in forms


def test_a_pipe_in_the_place_of_a_record_keeps_nobody_waiting(file: Path) -> None:
    os.mkfifo(record_of(file))
    known = recall(file)
    assert known is not None
    assert (known.bytes, record_of(file).is_file()) == (file.stat().st_size, True)
