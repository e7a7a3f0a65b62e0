"""A whole box on an empty cache before a hub on loopback: progress, budget, degradation, and being killed.

The hub speaks the real hub's protocol and `huggingface_hub` is the real client; every class's row is a copy
of the small model, so that what was pulled is also loaded and answers.
"""

import hashlib
import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.box import Box
from support.cold import PROMPTS, ROUTE, ask, cold_box, publish, repo, talk, weights
from support.fakehub import FakeHub, Fault
from support.http import CHAT, Reply, Stream, call, chat
from support.http import ROW as SMALL
from support.pulling import gguf
from support.wait import until

QUICK: dict[str, Any] = {"store__timeout_s": 4.0, "store__attempts": 2}
REST_S = 5.0  # a row that could not be pulled is tried again after so long


@pytest.fixture(scope="module")
def content() -> bytes:
    """The small model's file."""
    return weights()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """A hub with nothing in it."""
    with FakeHub() as hub:
        yield hub


def shown(box: Box, class_: str, reply: Reply) -> str:
    """Return what went on, for a failing assertion."""
    return f"{class_}: {reply.status} {reply.headers.get(ROUTE)} {reply.raw[-800:]!r}\n{box.log()[-5:]}"


# --- 1: one prompt a class on an empty cache ----------------------------------------------------------


def test_each_class_is_pulled_loaded_and_answered_by_its_own_row(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    publish(hub, content)
    hub.put("org/other-GGUF", "other.gguf", content)  # no table names it
    with cold_box(hub, tmp_path, seeded=False) as box:
        said = until(lambda: "pull --seed" in box.log_file.read_text(), "what is missing is said")
        assert said
        for class_ in PROMPTS:
            assert f"not on disk: {class_}-row (for {class_})" in box.log_file.read_text()
        for class_ in PROMPTS:
            headers = talk()
            reply = ask(box, class_, headers)
            assert reply.status == 200, shown(box, class_, reply)
            assert reply.headers[ROUTE] == f"laya-{class_}"
            assert reply.json["model"] == reply.outputs["model"] == f"{class_}-row"
            assert not {"degraded", "reason", "why", "wanted"} & reply.outputs.keys()
            times = reply.outputs["timings"]
            assert times["pull_ms"] > 0 < times["load_ms"]
            assert times["pull_ms"] + times["load_ms"] < times["ttft_ms"]
            again = ask(box, class_, headers)
            assert again.headers[ROUTE] == f"laya-{class_}"
            assert not {"pull_ms", "load_ms", "decide_ms"} & again.outputs["timings"].keys()
            print(class_, times, again.outputs["timings"])
            if class_ == "code":
                told = box.cli("explain", reply.headers["x-request-id"]).stdout
                assert "for the files of code-row to be pulled" in told
        pulled = [record for record in box.log() if record["action"] == "pulled"]
        assert sorted((r["model"], r["cause"]) for r in pulled) == sorted(
            (f"{class_}-row", "") for class_ in PROMPTS
        )
        for class_ in PROMPTS:  # each byte came once
            assert hub.sent(repo(class_)[0]) == len(content)
        assert hub.sent() == 4 * len(content)
        assert not [path for path in hub.paths() if "other" in path]


def test_many_requests_for_one_row_share_a_pull_and_a_load(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    publish(hub, content)
    with cold_box(hub, tmp_path) as box:
        with ThreadPoolExecutor(6) as pool:
            replies = list(pool.map(lambda _: ask(box, "code"), range(6)))
        assert [r.outputs["model"] for r in replies] == ["code-row"] * 6
        assert hub.sent(repo("code")[0]) == len(content)
        loads = [r for r in box.log() if r["action"] == "model_loaded" and r["model"] == "code-row"]
        assert len(loads) == 1
        assert sum("load_ms" in r.outputs["timings"] for r in replies) == 1
        assert all(r.outputs["timings"]["pull_ms"] > 0 for r in replies)


# --- 2: a hub that is slow, stalls or is wrong --------------------------------------------------------


def test_a_slow_hubs_progress_is_seen_on_the_stream_and_by_the_commands(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    publish(hub, content, code=Fault(rate=len(content) // 18))  # 18 s: a line each 5
    with cold_box(hub, tmp_path) as box:
        with Stream(box.url, CHAT, chat(PROMPTS["code"]), talk()) as stream:
            assert stream.headers[ROUTE] == "laya-code; pending"
            (pull,) = box.status()["pulls"]
            assert (pull["model"], pull["waiting"]) == ("code-row", 1)
            assert "pulling code-row" in box.cli("status").stdout
            lines = list(stream.lines())
        assert lines[0].startswith(": pull")  # with the headers, not 5 s later
        told = [line.split()[2] for line in lines if line.startswith(": pull")]
        shares = [int(share) for share in told if share != "?"]  # before the hub was looked at
        assert len(shares) >= 3
        assert shares == sorted(shares)
        assert 0 < shares[-1] < 100
        first = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
        outputs = first["x_lemonade_route"]["outputs"]
        assert outputs["model"] == "code-row"
        assert outputs["timings"]["pull_ms"] > 5000
        assert lines[-1] == "data: [DONE]"


def test_a_pull_by_hand_shows_what_came_of_it_and_may_be_left(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    slow = Fault(rate=len(content) // 6)
    publish(hub, content, code=Fault(status=404), prose=slow, long_doc=slow)
    with cold_box(
        hub, tmp_path, **QUICK, gateway__wait_headers_s=1, gateway__wait_space_s=1
    ) as box:
        asked: dict[str, object] = {"model_name": "long_doc"}
        with Stream(box.url, "/v1/pull", asked) as stream:
            assert stream.headers["x-accel-buffering"] == "no"
            whole = call(box.url, "/v1/pull", asked)  # the same pull, its status and spaces first
            lines = [line for line in stream.lines() if not line.startswith(":")]
        assert (whole.json["status"], whole.raw[:2]) == ("success", b"  ")
        names = [line for line in lines if line.startswith("event: ")]
        assert names == ["event: progress"] * (len(names) - 1) + ["event: complete"]
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert {(e["file"], e["file_index"], e["total_files"]) for e in events} == {
            ("long_doc-row", 1, 1)
        }
        shares = [e["percent"] for e in events if e["percent"] is not None]
        assert shares == sorted(shares)
        assert shares[-1] == 100 > shares[0]
        assert {e.get("bytes_total") for e in events} <= {len(content), None}
        refused = call(box.url, "/v1/pull", {"model": "nonsense", "stream": True})
        assert (refused.status, refused.error["code"]) == (404, "model_not_found")
        left = subprocess.Popen(
            [*box.command("pull", "prose")], env=box.environ, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: box.status()["pulls"], "the pull")
        left.send_signal(signal.SIGINT)
        _, talk_ = left.communicate(timeout=60)
        assert left.returncode == 130
        assert "the pull goes on in the box" in talk_
        gone = box.cli("pull", "nonsense")
        assert gone.returncode == 5
        assert "was not found" in gone.stderr
        failed = box.cli("pull", "code")
        assert failed.returncode == 5
        assert "404" in failed.stderr
        until(lambda: not box.status()["pulls"], "the end of the pull that was left", within_s=30.0)
        seeded = box.cli("pull", "--seed", "--json")
        assert seeded.returncode == 5  # code's is still not there
        done = {one["model"]: one for one in json.loads(seeded.stdout)["pulled"]}
        assert next(iter(done)) == SMALL
        assert done["code-row"]["error"]
        assert done["prose-row"] == {
            "model": "prose-row", "seconds": None, "error": None, "bytes": len(content),
        }  # fmt: skip
        hub.fault(*repo("code"))
        reply = call(box.url, "/v1/pull", {"model_name": "code-row"})
        assert (reply.status, reply.json) == (
            200, {"status": "success", "message": "Installed model: code-row", "model_name": "code-row"},
        )  # fmt: skip
        listed = {one["id"]: one for one in call(box.url, "/v1/models").json["data"]}
        assert listed["code-row"]["on_disk"] == "ready"


def stand_ins(box: Box, reason: str) -> int:
    """Return how often the page for Prometheus says that another row answered for a reason."""
    pattern = rf'^fairlane_stand_ins_total\{{reason="{reason}"\}} (\d+)'
    found = re.search(pattern, call(box.url, "/metrics").raw.decode(), re.MULTILINE)
    return int(found[1]) if found else 0


def degraded(box: Box, class_: str, reason: str, text: str) -> None:
    """Ask a class whose row cannot be had and hold all that is said of it to the contract."""
    counted = stand_ins(box, reason)
    reply = ask(box, class_)
    assert stand_ins(box, reason) == counted + 1
    assert reply.status == 200, shown(box, class_, reply)
    assert reply.json["model"] == reply.outputs["model"] == SMALL
    outputs = reply.outputs
    assert (outputs["class"], outputs["wanted"]) == (class_, f"laya-{class_}")
    if reason == "template_mismatch":
        assert reply.headers[ROUTE] == f"default; why={reason}; wanted=laya-{class_}"
        assert outputs["why"] == reason
        assert not {"degraded", "reason"} & outputs.keys()
    else:
        assert reply.headers[ROUTE] == f"default; degraded; reason={reason}; wanted=laya-{class_}"
        assert (outputs["degraded"], outputs["reason"]) == (True, reason)
    ended = until(
        lambda: [r for r in box.log() if r.get("request") == reply.headers["x-request-id"]],
        "its record",
    )[-1]
    assert (ended["why"] or ended["degraded"]) == reason
    assert (ended["class"], ended["wanted"]) == (class_, f"laya-{class_}")
    if reason != "pull_timeout":
        ends = [r for r in box.log() if r["action"] == "pulled" and r["model"] == f"{class_}-row"]
        assert ends[-1]["cause"] == reason
        assert text in ends[-1]["error"], ends[-1]["error"]
        print(class_, ends[-1]["error"])
    explicit = call(box.url, CHAT, chat("Hi", model=f"{class_}-row"))
    if reason != "pull_timeout":
        assert (explicit.status, explicit.error["code"]) == (503, "model_not_usable")
        assert explicit.error["cause"] == reason
        assert "fairlane" in explicit.error["message"]
        assert ("retry-after" in explicit.headers) == (reason != "template_mismatch")
    next_one = ask(box, class_)  # answered, by the stand-in still
    assert (next_one.status, next_one.outputs["model"]) == (200, SMALL)
    assert ask(box, "short").headers[ROUTE] == "laya-short"


def healthy(box: Box, class_: str) -> None:
    """Wait until a class has its own row again."""
    until(
        lambda: ask(box, class_).outputs["model"] == f"{class_}-row",
        f"{class_}'s own row", within_s=45.0,
    )  # fmt: skip


def test_what_the_hub_refuses_or_breaks_off_degrades_and_heals(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    half = Fault(cut=len(content) // 2)
    publish(hub, content, code=Fault(status=404), prose=Fault(status=500), long_doc=half)
    with cold_box(hub, tmp_path, **QUICK) as box:
        degraded(box, "code", "pull_failed", "404")
        degraded(box, "prose", "pull_failed", "500")
        degraded(box, "long_doc", "pull_failed", "")
        counts = box.status()["counts"]
        assert counts["degraded_pull_failed"] >= 6
        assert counts["pulls_failed"] >= 3
        for class_ in ("code", "prose", "long_doc"):
            hub.fault(*repo(class_))
        for class_ in ("code", "prose", "long_doc"):
            healthy(box, class_)


def test_a_file_that_is_not_what_was_asked_for_is_never_used(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    publish(hub, content, code=Fault(extra=-5), long_doc=Fault(corrupt=len(content) // 3))
    hub.put(*repo("prose"), gguf(tmp_path, "another template"))
    with cold_box(hub, tmp_path, **QUICK) as box:
        degraded(box, "prose", "template_mismatch", "")
        degraded(box, "code", "pull_failed", "")
        degraded(box, "long_doc", "pull_failed", "")
        counts = box.status()["counts"]
        assert counts["degraded_template_mismatch"] >= 2
        assert box.status()["not_on_disk"]["prose-row"]["state"] == "mismatch"
        kept = list(box.home.glob("**/prose.gguf"))
        assert len(kept) == 1  # nothing is deleted
        for class_ in ("code", "long_doc"):
            hub.fault(*repo(class_))
        hub.put(*repo("prose"), content)
        assert box.cli("pull", "prose").returncode == 0
        for class_ in ("prose", "code", "long_doc"):
            healthy(box, class_)


def test_a_hub_that_stalls_past_the_budget_is_not_waited_for_and_the_next_request_finds_the_file(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    publish(hub, content, code=Fault(stall=len(content) // 3))
    waits: dict[str, Any] = {"gateway__wait_headers_s": 1, "gateway__wait_space_s": 1}
    with (
        cold_box(hub, tmp_path, budget_s=3.0, **QUICK, **waits) as box,
        ThreadPoolExecutor(1) as beside,
    ):
        began_at = time.monotonic()
        unstreamed = beside.submit(ask, box, "code")
        with Stream(box.url, CHAT, chat(PROMPTS["code"]), talk()) as stream:
            assert stream.headers[ROUTE] == "laya-code; pending"
            first = json.loads(stream.first())
        assert time.monotonic() - began_at > 3.0
        outputs = first["x_lemonade_route"]["outputs"]
        assert first["model"] == outputs["model"] == SMALL
        assert (outputs["degraded"], outputs["reason"]) == (True, "pull_timeout")
        assert outputs["wanted"] == "laya-code"
        assert outputs["timings"]["pull_ms"] == pytest.approx(3000, abs=1000)
        early = unstreamed.result()  # its header left before anybody knew
        assert early.headers[ROUTE] == "laya-code; pending"
        assert (early.outputs["degraded"], early.outputs["reason"]) == (True, "pull_timeout")
        hub.fault(*repo("code"))  # the connection that stalls is given up, and the rest asked for
        until(lambda: not box.status()["pulls"], "the pull to end by itself", within_s=30.0)
        reply = ask(box, "code")
        assert reply.outputs["model"] == "code-row"
        assert "pull_ms" not in reply.outputs["timings"]
        assert box.count("degraded_pull_timeout") == box.count("pull_timeouts") == 2
        assert stand_ins(box, "pull_timeout") == 2
        assert hub.sent(repo("code")[0]) < 1.1 * len(content)  # resumed, not begun anew


def test_a_full_disk_degrades_and_heals(hub: FakeHub, content: bytes, tmp_path: Path) -> None:
    publish(hub, content)
    disk = tmp_path / "disk"
    disk.mkdir()
    size = 80 * 2**20  # less than the file and what is kept free
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        with cold_box(hub, tmp_path, store__dir=disk, **QUICK) as box:
            degraded(box, "code", "pull_failed", "are needed")
            subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
            healthy(box, "code")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


# --- 3: killed in the middle --------------------------------------------------------------------------


class Killing:
    """Kills parts of a box while it pulls code's file, at moments that are drawn."""

    def __init__(self, hub: FakeHub, box: Box, digest: str) -> None:
        self._hub, self._box, self._digest = hub, box, digest
        self._draw = random.Random(20261201)
        self._seen = 0  # requests of the hub before the last kill
        self.kills = 0

    def whole(self) -> bool:
        """Return whether the file has its name; then it is the hub's, byte by byte."""
        for file in self._box.home.glob("**/code.gguf"):
            assert hashlib.sha256(file.read_bytes()).hexdigest() == self._digest
            return True
        return False

    def _in_the_pull(self) -> None:
        """Wait until bytes come once more, and then for a moment."""
        until(
            lambda: any(one.sent for one in self._hub.asked[self._seen :]),
            "the pull to go on", within_s=30.0,
        )  # fmt: skip
        time.sleep(self._draw.uniform(0.0, 1.0))
        assert not self.whole(), "it is pulled before it could be killed often enough"
        self.kills += 1

    def store(self) -> None:
        """Kill the store."""
        self._in_the_pull()
        old = self._box.kill("store")
        self._seen = len(self._hub.asked)
        self._box.wait_for_new("store", old, within_s=60.0)

    def all(self) -> None:
        """Kill the supervisor, and with it the box; start it again."""
        self._in_the_pull()
        self._box.supervisor.kill()
        self._box.supervisor.wait()
        until(lambda: not self._box.living(), "the children to end with it")
        self._seen = len(self._hub.asked)
        assert not self.whole()
        self._box.log_file = self._box.home / f"log-{self.kills}"
        self._box.start()


def test_twenty_kills_in_a_pull_leave_no_corrupt_file_and_lose_nothing_that_had_come(
    hub: FakeHub, content: bytes, tmp_path: Path
) -> None:
    # it would take a minute, of which twenty kills leave some
    publish(hub, content, code=Fault(rate=len(content) // 60))
    with cold_box(hub, tmp_path) as box:
        killing = Killing(hub, box, hashlib.sha256(content).hexdigest())
        for _ in range(3):
            with Stream(box.url, CHAT, chat(PROMPTS["code"]), talk()):
                for _ in range(4):
                    killing.store()
                killing.all()
        with Stream(box.url, CHAT, chat(PROMPTS["code"]), talk()) as stream:
            for _ in range(5):
                killing.store()
            hub.fault(*repo("code"))
            first = json.loads(stream.first())  # it has waited through five deaths of the store
        assert killing.kills == 20
        assert first["model"] == "code-row"
        assert first["x_lemonade_route"]["outputs"]["timings"]["pull_ms"] > 0
        assert killing.whole()
        again = ask(box, "code")
        assert again.outputs["model"] == "code-row"
        assert "pull_ms" not in again.outputs["timings"]
    sent = hub.sent(repo("code")[0])
    starts = [one.range for one in hub.asked if one.method == "GET" and one.sent]
    print(
        f"{killing.kills} kills, {sent / len(content):.3f} times the file was sent, from {starts}"
    )
    assert sent < 1.5 * len(content)
    assert sum(one not in {"", "bytes=0-"} for one in starts) >= 18
