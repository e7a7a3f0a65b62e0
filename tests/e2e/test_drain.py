"""`fairlane drain`: real clients, real processes; not one accepted request is lost."""

import http.client
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.box import TREE, Box, lives
from support.http import CHAT, ROW, Reply, Stream, call, chat, counting
from support.wait import until

COMPLETIONS = "/v1/completions"
Boxes = Callable[..., Box]


def drain(box: Box, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "drain", *arguments],
        env=box.environ, cwd=TREE, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def draining(box: Box) -> bool:
    return bool(box.status()["draining"])


class Load:
    """Eight clients that ask one thing after the other until they are told that the box drains."""

    def __init__(self, box: Box, body: object, path: str) -> None:
        self._box, self._body, self._path = box, body, path
        self.replies: list[Reply] = []
        self.late: list[Exception] = []  # of those who asked when the box had stopped
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(8)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        headers = {"x-fairlane-lane": f"lane-{number % 4}"}
        while True:
            try:
                reply = call(self._box.url, self._path, self._body, headers)
            except (OSError, http.client.HTTPException) as error:
                self.late.append(error)
                return
            self.replies.append(reply)
            if reply.status != 200:
                return

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    ("engine", "body", "path"),
    [
        ("null", chat(model="auto"), CHAT),
        ("llama", counting(16), COMPLETIONS),
    ],
)
def test_under_load_every_request_is_answered_or_told_to_come_again(
    new_box: Boxes, engine: str, body: object, path: str
) -> None:
    box = new_box(workers__engine=engine, workers__null_seats=2, workers__null_hold_s=0.05)
    load = Load(box, body, path)
    until(lambda: len(load.replies) >= 12, "answers", within_s=120)
    assert {reply.status for reply in load.replies} == {200}
    command = drain(box, "--then-stop")
    out, err = command.communicate(timeout=60)
    load.join()
    assert (command.returncode, out) == (0, "drained: nothing is open\nstopped\n"), err
    assert {reply.status for reply in load.replies} == {200, 503}
    refused = [reply for reply in load.replies if reply.status == 503]
    assert len(refused) + len(load.late) == 8  # a slow client may ask when nobody listens any more
    for reply in refused:
        assert (reply.error["code"], reply.error["retryable"]) == ("draining", True)
        assert reply.headers["retry-after"] == "10"
    until(lambda: box.supervisor.poll() is not None, "the end of the box")
    assert box.supervisor.returncode == 0
    ended = [one["outcome"] for one in box.log() if one["action"] == "request_ended"]
    assert ended == ["answered"] * (len(load.replies) - len(refused))  # and each has its answer


def test_a_stream_that_runs_is_finished_and_one_that_waits_is_begun(new_box: Boxes) -> None:
    box = new_box()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(_streamed, box)
        until(lambda: box.status()["devices"]["hrx0"]["holders"], "a running request")
        waiting = pool.submit(_streamed, box)
        until(lambda: box.status()["open"] == 2, "another")
        command = drain(box)
        until(lambda: draining(box), "a box that drains")
        assert call(box.url, CHAT, chat(model=ROW)).error["code"] == "draining"
        assert call(box.url, "/v1/health").json["status"] == "draining"
        for stream in (running, waiting):
            data = stream.result(60)
            assert data[-1] == "[DONE]"
            assert not any('"error"' in piece for piece in data)
    assert command.wait(60) == 0
    command.communicate()
    assert draining(box)  # it drains until it is told otherwise, or started again
    assert "ready, takes no new work (it drains, 0 open), up " in box.cli("status").stdout
    assert b"\nfairlane_draining 1.0\n" in call(box.url, "/metrics").raw
    assert box.cli("drain", "--undo").stdout == "the box takes new work\n"
    assert call(box.url, CHAT, chat(model=ROW)).status == 200


def _streamed(box: Box) -> list[str]:
    with Stream(box.url, COMPLETIONS, counting(120, stream=True)) as stream:
        return list(stream.data())


def test_a_drain_that_takes_too_long_says_what_is_open_and_goes_on(new_box: Boxes) -> None:
    box = new_box()
    with Stream(box.url, COMPLETIONS, counting(2000, stream=True)) as stream:
        stream.first()
        tried = box.cli("drain", "--timeout", "0.5")
        assert tried.returncode == 1
        assert "1 open (hrx0: 1 held, 0 waiting" in tried.stderr
        assert "--undo" in tried.stderr
        assert draining(box)


def test_a_broker_that_is_restarted_is_asked_again(new_box: Boxes) -> None:
    box = new_box()
    holder = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", "gpu", "run", "--lane", "x", "--", "sleep", "600"],
        env=box.environ, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until(lambda: box.status()["devices"]["hrx0"]["holders"], "a holder")
    command = drain(box)
    until(lambda: draining(box), "a box that drains")
    old = box.kill("broker")
    box.wait_for_new("broker", old)
    until(lambda: draining(box), "a new broker that drains")
    assert command.poll() is None
    holder.terminate()
    assert command.wait(60) == 0
    command.communicate()
    assert holder.wait(60) == 128 + signal.SIGTERM
    holder.communicate()


def test_without_a_box_it_says_so(prepared: Boxes) -> None:
    assert prepared().cli("drain").returncode == 4


def test_the_processes_are_gone_after_then_stop(new_box: Boxes) -> None:
    box = new_box(workers__engine="null")
    processes = box.processes()
    began_at = time.monotonic()
    assert box.cli("drain", "--then-stop").returncode == 0
    until(lambda: box.supervisor.poll() is not None, "the end of the box")
    assert not any(lives(process) for process in processes.values())
    assert time.monotonic() - began_at < 60.0
