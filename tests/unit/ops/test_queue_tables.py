"""The queue on a terminal."""

import io

from rich.console import Console

from ops.queue_tables import tables
from support.stand import Stand


def shown(stand: Stand) -> str:
    """Return what is printed."""
    out = io.StringIO()
    Console(file=out, width=140).print(tables(stand.core.queue(stand.now)))
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
    assert "runs one interactive M holds 30.0 s 70.0 s" in lines
    assert "1 two batch N waits 0 ms 70.0 s" in lines
    assert "one 2 0 1 30.0 100.0%" in lines


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
