"""The bytes of a segment: whatever they are, what is whole is read and the rest is told."""

import os
import random
import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from ops.replay import replay
from scheduler.bus import segment
from scheduler.bus.segment import BadSegment, Reader
from scheduler.core import events as ev
from support.journals import newest, served


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A segment of three conversations."""
    served(tmp_path, 3)
    return newest(tmp_path)


def frames(data: bytes) -> list[int]:
    """Return where each frame ends."""
    ends, at = [], 4
    while at < len(data):
        at += 8 + struct.unpack_from("<I", data, at)[0]
        ends.append(at)
    return ends


def test_no_text_of_a_request_or_an_answer_is_in_it(tmp_path: Path) -> None:
    stand = served(tmp_path, 0)
    stand.journal = type(stand.journal)(tmp_path, stand.conf, stand.core, "kernel")
    run = stand.run(body=b"the secret prompt")
    stand.produce(run, body=b"the secret piece")
    stand.finish(run, body=b"the secret answer")
    failing = stand.run("r2", body=b"the secret prompt")
    stand.send(
        ev.Failed(
            stand.now, failing.worker, stand.epochs[failing.worker], failing.ticket, failing.lease,
            500, "engine_failed", "cannot tokenize the secret prompt", {"text": "the secret prompt"},
        )
    )  # fmt: skip
    waiting = stand.ask("r3", body=b"the secret prompt")
    assert waiting
    stand.journal.tend(1e9)
    stand.core.freeze()
    stand.journal.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"engine_failed" in written
    assert b"secret" not in written


def test_only_this_user_may_read_it(whole: Path) -> None:
    assert whole.stat().st_mode & 0o777 == 0o600


def test_a_tail_torn_at_any_byte_costs_the_last_burst_alone(whole: Path) -> None:
    data = whole.read_bytes()
    ends = frames(data)
    assert ends[-1] == len(data)
    for cut in range(ends[-3], len(data)):
        whole.write_bytes(data[:cut])
        with Reader(whole) as reader:
            got = len(list(reader.events()))
            assert got == sum(end <= cut for end in ends) - 2  # less header and checkpoint
            assert (reader.is_damaged, reader.left) == (
                False,
                cut - max(e for e in ends if e <= cut),
            )


def test_a_segment_torn_before_its_first_event_is_refused(whole: Path) -> None:
    data = whole.read_bytes()
    for cut in range(0, frames(data)[1], 7):
        whole.write_bytes(data[:cut])
        with pytest.raises(BadSegment):
            Reader(whole)


def test_a_flipped_byte_is_found_wherever_it_is(whole: Path) -> None:
    data = whole.read_bytes()
    events = len(frames(data)) - 2
    for at in range(0, len(data), 11):
        whole.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        try:
            with Reader(whole) as reader:
                assert len(list(reader.events())) < events
                assert reader.left > 0
        except BadSegment:
            assert at < frames(data)[1]


def test_zeros_of_a_dead_disk_are_damage(whole: Path) -> None:
    whole.write_bytes(whole.read_bytes() + bytes(4096))
    report = replay(whole)
    assert (report.difference, report.damaged_bytes, report.is_clean) == (None, 4096, False)


@pytest.mark.parametrize("seed", range(5))
def test_hostile_bytes_raise_nothing_else(whole: Path, seed: int) -> None:
    noise = random.Random(seed)
    data = whole.read_bytes()
    head = data[: frames(data)[1]]
    for _ in range(40):
        payload = noise.choice(
            [noise.randbytes(noise.randrange(1, 200)), b"\x91" * 5000, b"\xdf\xff\xff\xff\xff",
             msgspec.msgpack.encode([[["Ticked", "now"], []]]), msgspec.msgpack.encode([[["Nope"], []]])]
        )  # fmt: skip
        frame = struct.pack("<II", len(payload), zlib.crc32(payload)) + payload
        for start in (b"FLJ\x02", head):
            whole.write_bytes(start + frame)
            with pytest.raises(BadSegment), Reader(whole) as reader:
                list(reader.entries())


def test_another_version_is_refused_with_the_remedy(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "shape", lambda: "0123456789ab")
    with pytest.raises(BadSegment, match=r"another version .* use the version that wrote it"):
        Reader(whole)


def test_another_format_is_refused_with_the_remedy(whole: Path) -> None:
    data = whole.read_bytes()
    whole.write_bytes(data[:3] + b"\x63" + data[4:])
    with pytest.raises(BadSegment, match=r"format 99-.* use the version that wrote it"):
        Reader(whole)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "journal-1-1"
    os.mkfifo(pipe)
    with pytest.raises(BadSegment, match=r"no file"):
        Reader(pipe)
