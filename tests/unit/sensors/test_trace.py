"""Traces: what is recorded is played again, and what a hand wrote is judged."""

import io
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from support.amd_tree import plant
from workers.sensors.collector import Collector
from workers.sensors.specs import SPECS
from workers.sensors.trace import BadTrace, Player, parse, record


def play(folder: Path, text: bytes) -> Player:
    file = folder / "trace"
    file.write_bytes(text)
    return Player(file.open("rb"))


def test_what_was_recorded_is_played_as_it_was(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path, "hot"))
    seconds = [collector.collect(100.0 + n) for n in range(3)]
    collector.close()
    player = play(tmp_path, b"".join(record(one, 5.0) for one in seconds))
    assert [player.collect(200.0 + n) for n in range(3)] == seconds
    assert player.collect(203.0) is None
    player.close()


def test_a_line_has_every_field_of_every_reading(tmp_path: Path) -> None:
    collector = Collector(plant(tmp_path))
    line = msgspec.json.decode(record(collector.collect(1.0), 5.5))
    collector.close()
    assert line["at"] == 5.5
    assert [one["name"] for one in line["readings"]] == list(SPECS)
    fields = {"name", "value", "unit", "source", "label", "age_s", "valid", "reason"}
    assert {frozenset(one) for one in line["readings"]} == {frozenset(fields)}


def test_a_line_by_hand_needs_names_and_values_and_is_judged(tmp_path: Path) -> None:
    trace = b"""
        {"readings": [{"name": "tctl", "value": 96}, {"name": "gpu_edge", "value": 0},
                      {"name": "npu_state", "value": "D0"}]}
        {"readings": []}
        {"readings": [{"name": "tctl", "value": 65535}]}
    """.replace(b"},\n", b"},")
    player = play(tmp_path, trace)
    told = [
        {one.name: (one.value, one.reason) for one in player.collect(n) or []} for n in range(3)
    ]
    assert told[0]["tctl"] == (96.0, "")
    assert told[0]["gpu_edge"] == (None, "zero")
    assert told[0]["npu_state"] == ("D0", "")
    assert told[0]["uptime"] == (None, "missing")
    assert told[1]["tctl"] == (None, "missing")
    assert told[2]["tctl"] == (None, "65535")
    player.close()


def test_a_value_that_is_said_not_to_be_valid_is_none(tmp_path: Path) -> None:
    player = play(tmp_path, b'{"readings": [{"name": "tctl", "value": 96, "valid": false}]}')
    (tctl,) = [one for one in player.collect(1.0) or [] if one.name == "tctl"]
    assert (tctl.value, tctl.reason) == (None, "unreadable")
    player.close()


LINE = b'{"readings": [{"name": "tctl", "value": 70}]}\n'


@pytest.mark.parametrize("cut", [1, 10, len(LINE) - 2])
def test_a_last_line_that_was_cut_is_passed_over(cut: int) -> None:
    assert len(list(parse(io.BytesIO(LINE * 2 + LINE[:cut])))) == 2


def test_a_cut_line_anywhere_else_is_none() -> None:
    with pytest.raises(BadTrace, match="line 2"):
        list(parse(io.BytesIO(LINE + LINE[:10] + b"\n" + LINE)))


def test_a_long_trace_is_not_held_in_memory(tmp_path: Path) -> None:
    player = play(tmp_path, LINE * 20_000)
    tracemalloc.start()
    try:
        for second in range(2_000):
            player.collect(float(second))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
        player.close()


def test_a_trace_that_freezes_is_frozen(tmp_path: Path) -> None:
    line = b'{"readings": [{"name": "tctl", "value": 70}, {"name": "socket_power", "value": %d}]}\n'
    player = play(tmp_path, b"".join(line % (20 + 60 * (n % 2)) for n in range(62)))
    reasons = [
        {one.name: one.reason for one in player.collect(float(n)) or []}["tctl"] for n in range(62)
    ]
    assert reasons == [""] * 60 + ["frozen"] * 2
    player.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "holds no line"),
        (b"\n \n", "holds no line"),
        (b'{"readings": []}\n{"readings": 5}', "line 2"),
        (
            b'{"readings": [{"name": "ghost", "value": 1}]}',
            "line 1: there is no reading named 'ghost'",
        ),
        (b'{"readings": [{"value": 1}]}', "line 1"),
        (b"\xff\xfe", "line 1"),
        (b"[" * 100_000, "line 1"),
        (b" " * 2_000_000 + b"{}", "line 2"),
        (b'{"readings": [{"name": "tctl", "value": NaN}]}', "line 1"),
    ],
)
def test_what_is_no_trace_says_where(text: bytes, why: str) -> None:
    with pytest.raises(BadTrace, match=why):
        list(parse(io.BytesIO(text)))
