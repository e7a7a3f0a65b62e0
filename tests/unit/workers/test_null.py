"""The engine that answers with a constant."""

import os
import queue
import time
from pathlib import Path

import pytest

from workers.job import End, Job, Outcome, Piece
from workers.null import REPLY, NullEngine


def job(lease: int = 5, *, stream: bool = False) -> Job:
    return Job(lease, "chat", "M", stream, "k", b"{}")


def test_it_answers_at_once() -> None:
    said: list[Outcome] = []
    NullEngine(1).start(job(), said.append)
    assert said == [End(5, REPLY, output_tokens=1)]


def test_a_stream_is_one_piece() -> None:
    said: list[Outcome] = []
    NullEngine(1).start(job(stream=True), said.append)
    assert [type(each) for each in said] == [Piece, End]


def test_a_held_seat_is_written_down_until_the_answer(tmp_path: Path) -> None:
    log, said = tmp_path / "log", queue.SimpleQueue[Outcome]()
    engine = NullEngine(1, hold_s=0.2, log=str(log))
    began_at = time.monotonic()
    for lease in (1, 2, 3):
        engine.start(job(lease), said.put)
        assert said.get(timeout=10) == End(lease, REPLY, output_tokens=1)
    ended_at = time.monotonic()
    lines = [line.split() for line in log.read_text().splitlines()]
    assert {pid for pid, _, _ in lines} == {str(os.getpid())}
    assert {lease for _, lease, _ in lines} == {"1", "2", "3"}
    assert began_at <= float(lines[0][2]) <= float(lines[-1][2]) <= ended_at


def test_a_cancelled_job_lets_its_seat_go(tmp_path: Path) -> None:
    said = queue.SimpleQueue[Outcome]()
    engine = NullEngine(1, hold_s=3600.0, log=str(tmp_path / "log"))
    engine.start(job(), said.put)
    with pytest.raises(queue.Empty):
        said.get_nowait()
    engine.cancel(5)
    assert said.get(timeout=10) == End(5, cancelled=True)
    engine.cancel(5)
