"""A real Prometheus with our configuration scrapes a box under contention; every panel and rule has its data.

An expression without data is right only where a reason stands beside it: a query's `empty` in ops/grafana, a
series in ops/prometheus/empty.toml, and an alert's own condition, which holds only while something is wrong.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from ops.grafana.render import render
from ops.grafana.write import BOARDS
from support.amd_tree import plant, put
from support.box import TREE, Box
from support.busy import DOCUMENT, write_table
from support.http import CHAT, ROW, Stream, call, chat, counting
from support.prometheus import FOLDER, Prometheus, metrics_of
from support.wait import until

pytestmark = pytest.mark.slow
COMPLETIONS = "/v1/completions"
MISSING_S = 60.0  # how long data may be missing
SCRAPES = 10  # of five seconds each: two were asked for, rates and rules of 15 s need more
EMPTY: dict[str, str] = msgspec.toml.decode(
    (FOLDER / "empty.toml").read_text(encoding="utf-8"), type=dict[str, str]
)
# What Grafana fills in; its $__rate_interval is four scrape intervals at the least.
FILLED = {"$box": ".*", "$device": ".*", "$lane": ".*", "$__rate_interval": "20s"}


class Asked(NamedTuple):
    """One expression and where it is from."""

    place: str
    expr: str
    reason: str  # why it may have no data; empty: it must have some


class Contention:
    """Lanes that ask one thing after the other, until they are told to stop."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._over = threading.Event()
        jobs = [self._talk, self._talk, self._documents, self._flood, self._leave]
        self._threads = [
            threading.Thread(target=self._again, args=(job, f"lane-{n}"), daemon=True)
            for n, job in enumerate(jobs)
        ]

    def __enter__(self) -> "Contention":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _again(self, job: Any, lane: str) -> None:
        number = 0
        while not self._over.is_set():
            with suppress(OSError, KeyError):  # the box may end, or refuse, at any time
                job({"x-fairlane-lane": lane}, number)
            number += 1

    def _talk(self, headers: dict[str, str], number: int) -> None:
        """A conversation of three turns: the later ones find their beginning in the cache."""
        headers |= {"x-fairlane-conversation": f"{headers['x-fairlane-lane']}-{number}"}
        messages = [{"role": "user", "content": f"Name a river, and say why. {number}"}]
        for turn in range(3):
            body = chat(max_tokens=6, messages=list(messages), stream=turn == 1)
            reply = call(self._box.url, CHAT, body, headers)
            said = "So." if turn == 1 else reply.json["choices"][0]["message"]["content"]
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "On."}]

    def _documents(self, headers: dict[str, str], number: int) -> None:
        """Documents, which may start on the NPU while others hold the iGPU."""
        headers |= {"x-fairlane-conversation": f"document-{number}"}
        call(self._box.url, CHAT, chat(DOCUMENT), headers)

    def _flood(self, headers: dict[str, str], number: int) -> None:
        """More at once than one lane may have waiting."""
        some = [
            threading.Thread(
                target=call, args=(self._box.url, COMPLETIONS, counting(4, model=ROW), headers)
            )
            for _ in range(5)
        ]
        for one in some:
            one.start()
        for one in some:
            one.join()
        self._over.wait(1.0)

    def _leave(self, headers: dict[str, str], number: int) -> None:
        """A client that hangs up."""
        with Stream(self._box.url, COMPLETIONS, counting(60, stream=True), headers) as stream:
            stream.first()
        self._over.wait(1.0)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server that has scraped a box under contention for a while, and the contention goes on."""
    folder = tmp_path_factory.mktemp("prometheus")
    root = plant(folder / "root", "decode", kfd=1)
    put(root, "proc/meminfo", "MemTotal: 128000000 kB\nMemAvailable: 90000000 kB")
    box = Box(
        table=write_table(folder, queue_depth=1), sensors__root=root, limits__stop_tctl_c=95,
        limits__queue_per_lane=3,
    )  # fmt: skip
    with box, Contention(box):
        until(lambda: box.count("moved_gpu_busy"), "a document on the NPU", within_s=180.0)
        with Prometheus(box.url.removeprefix("http://")) as server:
            until(lambda: server.scrapes() >= SCRAPES, "scrapes", within_s=180.0)
            holder = subprocess.Popen(
                [sys.executable, "-m", "ops.cli", "gpu", "run", "--device", "npu", "--lane", "out",
                 "--", "sleep", "600"],
                env=box.environ, cwd=TREE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            try:
                until(lambda: server.value("sum(fairlane_outside_holds)"), "a hold", within_s=120.0)
                yield server
            finally:
                holder.terminate()
                holder.wait(60)


def filled(expression: str) -> str:
    for name, value in FILLED.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def without(server: Prometheus, asked: list[Asked]) -> list[str]:
    """Return what has neither data nor a reason; print what has a reason.

    The contention goes on: what has not happened yet on a slow machine is waited for.
    """
    empty = [one for one in asked if one.reason and not server.query(one.expr)]
    shown = [f"{one.place}: {one.expr} {one.reason}" for one in empty]
    print(f"{len(asked)} expressions, {len(empty)} empty for a reason:", *shown, sep="\n  ")
    left = [one for one in asked if not one.reason]
    ends_at = time.monotonic() + MISSING_S
    while (left := [one for one in left if not server.query(one.expr)]) and (
        time.monotonic() < ends_at
    ):
        time.sleep(1.0)
    return [f"{one.place}: {one.expr}" for one in left]


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_every_panel_has_data(scraped: Prometheus, name: str) -> None:
    asked = [
        Asked(f"{name}: {panel.title}", filled(query.expr), query.empty)
        for row in BOARDS[name].rows
        for panel in row.panels
        for query in panel.queries
    ]
    assert len(asked) > 15
    assert without(scraped, asked) == []


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_every_variable_has_values(scraped: Prometheus, name: str) -> None:
    for variable in render(BOARDS[name])["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["definition"][len("label_values(") : -1].rsplit(", ", 1)
            assert scraped.labels(filled(metric), label), variable


def test_every_recording_rule_has_data(scraped: Prometheus) -> None:
    rules = [rule for rule in scraped.rules() if rule["type"] == "recording"]
    assert len(rules) >= 10
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    asked = [Asked("rule", rule["query"], EMPTY.get(rule["name"], "")) for rule in rules]
    asked += [Asked("record", rule["name"], EMPTY.get(rule["name"], "")) for rule in rules]
    assert without(scraped, asked) == []


def test_every_alert_is_evaluated_over_series_that_are_there(scraped: Prometheus) -> None:
    rules = [rule for rule in scraped.rules() if rule["type"] == "alerting"]
    assert len(rules) >= 15
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    asked = [
        Asked(rule["name"], series, EMPTY.get(series.partition("{")[0], ""))
        for rule in rules
        for series in sorted(metrics_of(rule["query"]))
    ]
    assert without(scraped, asked) == []
    for rule in rules:
        scraped.query(rule["query"])  # fails where the server refuses it


def test_no_reason_is_given_for_what_no_rule_asks(scraped: Prometheus) -> None:
    rules = scraped.rules()
    asked = {one.partition("{")[0] for rule in rules for one in metrics_of(rule["query"])}
    assert EMPTY.keys() <= asked | {rule["name"] for rule in rules}


def test_the_alerts_of_a_sound_box_are_silent(scraped: Prometheus) -> None:
    firing = {one["metric"]["alertname"] for one in scraped.query('ALERTS{alertstate="firing"}')}
    severe = {"FairlaneDown", "FairlaneDeviceAbsent", "FairlaneScorerDown", "FairlaneJournalLost"}
    assert firing & (severe | {"FairlaneIdleWhileWaiting", "FairlaneDefaultModelMissing"}) == set()


def test_a_gateway_that_is_gone_raises_the_alarm(tmp_path: Path) -> None:
    with Box(workers__engine="null") as box, Prometheus(box.url.removeprefix("http://")) as server:
        until(lambda: server.value("fairlane_up") == 1.0, "a scrape", within_s=120.0)
        box.stop()
        until(lambda: server.value("up") == 0.0, "a failed scrape", within_s=120.0)
        pending = 'ALERTS{alertname="FairlaneDown"}'
        until(lambda: server.query(pending), "a pending alert", within_s=120.0)
