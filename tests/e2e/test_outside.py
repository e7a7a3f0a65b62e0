"""Programs beside the workers: real processes, real signals, and a log of who used the device when."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.box import TREE, Box, lives
from support.http import CHAT, ROW, Stream, call, chat, counting
from support.wait import until

SHORT = {"limits__lease_s": 3.0, "limits__kill_s": 1.0, "limits__lease_ack_s": 3.0}
# says when it used the device, by the clock that all processes of the machine share
TIMED = (
    "import sys,time; b=time.monotonic(); time.sleep({s}); "
    "open({file!r},'a').write(f'{{b}} {{time.monotonic()}}\\n')"
)


@pytest.fixture(scope="module")
def short_box() -> Iterator[Box]:
    """A box whose leases are short, and whose models answer at once."""
    with Box(workers__engine="null", **SHORT) as box:
        yield box


Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def run(short_box: Box) -> Iterator[Run]:
    """Start `fairlane gpu run` on the short box."""
    with ExitStack() as stack:

        def start(*command: str, options: tuple[str, ...] = (), box: Box = short_box) -> Any:
            process = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "gpu", "run", "--lane", "bench", *options, "--", *command],
                env=box.environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.callback(_end, process)
            return process

        yield start


def _end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.communicate()


def view(box: Box, device: str = "hrx0") -> dict[str, Any]:
    """Return who holds a device and who waits for it."""
    with box.bus() as bus:
        there: dict[str, Any] = bus.outside()[device]
        return there


def holder(box: Box) -> dict[str, Any] | None:
    """Return the outside holder of the iGPU that has been heard of, or None."""
    holders = [one for one in view(box)["holders"] if one["outside"]]
    return holders[0] if holders else None


def running(box: Box, what: str) -> psutil.Process:
    """Return the command of the holder, once it has become that."""

    def found() -> psutil.Process | None:
        held = holder(box)
        try:
            process = psutil.Process(held["pid"]) if held else None
            line = " ".join(process.cmdline()) if process else ""
        except psutil.Error:  # it ends just now
            return None
        return process if what in line and "ops.cli" not in line else None

    return until(found, f"a holder that runs {what}")


def free(box: Box) -> None:
    """Wait until nobody holds the iGPU."""
    until(lambda: not view(box)["holders"], "a free device")


# --- a command's own life -----------------------------------------------------------------------------


def test_output_and_exit_status_are_the_commands(run: Run) -> None:
    process = run("sh", "-c", "echo out; echo err >&2; exit 7")
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out, err) == (7, "out\n", "err\n")


def test_a_command_that_dies_by_a_signal_ends_with_128_and_it(run: Run) -> None:
    process = run("sh", "-c", "kill -SEGV $$")
    process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGSEGV


def test_a_command_that_is_not_there_is_refused_before_it_waits(run: Run, short_box: Box) -> None:
    process = run("no-such-command")
    assert "not found" in process.communicate(timeout=90)[1]
    assert process.returncode == 127
    assert holder(short_box) is None


def test_what_is_there_and_no_program_is_refused_before_it_waits(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    process = run(str(tmp_path / "data"))
    assert "not executable" in process.communicate(timeout=90)[1]
    assert process.returncode == 126


def test_an_argument_that_is_no_text_reaches_the_command(run: Run) -> None:
    process = run("sh", "-c", 'test "$1" = "$(printf "\\377")"', "sh", os.fsdecode(b"\xff"))
    assert process.communicate(timeout=90) == ("", "")
    assert process.returncode == 0


def test_more_memory_than_there_can_be_is_refused_and_keeps_nobody_waiting(run: Run) -> None:
    process = run("true", options=("--memory", "100T"))
    assert "more than can ever be free" in process.communicate(timeout=90)[1]
    assert process.returncode == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2, signal.SIGHUP])
def test_signals_reach_the_command(run: Run, short_box: Box, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    process = run(
        "sh", "-c", f"trap 'echo {name}; exit 9' {name}; echo up; while :; do sleep 0.05; done"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    assert process.stdout.readline() == f"{name}\n"
    process.communicate(timeout=90)
    assert process.returncode == 9
    free(short_box)


@pytest.mark.parametrize("wrapped", ["", "timeout 600", "setsid"])
def test_what_a_command_leaves_behind_is_ended_before_the_device_is_given_back(
    run: Run, short_box: Box, wrapped: str
) -> None:
    process = run("sh", "-c", f"{wrapped} sleep 600 & echo $!")
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert not psutil.pid_exists(int(out)) or not lives(psutil.Process(int(out)))
    free(short_box)


@pytest.mark.parametrize(
    "is_killed", [False, True], ids=["its time is over", "its holder is killed"]
)
def test_what_made_a_group_of_its_own_is_ended_with_the_lease(
    run: Run, short_box: Box, tmp_path: Path, is_killed: bool
) -> None:
    pid_file = tmp_path / "pid"
    inner = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    options = () if is_killed else ("--max-hold", "1")
    process = run("sh", "-c", 'timeout 600 sh -c "$1"; echo never', "sh", inner, options=options)
    inside = psutil.Process(
        int(until(lambda: pid_file.read_text() if pid_file.exists() else "", "it", within_s=20))
    )
    assert os.getpgid(inside.pid) != holder(short_box)["pid"]  # type: ignore[index]  # it holds
    if is_killed:
        process.kill()
    process.wait(timeout=90)
    until(lambda: not lives(inside) or not holder(short_box), "an end of either", within_s=20)
    assert not lives(inside)
    free(short_box)


def test_a_wait_that_is_interrupted_leaves_the_queue(run: Run, short_box: Box) -> None:
    first = run("sleep", "600")
    running(short_box, "sleep")
    second = run("true")
    until(lambda: view(short_box)["waiters"], "a waiter")
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=90)
    assert second.returncode == 130
    until(lambda: not view(short_box)["waiters"], "an empty queue")
    first.terminate()
    first.communicate(timeout=90)
    assert first.returncode == 128 + signal.SIGTERM


def test_a_device_that_is_not_granted_in_time_is_an_error(run: Run, short_box: Box) -> None:
    first = run("sleep", "600")
    running(short_box, "sleep")
    second = run("true", options=("--wait", "0.5"))
    assert "deadline" in second.communicate(timeout=90)[1]
    assert second.returncode == 5
    first.terminate()
    first.communicate(timeout=90)


def test_without_a_box_it_says_what_to_do(prepared: Callable[..., Box]) -> None:
    shown = prepared().cli("gpu", "run", "--lane", "bench", "--", "true")
    assert (shown.returncode, "fairlane up" in shown.stderr) == (4, True)


def test_an_unknown_device_is_named_with_those_there_are(short_box: Box) -> None:
    shown = short_box.cli("gpu", "run", "--lane", "bench", "--device", "tpu", "--", "true")
    assert (shown.returncode, "hrx0, npu0" in shown.stderr) == (5, True)


# --- nobody beside anybody ----------------------------------------------------------------------------


def intervals(file: Path) -> list[tuple[float, float]]:
    """Return the times a log tells."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(float(line.split()[0]), float(line.split()[1])) for line in lines]


def test_commands_and_workers_never_use_the_device_together(
    new_box: Callable[..., Box], run: Run, tmp_path: Path
) -> None:
    """The commands write down when they ran; the client when each piece of an answer came."""
    box = new_box()
    log = tmp_path / "log"
    pieces: list[float] = []

    def stream() -> bool:
        with Stream(box.url, "/v1/completions", counting(40)) as answer:
            came = [(data, time.monotonic()) for data in answer.data()]
        pieces.extend(at for data, at in came if data != "[DONE]")
        return came[-1][0] == "[DONE]"

    call(box.url, CHAT, chat(model=ROW))
    command = TIMED.format(s=0.8, file=str(log))
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(stream) for _ in range(6)]
        commands = [run(sys.executable, "-c", command, box=box) for _ in range(4)]
        for process in commands:
            process.communicate(timeout=90)
        assert [answer.result(timeout=90) for answer in answers] == [True] * 6
    held = sorted(intervals(log))
    assert len(held) == 4
    assert all(one[1] <= two[0] for one, two in pairwise(held))
    # a piece takes a moment to its reader, on a busy machine a long one: the last one of an answer may be
    # read when a command has begun; of an answer beside a command some would come until its end
    inside = [at for at in pieces if any(begin + 0.5 < at < end for begin, end in held)]
    assert inside == []
    assert len(pieces) > 100


# --- what dies ----------------------------------------------------------------------------------------


def test_a_killed_holder_takes_its_whole_group_with_it_and_the_device_is_free_after(
    run: Run, short_box: Box
) -> None:
    process = run("sh", "-c", "sleep 600 & sleep 601 & wait")
    leader = running(short_box, "sleep 601")
    group = until(
        lambda: [c for c in leader.children() if len(leader.children()) == 2], "two children"
    )
    process.kill()
    next_one = run("true")
    next_one.communicate(timeout=90)
    assert next_one.returncode == 0
    assert not any(lives(one) for one in [leader, *group])


def test_a_killed_command_ends_the_hold(run: Run, short_box: Box) -> None:
    process = run("sleep", "600")
    running(short_box, "sleep").kill()
    process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGKILL
    free(short_box)


def test_a_holder_keeps_its_hold_when_the_broker_is_killed(run: Run, short_box: Box) -> None:
    process = run("sleep", "600")
    command = running(short_box, "sleep")
    old = short_box.kill("broker")
    short_box.wait_for_new("broker", old)
    running(short_box, "sleep")
    time.sleep(3.5)  # longer than a lease: it must have been renewed at the new broker
    assert lives(command)
    assert holder(short_box) is not None
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=90)
    free(short_box)


def test_a_stopped_holder_loses_its_lease_and_its_group_is_ended_first(
    run: Run, short_box: Box
) -> None:
    process = run("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
    command = running(short_box, "trap")
    process.send_signal(signal.SIGSTOP)
    try:
        next_one = run("true")
        _, err = next_one.communicate(timeout=90)
        assert next_one.returncode == 0, err
        assert not lives(command)
    finally:
        process.send_signal(signal.SIGCONT)
    process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGKILL


def test_a_late_holder_releases_nothing(run: Run, short_box: Box) -> None:
    before = short_box.count("fenced")
    process = run("sleep", "600")
    running(short_box, "sleep")
    process.send_signal(signal.SIGSTOP)
    next_one = run("sleep", "601")
    running(short_box, "sleep 601")
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=90)
    assert lives(running(short_box, "sleep 601"))
    assert next_one.poll() is None
    assert short_box.count("fenced") > before
    next_one.terminate()
    next_one.communicate(timeout=90)


def test_near_the_longest_time_who_handles_it_gets_sigusr1_then_all_get_sigterm(
    run: Run, short_box: Box
) -> None:
    script = "trap 'echo usr1' USR1; trap 'echo term; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    process = run("sh", "-c", script, options=("--max-hold", "2"))
    out, err = process.communicate(timeout=90)
    assert out.split() == ["up", "usr1", "term"]
    assert process.returncode == 3
    assert "max_hold" in err
    free(short_box)


def test_a_command_that_ignores_sigterm_is_killed_after_its_grace(run: Run, short_box: Box) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    process = run("sh", "-c", script, options=("--max-hold", "1"))
    process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGKILL
    free(short_box)


def test_a_silent_worker_is_killed_and_replaced(short_box: Box) -> None:
    stopped = psutil.Process(short_box.kill("hrx", signal.SIGSTOP))
    short_box.wait_for_new("hrx", stopped.pid)
    assert not lives(stopped)
    until(lambda: short_box.status()["ready"], "a ready box")
    assert call(short_box.url, CHAT, chat(model=ROW)).status == 200


# --- holds for scripts --------------------------------------------------------------------------------


def test_a_script_holds_and_releases_by_name(short_box: Box, tmp_path: Path) -> None:
    script = tmp_path / "script"
    fairlane = f"{sys.executable} -m ops.cli"
    script.write_text(
        f"hold=$({fairlane} gpu hold --lane script --background) || exit 1\n"
        f"{fairlane} gpu ls --json\n"
        f'{fairlane} gpu release "$hold" || exit 2\n'
    )
    shown = subprocess.run(
        ["sh", str(script)], env=short_box.environ, cwd=TREE, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    held = json.loads(shown.stdout)["hrx0"]["holders"][0]
    assert (held["lane"], held["outside"]) == ("script", True)
    free(short_box)


def test_a_hold_ends_with_the_script_that_took_it(short_box: Box) -> None:
    command = f"{sys.executable} -m ops.cli gpu hold --lane script --background; true"
    shown = subprocess.run(
        ["sh", "-c", command], env=short_box.environ, cwd=TREE, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert shown.stdout.strip()
    free(short_box)


def test_a_hold_for_some_seconds_ends_by_itself(short_box: Box) -> None:
    shown = short_box.cli("gpu", "hold", "--lane", "script", "--for", "0.5")
    assert (shown.returncode, len(shown.stdout.split())) == (0, 1)
    free(short_box)


def test_an_operator_ends_a_hold_and_its_command(run: Run, short_box: Box) -> None:
    process = run("sleep", "600")
    running(short_box, "sleep")
    held = holder(short_box)
    assert held is not None
    assert short_box.cli("gpu", "release", held["id"]).returncode == 0
    process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGTERM
    assert short_box.cli("gpu", "release", held["id"]).returncode == 1


def test_the_list_shows_holders_and_waiters(run: Run, short_box: Box) -> None:
    first = run("sleep", "600", options=("--memory", "2G", "--max-hold", "50"))
    running(short_box, "sleep")
    second = run("true")
    until(lambda: view(short_box)["waiters"], "a waiter")
    shown = short_box.cli("gpu", "ls")
    assert "sleep 600" in shown.stdout
    assert "queued" in shown.stdout
    held = holder(short_box)
    assert held is not None
    assert held["memory_bytes"] == 2 * 2**30
    assert 0 < held["max_hold_left_s"] <= 50
    first.terminate()
    for process in (first, second):
        process.communicate(timeout=90)
    assert second.returncode == 0
