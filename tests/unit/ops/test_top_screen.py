"""`fairlane top`, one instant of it."""

import io

import pytest
from rich.console import Console

from ops.top_screen import Top
from support.stand import Stand


def screen(top: Top, stand: Stand, wide: int, high: int | None = None) -> list[str]:
    """Return the lines of a screen of that size; without a height all there is."""
    console = Console(file=io.StringIO(), width=wide, height=high or 25)
    view = stand.core.live(stand.now)
    with console.capture() as shown:
        console.print(top.take(view, console, whole=high is None))
    return shown.get().splitlines()


def lines(top: Top, stand: Stand) -> list[str]:
    """Return all lines of a wide screen, blanks within them reduced to one."""
    return [" ".join(line.split()) for line in screen(top, stand, 160)]


def crowd(stand: Stand) -> None:
    """Let forty lanes with long names wait, beside some that ended."""
    for n in range(6):
        stand.finish(stand.run(f"before{n}", lane=f"past-{n}"))
    stand.run("first", lane="holder")
    for n in range(40):
        stand.ask(f"req-{n:032}", lane=f"{n:02}-{'long' * 15}")


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
    assert any(line.startswith("runs one by name M 2.0 s") for line in seen)
    assert any(line.startswith("1 two by name M 2.0 s") for line in seen)
    assert "2.0 s past by name M hrx answered 0 ms 0 ms" in seen
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
    assert any("and 22 more wait" in line for line in lines(Top(), stand))


@pytest.mark.parametrize("wide", [40, 80, 200])
@pytest.mark.parametrize("high", [24, 50])
def test_a_crowd_fits_the_terminal_and_each_device_is_seen(wide: int, high: int) -> None:
    stand = Stand()
    stand.worker()
    crowd(stand)
    seen = screen(Top(), stand, wide, high)
    assert len(seen) <= high
    assert all(len(line) <= wide for line in seen)
    assert [line for line in seen if line.startswith("npu0: ")]
    held = next(n for n, line in enumerate(seen) if line.startswith("hrx0: "))
    assert seen[held + 2].startswith("runs  holder")
    assert seen[held + 3].startswith("1     00-long")  # one line a ticket
    assert any("more wait" in line for line in seen)


def test_a_higher_terminal_shows_more() -> None:
    stand = Stand()
    stand.worker()
    crowd(stand)
    low, high = (screen(Top(), stand, 80, rows) for rows in (24, 60))
    assert not any("workers and models" in line for line in low)
    assert any("workers and models" in line for line in high)


def test_times_are_whole_however_narrow_it_is() -> None:
    stand = Stand()
    stand.worker()
    crowd(stand)
    stand.now += 61.0
    first = next(line for line in screen(Top(), stand, 40, 30) if line.startswith("1     00-"))
    assert "61 s" in first.replace("61.0 s", "61 s")


def test_a_ticket_of_the_lower_priority_says_so() -> None:
    stand = Stand()
    stand.worker()
    stand.run("a")
    stand.ask("b", lane="two", batch=True)
    assert any(line.startswith("1 two (batch) ") for line in lines(Top(), stand))


def test_a_pull_is_shown_with_who_waits_for_it() -> None:
    stand = Stand()
    stand.worker()
    stand.stocked(stand.store(), N="missing", M="ready")
    stand.ask("a", "N")
    assert "N 0 MiB 0 ms 1" in lines(Top(), stand)
