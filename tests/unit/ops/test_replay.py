"""`fairlane replay` finds a core that decides otherwise, and says where and how."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ops.cli import main
from ops.replay import replay
from scheduler.bus.segment import frame
from support.journals import newest, served


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A segment of four conversations: 2 workers, then 3 events each."""
    served(tmp_path, 4)
    return newest(tmp_path)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def test_a_core_that_decides_the_same_is_told_so(segment: Path) -> None:
    shown = run(segment)
    assert (shown.exit_code, "the same on every event" in shown.output) == (0, True)
    report = replay(segment)
    assert (report.events, report.decisions, report.placements, report.answers) == (14, 4, 4, 4)
    assert report.span_s == pytest.approx(2.0)


def test_it_stops_where_it_is_told_to(segment: Path) -> None:
    report = replay(segment, until=5)
    assert (report.events, report.placements, report.is_clean) == (5, 1, True)


def rewrite(segment: Path, number: int, change: Callable[[list[Any]], None]) -> None:
    """Change what a segment says was decided on one event; the rest stays as it was written."""
    data, at, seen = segment.read_bytes(), 4, -2  # the first two frames are header and checkpoint
    parts = [data[:at]]
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        payload = data[at + 8 : at + 8 + length]
        seen += 1
        if seen == number:
            (entry,) = msgspec.msgpack.decode(payload)  # the stand writes one event a burst
            change(entry[1])
            payload = msgspec.msgpack.encode([entry])
        parts.append(frame(payload))
        at += 8 + length
    segment.write_bytes(b"".join(parts))


def test_the_first_difference_is_named_with_both_sides(segment: Path) -> None:
    def elsewhere(verdicts: list[Any]) -> None:
        grant = next(verdict for verdict in verdicts if verdict[0] == "dispatch")
        grant[-1] = "P"

    rewrite(segment, 7, elsewhere)
    difference = replay(segment).difference
    assert difference is not None
    assert (difference.number, difference.event) == (7, "Decided")
    assert (difference.expected[-1][-1], difference.got[-1][-1]) == ("P", "N")
    shown = run(segment)
    assert shown.exit_code == 1
    assert "DIFFERENT at event 7, Decided" in shown.output
    as_json = json.loads(run(segment, "--json").output)
    assert as_json["difference"]["number"] == 7
    assert replay(segment, until=6).is_clean


def test_a_decision_that_was_not_made_then_is_a_difference(segment: Path) -> None:
    rewrite(segment, 8, list.clear)
    shown = run(segment)
    assert (shown.exit_code, "expected  nothing" in shown.output) == (1, True)


def test_a_torn_tail_is_told_and_no_fault(segment: Path) -> None:
    segment.write_bytes(segment.read_bytes()[:-3])
    shown = run(segment)
    assert (shown.exit_code, "was not written whole" in shown.output) == (0, True)


def test_damage_is_a_fault(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[-300] ^= 1
    segment.write_bytes(data)
    shown = run(segment)
    assert (shown.exit_code, "DAMAGED" in shown.output) == (1, True)


def test_progress_is_told_of_big_files(tmp_path: Path) -> None:
    served(tmp_path, 1500)
    told: list[tuple[int, int]] = []
    replay(newest(tmp_path), progress=lambda done, total: told.append((done, total)))
    assert told
    assert 0 < told[0][0] < told[0][1] == newest(tmp_path).stat().st_size
