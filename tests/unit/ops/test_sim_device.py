"""The modelled device: what it does is counted by hand here."""

import pytest

from ops.sim.clock import Loop
from ops.sim.device import DeviceSpec, ModelDevice
from ops.sim.job import Job, Result, Service


class Notes:
    """A holder that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.results: dict[int, Result] = {}

    def staged(self, job: Job, stage: str) -> None:
        self.told.append((stage, job.number))

    def produced(self, job: Job, load_s: float | None) -> None:
        self.told.append(("first", job.number))

    def finished(self, job: Job, result: Result) -> None:
        self.told.append(("end", job.number))
        self.results[job.number] = result


class Bench:
    """A device of 100 prompt and 10 output tokens a second, and rows that load in 5 s."""

    def __init__(self, **spec: object) -> None:
        self.loop, self.notes = Loop(), Notes()
        base: dict[str, object] = {
            "kind": "hrx",
            "load_s": {"a": 5.0, "b": 5.0},
            "loaded": "a",
            "prefill_per_s": 100.0,
            "decode_per_s": 10.0,
        }
        self.device = ModelDevice(DeviceSpec(**(base | spec)), self.loop, self.notes)  # type: ignore[arg-type]  # checked by use
        self.numbers = 0

    def start(
        self, prompt: int, output: int, row: str = "a", conversation: str = "", lane: str = "x"
    ) -> Job:
        """Begin a job now."""
        self.numbers += 1
        job = Job(
            self.numbers, lane, row, False, conversation, True, prompt, output, output, True,
            self.loop.now, 1e9, 0,
        )  # fmt: skip
        self.device.start(job, row)
        return job

    @property
    def log(self) -> list[Service]:
        return self.device.log


def test_a_job_lasts_its_prefill_and_its_decoding() -> None:
    bench = Bench()
    bench.start(200, 30)
    bench.loop.run(10)
    (entry,) = bench.log
    assert (entry.start, entry.end) == pytest.approx((0.0, 5.0))
    assert entry.device_s == pytest.approx(5.0)
    assert entry.useful_s == pytest.approx(5.0)
    assert bench.notes.told == [("first", 1), ("end", 1)]
    assert bench.notes.results[1].ttft_s == pytest.approx(2.1)  # prefill and one token


def test_another_row_is_loaded_first_and_its_time_is_no_goodput() -> None:
    bench = Bench()
    bench.start(100, 10, "b")
    bench.loop.run(20)
    (entry,) = bench.log
    assert entry.end == pytest.approx(7.0)
    assert entry.device_s == pytest.approx(7.0)
    assert entry.useful_s == pytest.approx(2.0)
    assert bench.notes.told[0] == ("load", 1)
    assert bench.notes.results[1].load_s == 5.0
    assert bench.device.loads == [(0.0, "b")]


def test_jobs_share_the_device_and_their_parts_sum_up_to_its_busy_time() -> None:
    bench = Bench(seats=2)
    bench.start(0, 40)
    bench.loop.run(2)  # 2 of its 4 s done
    bench.start(0, 10)  # 1 s of work: both run at half speed
    bench.loop.run(20)
    short, long = bench.log
    assert (short.start, short.end) == pytest.approx((2.0, 4.0))
    assert long.end == pytest.approx(5.0)
    assert short.device_s == pytest.approx(1.0)
    assert long.device_s == pytest.approx(4.0)


def test_jobs_at_once_get_more_done_where_the_device_batches() -> None:
    bench = Bench(seats=2, batching=1.0)
    bench.start(0, 40)
    bench.start(0, 40)
    bench.loop.run(20)
    assert [entry.end for entry in bench.log] == pytest.approx([4.0, 4.0])
    assert sum(entry.device_s for entry in bench.log) == pytest.approx(4.0)


def test_a_throttled_device_takes_longer_from_that_instant_on() -> None:
    bench = Bench(rates=((2.0, 0.5), (6.0, 1.0)))
    bench.start(0, 60)  # 6 s of work: 2 s, then 4 s at half rate, then 2 s
    bench.loop.run(20)
    assert bench.log[0].end == pytest.approx(8.0)


def test_the_next_turn_finds_its_prefix_where_its_slot_was_kept() -> None:
    bench = Bench()
    bench.start(100, 10, conversation="k")
    bench.loop.run(5)
    bench.start(210, 10, conversation="k")  # 110 of it lie in the slot
    bench.loop.run(10)
    assert bench.notes.results[2].cached_tokens == 110
    assert bench.log[1].end - bench.log[1].start == pytest.approx(2.0)
    assert bench.log[1].useful_s == pytest.approx(2.0)


def test_a_prefix_that_lost_its_slot_is_computed_again_and_that_is_no_goodput() -> None:
    bench = Bench()
    bench.start(100, 10, conversation="k")
    bench.loop.run(5)
    bench.start(100, 10, conversation="other")
    bench.loop.run(10)
    bench.start(210, 10, conversation="k")
    bench.loop.run(20)
    last = bench.log[2]
    assert bench.notes.results[3].cached_tokens == 0
    assert last.device_s == pytest.approx(3.1)
    assert last.useful_s == pytest.approx(2.0)  # 100 tokens seen first, 10 decoded


def test_loading_another_row_empties_all_slots() -> None:
    bench = Bench(seats=2)
    bench.start(100, 10, conversation="k")
    bench.loop.run(5)
    bench.start(100, 10, "b")
    bench.loop.run(20)
    bench.start(210, 10, conversation="k")
    bench.loop.run(40)
    assert bench.notes.results[3].cached_tokens == 0


def test_a_halted_job_lets_go_of_its_seat_soon_and_was_no_goodput() -> None:
    bench = Bench(halt_s=0.25)
    job = bench.start(0, 100)
    bench.loop.run(3)
    bench.device.halt(job)
    bench.loop.run(20)
    (entry,) = bench.log
    assert entry.end == pytest.approx(3.25)
    assert not entry.whole
    assert entry.useful_s == 0.0
    assert bench.notes.results[1].cancelled


def test_a_seat_that_is_not_there_cannot_be_given() -> None:
    bench = Bench()
    bench.start(0, 10)
    with pytest.raises(ValueError, match="no seat"):
        bench.start(0, 10)


def test_the_end_of_a_run_writes_down_what_was_done_so_far() -> None:
    bench = Bench()
    bench.start(0, 100)
    bench.loop.run(3)
    bench.device.close()
    assert bench.log[0].device_s == pytest.approx(3.0)
    assert not bench.log[0].whole
