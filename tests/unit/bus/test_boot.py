"""Which start of the broker this is, also where that cannot be kept."""

from pathlib import Path

from scheduler.bus.broker import next_boot
from scheduler.core import Appliance, Limits
from scheduler.core import effects as fx
from scheduler.core import events as ev
from scheduler.wire import messages as wire
from scheduler.wire.codec import decode, encode
from support.stand import catalogue


def test_each_start_is_counted(tmp_path: Path) -> None:
    assert [next_boot(tmp_path) for _ in range(3)] == [1, 2, 3]


def test_a_state_directory_that_is_a_file_stops_nothing(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.touch()
    assert next_boot(file) > 1_000_000_000


def test_a_worker_can_be_told_its_epoch_where_the_wall_clock_stands_in(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.touch()
    core = Appliance(catalogue(), Limits(), boot=next_boot(file), at=0.0)
    ready = ev.WorkerReady(0.0, b"w", "hrx0", "hrx", "hrx0", 1, 1.0, "n", 1, "test")
    admitted = next(e for e in core.handle(ready) if isinstance(e, fx.Admit))
    welcome = wire.Welcome(admitted.epoch, 1.0, core.boot)
    assert decode(encode(welcome)) == welcome
