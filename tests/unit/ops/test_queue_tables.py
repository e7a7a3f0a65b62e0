"""The queue on a terminal."""

import io

import pytest
from rich.console import Console

from ops.queue_tables import tables
from support.stand import Stand


def shown(stand: Stand, wide: int = 140) -> str:
    """Return what is printed on a terminal of so many columns."""
    out = io.StringIO()
    Console(file=out, width=wide).print(tables(stand.core.queue(stand.now), wide))
    return out.getvalue()


def test_holders_waiting_tickets_and_lanes_are_shown() -> None:
    stand = Stand(weights={"one": 2.0})
    worker = stand.worker()
    stand.beat(worker, ["M", "N"])
    stand.run("holds", lane="one", max_tokens=1530)
    stand.wait(30.0, worker)
    stand.ask("waits", "N", lane="two", batch=True)
    lines = [" ".join(line.split()) for line in shown(stand).splitlines()]
    assert lines[0] == "1 of at most 256 waiting (a lane: at most 64), 1 running"
    assert "hrx0: test, 1 of 1 seats held, nothing measured of late" in lines
    assert "npu0: no worker, 0 of 0 seats held, nothing measured of late" in lines
    assert "runs one M 30.0 s 70.0 s holds" in lines
    assert "1 two (batch) N 0 ms 70.0 s waits" in lines
    assert "one 0 1 100.0% 2 30.0" in lines


def test_what_is_not_placed_yet_is_shown() -> None:
    stand = Stand()
    stand.scorer()
    stand.ask("a", "auto")
    assert "not placed yet" in shown(stand)


def test_a_lane_named_like_markup_is_a_name() -> None:
    stand = Stand()
    stand.worker()
    stand.run(lane="[red]x[/red]")
    assert "[red]x[/red]" in shown(stand)


@pytest.mark.parametrize("wide", [72, 80, 140])
def test_a_ticket_is_a_line_and_its_id_is_whole(wide: int) -> None:
    stand = Stand()
    stand.worker()
    rid = "req-" + "7" * 32
    stand.run(rid, lane="a-lane-with-a-long-name" * 3)
    text = shown(stand, wide)
    (line,) = [line for line in text.splitlines() if "runs" in line]
    assert rid in line
    assert all(len(line) <= wide for line in text.splitlines())


def test_a_narrow_terminal_folds_an_id_and_cuts_none() -> None:
    stand = Stand()
    stand.worker()
    rid = "req-" + "7" * 32
    stand.run(rid, lane="a-lane-with-a-long-name")
    lines = shown(stand, 40).splitlines()
    assert all(len(line) <= 40 for line in lines)
    first = next(at for at, line in enumerate(lines) if "req-" in line)
    start = lines[first].index("req-")
    assert "".join(line[start:].strip() for line in lines[first : first + 4]).startswith(rid)
