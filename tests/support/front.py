"""Real HTTP and a real bus before a worker that does as it is told: only broker and gateway run."""

import subprocess
import sys
import time

from support.box import TREE, Box
from support.http import ROW, Stream
from support.peers import Hand
from support.wait import until

COMPLETIONS = "/v1/completions"
TOKENS_A_SECOND = 15.3  # of the cost model's first guess


def holding(seconds: float = 300.0) -> dict[str, object]:
    """Return a request that is never ended by its worker and that is guessed to last so long."""
    tokens = round(seconds * TOKENS_A_SECOND)
    return {"model": ROW, "prompt": "hold", "max_tokens": tokens}


class Front(Box):
    """A box without scorer and store, its iGPU's worker in the hands of the test."""

    def __init__(self, *, seats: int = 1, **settings: object) -> None:
        """Prepare; further settings as of `Box`."""
        super().__init__(**settings)
        self.worker = Hand(self.workers, seats=seats)
        self._parts: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start and wait until the worker is registered."""
        began_at = time.monotonic()
        for kind in ("broker", "gateway"):
            with self.log_file.open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "ops.cli", kind],
                    env=self.environ, cwd=TREE, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                )  # fmt: skip
            self._parts.append(process)
        self.worker.start()
        up = until(lambda: self._record("gateway_up"), "the gateway", within_s=60.0)
        until(lambda: self._record("worker_up"), "the worker", within_s=60.0)
        self.url = str(up["url"])
        self.ready_s = time.monotonic() - began_at

    def close(self) -> None:
        """End all of it."""
        if self.worker.is_alive():
            self.worker.stop()
        for process in self._parts:
            process.kill()
            process.wait()
        super().close()

    def ask(self, lane: str, body: dict[str, object] | None = None) -> Stream:
        """Begin a streamed request of a lane; by default one that holds its seat."""
        return Stream(self.url, COMPLETIONS, body or holding(), {"x-fairlane-lane": lane})

    def waiting(self) -> int:
        """Return how many requests wait for the iGPU."""
        return int(self.status()["devices"]["hrx0"]["waiting"])

    def _record(self, action: str) -> dict[str, object]:
        return next((record for record in self.log() if record["action"] == action), {})
