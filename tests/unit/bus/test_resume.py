"""Going on from what the broker before wrote down, whatever became of it."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.bus.journal import Journal, segments
from scheduler.bus.processes import started_at
from scheduler.bus.segment import Header, Reader, beginning, shape
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.settings import Journal as Conf
from support.journals import KERNEL, WrittenStand, actions, go_on, newest, served
from support.stand import kinds


def asked(at: float, conversation: str, lane: str = "lane") -> ev.Asked:
    return ev.Asked(
        at, b"c", "next turn", "chat", "auto", lane, conversation, False, False, False, at + 60, 0,
        None, False, False, False, b"{}",
    )  # fmt: skip


def view(core: Appliance, at: float) -> dict[str, object]:
    shown = core.snapshot(at)
    return {name: shown[name] for name in ("boot", "conversations", "counts", "devices")}


def test_a_bound_conversation_is_not_decided_again(tmp_path: Path) -> None:
    stand = served(tmp_path, 3)
    core = go_on(tmp_path, stand.now)
    assert core is not None
    effects = core.handle(asked(stand.now + 1, "talk 1"))
    place = next(e for e in effects if isinstance(e, fx.Place))
    assert (place.rule, place.model, place.class_, place.decision) == (
        "laya-code",
        "N",
        "code",
        b"{D}",
    )
    assert place.decide_ms is None
    assert "AskHelper" not in kinds(effects)


def test_another_lane_does_not_meet_the_binding(tmp_path: Path) -> None:
    stand = served(tmp_path, 1)
    core = go_on(tmp_path, stand.now)
    assert core is not None
    assert kinds(core.handle(asked(stand.now + 1, "talk 0", "other"))) == []  # waits for a scorer


def test_counters_accounts_costs_and_stories_go_on(tmp_path: Path) -> None:
    stand = served(tmp_path, 5)
    before = stand.core.snapshot(stand.now)
    core = go_on(tmp_path, stand.now)
    assert core is not None
    after = core.snapshot(stand.now)
    assert after["counts"] == before["counts"] | {"restarts": 1}  # type: ignore[operator]  # a view
    assert after["devices"]["hrx0"]["served_s"] == before["devices"]["hrx0"]["served_s"]  # type: ignore[index]
    assert after["devices"]["hrx0"]["busy_s"] == before["devices"]["hrx0"]["busy_s"]  # type: ignore[index]
    assert core.freeze().costs == stand.core.freeze().costs
    assert core.freeze().costs.habits["N"].tickets == 5
    assert core.story("r3") == stand.core.story("r3")


def test_tickets_and_workers_do_not_go_on_and_their_charge_is_given_back(tmp_path: Path) -> None:
    stand = served(tmp_path, 2)
    stand.journal = Journal(tmp_path, Conf(), stand.core, KERNEL)
    paid = stand.core.snapshot(stand.now)["devices"]["hrx0"]["served_s"]  # type: ignore[index]
    stand.ask("running", "N")
    stand.ask("waiting", "N")
    core = go_on(tmp_path, stand.now + 1)
    assert core is not None
    device = core.snapshot(stand.now + 1)["devices"]["hrx0"]  # type: ignore[index]
    assert (device["worker"], device["holders"], device["waiting"]) == (None, [], 0)
    assert device["served_s"] == paid
    for rid in ("running", "waiting"):
        story = core.story(rid)
        assert story is not None
        assert story[-1][1:] == ("ended", "broker_restarted")


def test_a_worker_of_the_old_broker_is_told_to_register_again(tmp_path: Path) -> None:
    stand = served(tmp_path, 1)
    core = go_on(tmp_path, stand.now)
    assert core is not None
    beat = ev.WorkerBeat(stand.now, b"hrx", stand.epochs[b"hrx"], [])
    assert kinds(core.handle(beat)) == ["Expel"]
    ready = ev.WorkerReady(stand.now, b"hrx", "hrx0", "hrx", "hrx0", 1, 1.0, "n", 1, "test")
    admitted = next(e for e in core.handle(ready) if isinstance(e, fx.Admit))
    assert admitted.epoch > max(stand.epochs.values())


def test_the_boot_grows_also_where_its_counter_was_lost(tmp_path: Path) -> None:
    stand = served(tmp_path, 1, boot=41)
    core = go_on(tmp_path, stand.now, boot=1)
    assert core is not None
    assert core.boot == 42


def test_settings_in_force_now_are_obeyed(tmp_path: Path) -> None:
    stand = served(tmp_path, 5)
    core = go_on(tmp_path, stand.now, limits=Limits(bindings=2, bindings_per_lane=2))
    assert core is not None
    assert core.snapshot(stand.now)["conversations"] == 2
    assert "Place" in kinds(core.handle(asked(stand.now + 1, "talk 4")))  # the youngest are kept


def test_after_a_start_of_the_machine_idle_times_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = served(tmp_path, 0)
    stand.journal = Journal(tmp_path, Conf(), stand.core, KERNEL)
    with Reader(newest(tmp_path)) as reader:
        header = reader.header
    # events of the stand stand at about 100 s of its clock; the header was written by the real one
    stand.now = header.monotonic + 1.0
    stand.serve(0)
    used_at = stand.now - 0.5
    monkeypatch.setattr(time, "time", lambda: header.wall + 601.0)  # 600 s after the turn
    core = go_on(tmp_path, 50.0, kernel="another start")  # whose clock reads 50 s
    assert core is not None
    kept = core.freeze().bindings.lanes["lane"][0]["talk 0"]
    assert 50.0 - kept.used_at == pytest.approx(header.monotonic + 601.0 - used_at, abs=0.01)
    story = core.story("r0")
    assert story is not None
    assert story[-1][0] < 50.0


def test_a_wall_clock_that_was_set_back_puts_nothing_into_the_future(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = served(tmp_path, 1)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    core = go_on(tmp_path, 50.0, kernel="another start")
    assert core is not None
    assert core.freeze().bindings.lanes["lane"][0]["talk 0"].used_at <= 50.0
    assert stand.now > 50.0


def test_an_empty_folder_is_a_first_start(tmp_path: Path) -> None:
    assert go_on(tmp_path, 0.0) is None
    assert go_on(tmp_path / "none", 0.0) is None


def test_a_torn_tail_is_no_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stand = served(tmp_path, 3)
    file = newest(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    core = go_on(tmp_path, stand.now)
    assert core is not None
    assert core.snapshot(0.0)["conversations"] == 3
    assert actions(caplog) == []
    assert segments(tmp_path) == [file]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: b"something else",
        lambda data: data[:60],
        lambda data: data[:3] + b"\xff" + data[4:],
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    ],
    ids=["empty", "foreign", "torn", "newer", "flipped"],
)
def test_a_bad_segment_is_moved_aside_and_the_one_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[bytes], bytes]
) -> None:
    stand = served(tmp_path, 3)
    Journal(tmp_path, Conf(), stand.core, KERNEL).close()
    second = Journal(tmp_path, Conf(), WrittenStand(tmp_path / "x", boot=2).core, KERNEL)
    second.close()
    bad = newest(tmp_path)
    assert bad.name == "journal-2-1"
    bad.write_bytes(spoil(bad.read_bytes()))
    core = go_on(tmp_path, stand.now)
    assert core is not None
    assert core.snapshot(0.0)["conversations"] == 3
    assert actions(caplog) == ["journal_bad"]
    assert (tmp_path / "journal-2-1.bad").exists()
    assert not bad.exists()


def test_damage_in_the_middle_costs_what_comes_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand = served(tmp_path, 6)
    file = newest(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[:-900] + bytes([data[-900] ^ 1]) + data[-899:])
    core = go_on(tmp_path, stand.now)
    assert core is not None
    assert 0 < core.snapshot(0.0)["conversations"] < 6  # type: ignore[operator]  # a view
    assert actions(caplog) == ["journal_bad"]


def test_events_the_core_stumbles_over_stop_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand = served(tmp_path, 1)
    journal = Journal(tmp_path, Conf(), stand.core, KERNEL)
    # finishing a ticket whose worker the roster does not hold is refused; this one breaks the books
    broken = stand.core.freeze()
    broken.devices["hrx"].active.append(999)
    header = Header(shape=shape(), boot=1, number=9, kernel=KERNEL, wall=0.0, monotonic=0.0)
    (tmp_path / "journal-1-9").write_bytes(beginning(header, broken))
    journal.close()
    core = go_on(tmp_path, stand.now)
    assert core is not None
    assert actions(caplog) == ["journal_bad"]
    assert core.snapshot(0.0)["conversations"] == 1


def test_clocks_and_boots_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    stand = served(tmp_path / "x", 1)
    for number, (boot, wall) in enumerate([(1, float("nan")), (2**40, 0.0), (-1, 0.0)]):
        header = Header(
            shape=shape(), boot=boot, number=1, kernel="other", wall=wall, monotonic=0.0
        )
        (tmp_path / f"journal-1-{number}").write_bytes(beginning(header, stand.core.freeze()))
    assert go_on(tmp_path, 1.0) is None
    assert len(list(tmp_path.glob("*.bad"))) == 3


def test_accounts_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    frozen = served(tmp_path / "x", 1).core.freeze()
    frozen.devices["hrx"].queue.tags.flows[0].finish = float("nan")
    header = Header(shape=shape(), boot=1, number=1, kernel=KERNEL, wall=0.0, monotonic=0.0)
    (tmp_path / "journal-1-1").write_bytes(beginning(header, frozen))
    assert go_on(tmp_path, 1.0) is None
    assert (tmp_path / "journal-1-1.bad").exists()


def test_bad_ones_are_bounded_too(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"journal-1-{number}").write_bytes(b"x")
    assert go_on(tmp_path, 0.0) is None
    assert len(list(tmp_path.iterdir())) == 8


def test_a_folder_that_cannot_be_read_is_a_first_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert go_on(tmp_path / "file", 0.0) is None


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """A program of an outside lane, in a process group of its own."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def holding(stand: WrittenStand, pid: int) -> None:
    """Let a program of the outside hold the iGPU."""
    stand.send(
        ev.HoldAsked(
            stand.now, b"holder", "h", "outside", "hrx0", False, stand.now + 600, 600.0, 0,
            pid, pid, started_at(pid), "a benchmark", 0,
        )
    )  # fmt: skip


def holders(core: Appliance, at: float) -> list[str]:
    shown = core.outside(at)["hrx0"]
    return [one["id"] for one in shown["holders"]]  # type: ignore[index]  # a view


def test_a_program_that_lives_keeps_its_device(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    stand = WrittenStand(tmp_path)
    holding(stand, program.pid)
    core = go_on(tmp_path, stand.now + 5.0)
    assert core is not None
    assert holders(core, stand.now + 5.0) == ["h"]
    core.handle(ev.WorkerReady(stand.now + 6, b"w", "hrx0", "hrx", "hrx0", 1, 1.0, "n", 1, "test"))
    effects = core.handle(asked(stand.now + 6, "talk"))
    assert "Dispatch" not in kinds(effects)  # nobody else has the device meanwhile


def test_a_program_that_ended_meanwhile_holds_nothing(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    stand = WrittenStand(tmp_path)
    holding(stand, program.pid)
    program.kill()
    program.wait()
    core = go_on(tmp_path, stand.now + 5.0)
    assert core is not None
    assert holders(core, stand.now + 5.0) == []


def test_after_a_start_of_the_machine_nobody_holds(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    stand = WrittenStand(tmp_path)
    holding(stand, program.pid)
    core = go_on(tmp_path, 5.0, kernel="another start")
    assert core is not None
    assert holders(core, 5.0) == []


def test_a_program_that_was_being_ended_is_ended_by_the_next_broker(
    tmp_path: Path, program: subprocess.Popen[bytes]
) -> None:
    stand = WrittenStand(tmp_path)
    holding(stand, program.pid)
    stand.lose_client(b"holder")
    core = go_on(tmp_path, stand.now + 1.0)
    assert core is not None
    kills: list[fx.Kill] = []
    while not kills:
        stand.now = core.next_deadline()
        kills += [e for e in core.handle(ev.Ticked(stand.now)) if isinstance(e, fx.Kill)]
    assert kills[0].pid == program.pid
    assert holders(core, stand.now) == ["h"]  # until it has ended
