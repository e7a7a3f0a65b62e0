"""What outlives a killed broker, and that its journal tells the truth about it. Real processes."""

import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.replay import replay
from scheduler.bus.journal import segments
from scheduler.bus.pending import ACK_S
from scheduler.errors import Refused
from support.box import Box
from support.http import CHAT, call, chat
from support.lone import Lone
from support.wait import until

ROW = "SmolLM2-135M-Instruct"
OPENING = [{"role": "user", "content": "Write a python function that reverses a list."}]
TURN = [*OPENING, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "Shorter."}]


@pytest.fixture
def lone() -> Iterator[Lone]:
    """Processes of this test's own."""
    with Lone(journal__segment_bytes=32768) as lone:
        yield lone


def test_a_conversation_keeps_its_decision_across_a_kill(rough_box: Box) -> None:
    first = call(rough_box.url, CHAT, chat(messages=OPENING))
    decisions = rough_box.count("decisions")
    old = rough_box.kill("broker")
    rough_box.wait_for_new("broker", old)
    until(lambda: rough_box.status()["ready"], "a ready box")
    second = call(rough_box.url, CHAT, chat(messages=TURN))
    assert (first.status, second.status) == (200, 200)
    assert "decide_ms" in first.outputs["timings"]
    assert "decide_ms" not in second.outputs["timings"]
    assert rough_box.count("decisions") == decisions
    for same in ("class", "model", "confidence", "device"):
        assert second.outputs[same] == first.outputs[same]
    assert second.headers["x-lemonade-route"] == first.headers["x-lemonade-route"]
    assert second.json["model"] == first.json["model"]
    restored = [record for record in rough_box.log() if record["action"] == "restored"]
    assert restored[-1]["same_kernel"] is True
    assert restored[-1]["took_s"] < 1.0


def test_costs_counters_and_stories_survive_a_kill(lone: Lone) -> None:
    with lone.client("payer") as client:
        for _ in range(5):
            client.chat(OPENING, model=ROW, max_tokens=4)
        before = client.status()
        lone.restart_broker()
        after = client.status()
    assert after["boot"] == before["boot"] + 1
    assert after["counts"]["answered"] == 5
    old, new = (view["devices"]["hrx0"] for view in (before, after))
    assert new["served_s"] == old["served_s"]
    assert set(new["served_s"]) == {"payer"}
    assert new["busy_s"] == old["busy_s"] > 0


class Load:
    """Threads that ask without a pause; every request must end exactly once."""

    def __init__(self, lone: Lone, threads: int) -> None:
        self._lone = lone
        self._stop = threading.Event()
        self.answered = 0
        self.refused: list[str] = []
        self.broken: list[BaseException] = []
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._ask, args=(number,), daemon=True)
            for number in range(threads)
        ]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)
        assert not any(thread.is_alive() for thread in self._threads), "a request never ended"

    def _ask(self, number: int) -> None:
        try:
            with self._lone.client(f"lane {number % 3}") as client:
                turn = 0
                while not self._stop.is_set():
                    turn += 1
                    self._one(client, number, turn)
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.broken.append(error)

    def _one(self, client: Any, number: int, turn: int) -> None:
        messages = [{"role": "user", "content": f"{number} {turn // 3}: what is 2 + 2?"}]
        try:
            if number % 4 == 3:
                list(client.stream(messages, model=ROW, max_tokens=4))
            else:
                client.chat(messages, model="auto" if number % 2 else ROW, max_tokens=4)
        except Refused as refused:
            with self._lock:
                self.refused.append(refused.code)
        else:
            with self._lock:
                self.answered += 1


def test_ten_kills_under_load_lose_nothing_and_every_journal_replays(lone: Lone) -> None:
    moments = random.Random(5)
    seen: set[str] = set()
    took: list[float] = []
    with Load(lone, 8) as load:
        for _ in range(10):
            answered = load.answered
            until(lambda n=answered: load.answered > n + 20, "answers")  # type: ignore[misc]  # bound now
            time.sleep(moments.uniform(0.0, 0.1))  # the moment is to be any
            took.append(lone.restart_broker())
            for segment in segments(lone.journal):
                if segment.name not in seen:
                    report = replay(segment)
                    assert report.difference is None
                    assert report.damaged_bytes == 0
            seen |= {segment.name for segment in segments(lone.journal)[1:]}  # written no more
        answered = load.answered
        until(lambda: load.answered > answered + 20, "answers")
    assert load.broken == []
    # a stream that had begun ends with the one error; everything else was answered, unless the machine
    # took so long to start a broker that a client takes it for gone
    refused = Counter(load.refused)
    assert refused["broker_restarted"] <= 2 * 10  # two of the eight stream
    late = sum(one > ACK_S / 2 for one in took)
    assert refused["broker_unreachable"] <= 8 * late
    assert set(refused) <= {"broker_restarted", "broker_unreachable"}
    assert "Traceback" not in lone.log()
    assert "journal_bad" not in lone.log()
    assert "journal_lost" not in lone.log()
    print(f"answered {load.answered}, serving again after {[round(one, 2) for one in took]} s")
    assert min(took) < 1.0  # the least is the broker's, the rest the machine's


def test_rotation_under_load_keeps_every_segment_valid(lone: Lone) -> None:
    with Load(lone, 4), lone.client() as client:
        first = client.status()["journal"]["segment"]

        def later() -> bool:
            name = client.status()["journal"]["segment"]
            return int(name.rsplit("-", 1)[1]) >= int(first.rsplit("-", 1)[1]) + 3

        until(later, "three more segments", within_s=60.0)
        running = segments(lone.journal)[0]
        assert replay(running).difference is None  # the one that is being written
    kept = segments(lone.journal)
    assert 3 <= len(kept) <= 8
    assert all(replay(segment).is_clean for segment in kept)


def test_the_journal_of_a_box_without_its_state_directory_comes_back(lone: Lone) -> None:
    with lone.client() as client:
        assert client.status()["journal"]["state"] == "on"
        shutil.rmtree(lone.journal)
        until(lone.journal.exists, "a new folder", within_s=10.0)
        client.chat(OPENING, model=ROW, max_tokens=4)
        assert client.status()["journal"]["state"] == "on"
    actions = [json.loads(line)["action"] for line in lone.log().splitlines()]
    assert actions.count("journal_lost") == actions.count("journal_back") == 1


def test_a_spoilt_journal_does_not_keep_the_box_from_serving(lone: Lone) -> None:
    with lone.client() as client:
        client.chat(OPENING, model=ROW, max_tokens=4)
        lone.kill("broker")
        for segment in segments(lone.journal):
            segment.write_bytes(b"FLJ\x63 of another time")
        lone.start("broker")
        until(client.status, "the next broker", within_s=120.0)
        client.chat(OPENING, model=ROW, max_tokens=4)
        assert client.status()["counts"]["answered"] == 1
    assert [path.suffix for path in lone.journal.iterdir()].count(".bad") == 1


def test_replay_is_a_command(box: Box, tmp_path: Path) -> None:
    call(box.url, CHAT, chat("Tell me about journals, shortly."))
    segment = segments(box.home / "state" / "journal")[0]
    shown = box.cli("replay", str(segment), "--json")
    report = json.loads(shown.stdout)
    assert (shown.returncode, report["difference"]) == (0, None)
    assert report["events"] > report["placements"] > 0
    assert "the same on every event" in box.cli("replay", str(segment)).stdout
    assert (
        json.loads(box.cli("replay", str(segment), "--json", "--until", "2").stdout)["events"] == 2
    )
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"FLJ\x09")
    refused = box.cli("replay", str(foreign))
    assert (refused.returncode, refused.stdout) == (1, "")
