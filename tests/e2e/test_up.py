"""`fairlane up`: ready quickly, stops cleanly, leaves no orphan, refuses what cannot be."""

import json
import signal
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from support.box import KINDS, Box, lives
from support.http import COUNTING, ROW, Stream, call, chat
from support.wait import at_best, seconds_until, until

Boxes = Callable[..., Box]
STOP_S = 5.0
HELLO = [{"role": "user", "content": "Hi"}]


def alive(processes: dict[str, psutil.Process]) -> list[str]:
    return [kind for kind, process in processes.items() if lives(process)]


def test_a_box_is_ready_in_three_seconds() -> None:
    def ready_s() -> float:
        with Box() as box:
            return box.ready_s

    at_best(ready_s, 3.0, "seconds until a box is ready")


def test_a_decision_needs_no_model(new_box: Boxes) -> None:
    def first_s() -> float:
        with new_box().bus() as bus:
            began_at = time.monotonic()
            decided = bus.decide(HELLO)
            took_s = time.monotonic() - began_at
            assert not [m["id"] for m in bus.models()["rows"] if m["loaded"]]
        assert decided["outputs"]["model"] == ROW
        return took_s

    at_best(first_s, 0.1, "seconds of the first decision")


def test_a_box_has_one_process_of_each_kind(box: Box) -> None:
    assert set(KINDS) <= set(box.pids())
    supervisor = psutil.Process(box.supervisor.pid)
    until(lambda: len(supervisor.children()) == len(box.pids()), "no process beside them")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_an_idle_box_cleanly(new_box: Boxes, number: int) -> None:
    def stopped_s() -> float:
        box = new_box()
        processes = box.processes()
        status, took_s = box.stop(number)
        assert (status, alive(processes)) == (0, [])
        return took_s

    at_best(stopped_s, STOP_S, f"seconds until {signal.Signals(number).name} has stopped a box")


def test_a_box_stops_in_five_seconds_while_it_answers(new_box: Boxes) -> None:
    def stopped_s() -> float:
        box = new_box()
        processes = box.processes()
        body: dict[str, object] = {"model": ROW, "prompt": COUNTING, "max_tokens": 4000}
        with (
            Stream(box.url, "/v1/completions", body) as stream,
            ThreadPoolExecutor(1) as pool,
            box.bus() as bus,
        ):
            stream.first()
            behind = pool.submit(call, box.url, "/v1/completions", body)
            until(lambda: bus.queue()["totals"]["waiting"], "one that waits behind it")
            status, took_s = box.stop()
            rest = list(stream.data())
            refused = behind.result()
        assert (status, alive(processes)) == (0, [])
        assert "[DONE]" not in rest
        assert (refused.status, refused.error["code"]) == (503, "gateway_stopped")
        assert json.loads(rest[-1])["error"]["code"] in {"worker_lost", "gateway_stopped"}
        assert [r for r in box.log() if r["level"] == "error"] == []
        return took_s

    at_best(stopped_s, STOP_S, "seconds until a box that answers has stopped")


@pytest.mark.slow
def test_a_second_ctrl_c_does_no_harm(new_box: Boxes) -> None:
    def stopped_s() -> float:
        box = new_box()
        processes = box.processes()
        box.supervisor.send_signal(signal.SIGINT)
        status, took_s = box.stop(signal.SIGINT)
        assert (status, alive(processes)) == (0, [])
        return took_s

    at_best(stopped_s, STOP_S, "seconds until two Ctrl-C have stopped a box")


def test_a_killed_supervisor_leaves_no_orphan(new_box: Boxes) -> None:
    box = new_box()
    processes = box.processes()
    with Stream(box.url, "/v1/completions", {"model": ROW, "prompt": COUNTING}) as stream:
        stream.first()
        box.supervisor.kill()
        box.supervisor.wait()
        took = seconds_until(lambda: not alive(processes), "no process left")
    print(f"nothing left {took * 1e3:.0f} ms after SIGKILL of the supervisor")


def test_a_box_that_was_killed_starts_again_in_the_same_place(prepared: Boxes) -> None:
    box = prepared()
    box.start()
    processes = box.processes()
    box.supervisor.kill()
    box.supervisor.wait()
    until(lambda: not alive(processes), "no process left")
    box.log_file.unlink()
    box.start()
    assert call(box.url, body=chat()).status == 200


def test_a_second_box_on_the_same_port_ends_and_says_why(new_box: Boxes, prepared: Boxes) -> None:
    port = new_box().url.rpartition(":")[2]
    second = prepared(gateway__port=port)
    assert second.spawn().wait(timeout=60) == 1
    said = second.log_file.read_text()
    assert f"127.0.0.1:{port}" in said
    assert (
        len([r for r in second.log() if r.get("process") == "gateway"]) == 2
    )  # up once, down once


@pytest.mark.parametrize("same_port", [False, True])
def test_a_second_box_in_the_same_directory_leaves_the_first_alone(
    new_box: Boxes, prepared: Boxes, *, same_port: bool
) -> None:
    first = new_box()
    port = first.url.rpartition(":")[2] if same_port else 0
    second = prepared(run_dir=first.run_dir, gateway__port=port)
    assert second.spawn().wait(timeout=60) == 1
    assert first.cli("status").returncode == 0
    assert call(first.url, body=chat()).status == 200


def test_a_second_box_with_the_state_of_the_first_leaves_its_workers_alone(
    new_box: Boxes, prepared: Boxes
) -> None:
    first = new_box(workers__engine="null")
    before = first.pids()
    second = prepared(state_dir=first.home / "state", workers__engine="null")
    assert second.spawn().wait(timeout=20) == 1
    assert "another box keeps its state in" in second.log_file.read_text()
    assert second.cli("broker").returncode == 78  # nor is a broker started by itself
    assert first.pids() == before


def test_a_run_directory_that_cannot_be_made_ends_the_start_with_a_reason(
    prepared: Boxes,
) -> None:
    box = prepared(run_dir="/dev/null/run")
    assert box.spawn().wait(timeout=60) in {1, 3}
    assert "/dev/null/run" in box.log_file.read_text()
    assert "Traceback" not in box.log_file.read_text()


def test_a_run_directory_too_long_for_a_socket_is_refused_with_a_reason(prepared: Boxes) -> None:
    box = prepared(run_dir="/" + "d" * 120)
    assert box.spawn().wait(timeout=60) in {1, 3}
    assert "longer than" in box.log_file.read_text()
    assert "Traceback" not in box.log_file.read_text()


def test_the_sockets_are_for_this_user_only(box: Box) -> None:
    sockets = [Path(box.run_dir, name) for name in ("clients.sock", "workers.sock")]
    assert [stat.S_IMODE(socket.stat().st_mode) for socket in sockets] == [0o600, 0o600]
    assert stat.S_IMODE(Path(box.run_dir).stat().st_mode) == 0o700


def test_nothing_listens_beyond_loopback(box: Box) -> None:
    listening = {
        line.laddr.ip
        for process in box.processes().values()
        for line in process.net_connections("inet")
        if line.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_command_without_a_box_says_so(prepared: Boxes) -> None:
    shown = prepared().cli("status")
    assert shown.returncode == 4
    assert "fairlane up" in shown.stderr
