"""Makes the picture of the live page in the README: scheduler/gateway/live.png.

    PYTHONPATH=.:tests python -m support.live_picture [MINUTES]        10 by default, the length of a curve

A real box and a real browser; its engines are the null engine's, which hold a seat and say nothing, and its
sensors read files that this writes: a processor that warms while the iGPU is held. Needs Debian's chromium.
"""

import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

from scheduler.errors import BrokerUnreachable
from support.amd_tree import CARD, GPU, K10, plant, put
from support.box import TREE, Box
from support.busy import DOCUMENT, write_table
from support.http import ROW, call, chat
from support.wait import until
from support.webdriver import Browser

PICTURE = TREE / "scheduler" / "gateway" / "live.png"
SIZE = (1120, 980)
HOLD_S = 16.0  # the longest that the null engine holds its seat
ASKED = {  # lane -> what it asks for, and the longest it thinks before it asks again, seconds
    "reviewer": (chat("Why does this test fail?", model=ROW), 9.0),
    "night-batch": (chat(DOCUMENT), 0.5),
    "opencode": (chat("Write a regex for dates."), 20.0),
    "mail": (chat(DOCUMENT), 40.0),
}


def main(minutes: float) -> None:
    """Let the box work for so long, and take its picture while somebody holds and others wait."""
    with tempfile.TemporaryDirectory(prefix="fl-picture-") as room:
        folder = Path(room)
        tree = plant(folder / "root", "decode")
        settings = {"engine": "null", "null_seats": 1, "null_hold_s": HOLD_S}
        with Box(
            **{f"workers__{name}": value for name, value in settings.items()},
            sensors__root=tree, table=write_table(folder, queue_depth=2), limits__stop_tctl_c=92,
        ) as box:  # fmt: skip
            over = threading.Event()
            jobs = [threading.Thread(target=_warm, args=(box, tree, over), daemon=True)]
            jobs += [
                threading.Thread(target=_ask, args=(box, lane, over), daemon=True)
                for lane in [*ASKED, "night-batch", "reviewer"]
            ]
            for job in jobs:
                job.start()
            try:
                _wait(minutes * 60.0)
                _take(box, folder / "browser")
            finally:
                over.set()


def _ask(box: Box, lane: str, over: threading.Event) -> None:
    body, pause_s = ASKED[lane]
    chance = random.Random(lane)
    while not over.wait(chance.uniform(0.0, pause_s)):
        with suppress(OSError, HTTPException):  # the box ends before those who ask it
            call(box.url, body=body, headers={"x-fairlane-lane": lane}, timeout_s=600.0)


def _warm(box: Box, tree: Path, over: threading.Event) -> None:
    """Let the files of the sensors say what a processor would that works for its tickets."""
    tctl_c = 71.0
    while not over.wait(1.0):
        try:
            held = bool(box.status()["devices"]["hrx0"]["holders"])
        except BrokerUnreachable:
            return
        tctl_c += ((84.0 if held else 44.0) - tctl_c) * 0.05 + random.uniform(-0.4, 0.4)
        watts = random.uniform(86.0, 96.0) if held else random.uniform(21.0, 25.0)
        put(tree, f"{K10}/temp1_input", round(tctl_c * 1000))
        for file in (f"{GPU}/power1_average", f"{CARD}/hwmon/hwmon2/power1_average"):
            put(tree, file, round(watts * 1e6))


def _wait(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while (left_s := ends_at - time.monotonic()) > 0.0:
        print(f"\r{left_s:4.0f} s until the picture ", end="", flush=True)
        time.sleep(min(1.0, left_s))
    print()


def _take(box: Box, folder: Path) -> None:
    folder.mkdir()
    with Browser(folder) as page:
        page.screen(*SIZE, dark=False)
        page.get(f"{box.url}/")
        until(lambda: len(page.texts("#first .queue li")) >= 2, "a queue", within_s=120.0)
        until(lambda: page.text("#others .holder .who"), "a holder of the NPU", within_s=120.0)
        page.picture(PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
