"""A real Prometheus, Debian's, with this repository's configuration: started, asked and ended by a test."""

import json
import re
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from support.box import TREE
from support.debian import require
from support.opened import Opened
from support.ports import free_port
from support.wait import until

FOLDER = TREE / "ops" / "prometheus"
BOX_TARGET = "127.0.0.1:13305"  # in the configuration; the one thing that a test replaces
_READY_S = 30.0


def promtool(*arguments: str | Path, cwd: Path = FOLDER) -> "subprocess.CompletedProcess[str]":
    """Run promtool; skip the test where it cannot be had."""
    (program,) = require("prometheus", "promtool")
    return subprocess.run(
        [program, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def metrics_of(expression: str) -> set[str]:
    """Return the selectors of an expression: each metric with its matchers, without its window."""
    found = re.findall(
        r"(?<![\w:])(fairlane_\w+|instance\w*:fairlane_[\w:]+|up|ALERTS)\b(?![\w(])(\{[^}]*\})?",
        expression,
    )
    return {name + matchers for name, matchers in found}


class Prometheus(Opened):
    """One server, scraping one box. `with Prometheus(target) as server:` starts and ends it."""

    def __init__(self, target: str) -> None:
        """Prepare.

        Args:
            target: Host and port of the gateway.
        """
        (self._program,) = require("prometheus", "prometheus")
        self._room = tempfile.TemporaryDirectory(prefix="fl-prom-")
        room = Path(self._room.name)
        text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
        assert text.count(BOX_TARGET) == 1
        text = text.replace(BOX_TARGET, target).replace("rules/", f"{FOLDER}/rules/")
        self._config = room / "prometheus.yml"
        self._config.write_text(text, encoding="utf-8")
        self._log = room / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{free_port()}"

    def open(self) -> None:
        """Start the server and wait until it is ready."""
        room = Path(self._room.name)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program, f"--config.file={self._config}",
                    f"--storage.tsdb.path={room / 'data'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                cwd=room, stdout=log, stderr=log,
            )  # fmt: skip
        until(self._is_ready, "a Prometheus that is ready", within_s=_READY_S)

    def close(self) -> None:
        """End the server and remove what it stored."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._room.cleanup()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return what an expression gives now; fails where the server refuses it."""
        view = self._get("query", query=expression)
        result: list[dict[str, Any]] = view["result"]
        return result

    def value(self, expression: str) -> float | None:
        """Return the one value of an expression; None: no data."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules as the server has loaded and evaluated them."""
        groups: list[dict[str, Any]] = self._get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def labels(self, metric: str, label: str) -> list[str]:
        """Return the values of a metric's label, as Grafana's label_values does."""
        view: list[str] = self._get(f"label/{label}/values", **{"match[]": metric})
        return view

    def scrapes(self) -> int:
        """Return how many scrapes of the box are stored."""
        return int(self.value('sum(count_over_time(up{job="fairlane"}[1h]))') or 0)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as reply:  # noqa: S310  # http, ours
                return bool(reply.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **arguments: str) -> Any:
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as reply:  # noqa: S310  # http, ours
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from error
