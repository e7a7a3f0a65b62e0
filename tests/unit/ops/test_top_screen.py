"""`fairlane top`, one instant of it."""

import io

from rich.console import Console

from ops.top_screen import Top
from support.stand import Stand


def lines(top: Top, stand: Stand) -> list[str]:
    """Return the screen's lines, blanks within them reduced to one."""
    out = io.StringIO()
    Console(file=out, width=160).print(top.take(stand.core.live(stand.now)))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_an_empty_box_fills_a_screen_with_what_it_does_not_know() -> None:
    seen = lines(Top(), Stand())
    assert (
        seen[0]
        == "Nobody holds hrx0, which has no worker. Nobody waits. Tctl is unknown (missing)."
    )
    assert "Tctl unknown (missing)" in seen
    assert "hrx0 held ? no worker" in seen
    assert "hrx0 none" in seen


def test_holder_queue_occupancy_landings_and_workers_are_shown() -> None:
    stand, top = Stand(), Top()
    worker = stand.worker()
    stand.beat(worker, ["M"])
    stand.finish(stand.run("before", lane="past"))
    stand.run("a", lane="one", max_tokens=1530)
    stand.ask("b", lane="two")
    lines(top, stand)
    stand.wait(2.0, worker)
    seen = lines(top, stand)
    assert seen[0].startswith("one has held hrx0 for 2.0 s. 1 waits, the last to start in ")
    assert "hrx0 held 100% █ held" in seen
    assert any(line.startswith("runs one interactive M a 2.0 s") for line in seen)
    assert any(line.startswith("1 two interactive M b 2.0 s") for line in seen)
    assert "2.0 s past M hrx by name answered 0 ms 0 ms" in seen
    assert any(line.startswith("hrx0 test 1 ") and line.endswith(" M") for line in seen)


def test_a_name_cannot_command_the_terminal() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a", lane="\x1b[2J[red]evil")
    seen = "\n".join(lines(Top(), stand))
    assert "\x1b" not in seen
    assert "\ufffd[2J[red]evil has held hrx0" in seen


def test_a_long_queue_is_cut_and_counted() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    for number in range(30):
        stand.ask(f"w{number}")
    assert any("and 22 more" in line for line in lines(Top(), stand))


def test_a_pull_is_shown_with_who_waits_for_it() -> None:
    stand = Stand()
    stand.worker()
    stand.stocked(stand.store(), N="missing", M="ready")
    stand.ask("a", "N")
    assert "N 0 MiB 0 ms 1" in lines(Top(), stand)
