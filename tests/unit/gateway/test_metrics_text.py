"""The page of metrics: what we write reads as what prometheus-client writes, in the form asked for."""

import subprocess
from itertools import count
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_plain

from scheduler.gateway.metrics import collector
from scheduler.gateway.metrics.collector import Snapshot, rendered
from scheduler.gateway.metrics.table import TABLE
from scheduler.gateway.metrics.text import Samples, Writer
from support import debian

NASTY = ('a"b', "back\\slash", "new\nline", "ünïcode", "", " ", "}", "x=1,y", "#", "\\n")
OPEN = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


def made(*values: str) -> Samples:
    """Return samples of every metric, with label values of these in turn and figures that all differ."""
    figures = count(1)
    samples: Samples = {}
    for metric in TABLE:
        rows: list[list[Any]] = []
        for value in values:
            labels = [value] * len(metric.labels)
            if metric.buckets:
                counts = [next(figures) for _ in range(len(metric.buckets) + 1)]
                rows.append([*labels, counts, next(figures) / 7])
            else:
                rows.append([*labels, next(figures) * 1_000.25])
            if not metric.labels:
                break
        samples[metric.key] = rows
    return samples


def families(text: bytes, *, openmetrics: bool) -> list[Any]:
    read = read_openmetrics if openmetrics else read_plain
    return list(read(text.decode()))


@pytest.mark.parametrize("openmetrics", [False, True])
def test_it_reads_as_the_librarys_own_page(
    openmetrics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = made(*NASTY)
    ours = Writer().page(samples, openmetrics=openmetrics)
    if openmetrics:  # the library's writer of this form spells vllm: as vllm_ in the lines alone
        ours = b"".join(line for line in ours.splitlines(keepends=True) if b"vllm:" not in line)
        monkeypatch.setattr(collector, "TABLE", [m for m in TABLE if not m.alias_of])
    encode = generate_openmetrics if openmetrics else generate_latest
    theirs = encode(Snapshot(samples))
    assert families(ours, openmetrics=openmetrics) == families(theirs, openmetrics=openmetrics)
    names = {family.name for family in families(ours, openmetrics=openmetrics)}
    assert len(names) == sum(not (openmetrics and metric.alias_of) for metric in TABLE)


def test_the_second_page_of_a_writer_is_like_the_first() -> None:
    writer, samples = Writer(), made("a", "b")
    first = writer.page(samples, openmetrics=True)
    assert writer.page(samples, openmetrics=True) == first
    assert b'"a"' not in writer.page(made("c"), openmetrics=True)


def test_a_figure_that_changes_is_written_and_a_series_that_was_away_comes_back() -> None:
    writer = Writer()
    for seats in (1, 2, 2.5, 1):
        rows: Samples = {
            "seats": [["hrx0", seats]],
            "cancel_seconds": [[[seats, 2, *[0] * 9], seats]],
        }
        for openmetrics in (True, False):
            page = writer.page(rows, openmetrics=openmetrics)
            assert page == Writer().page(rows, openmetrics=openmetrics)
            assert f'fairlane_seats{{device="hrx0"}} {float(seats)}\n'.encode() in page
        writer.page({"seats": [["npu0", 7]]}, openmetrics=True)


def test_what_is_kept_between_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.gateway.metrics.text._KEPT_MAX", 500)
    writer = Writer()
    for n in range(20):
        samples = made(*(f"{n} {m}" for m in range(9)))
        page = writer.page(samples, openmetrics=True)
        assert page == Writer().page(samples, openmetrics=True)
    assert sum(map(len, writer._kept.values())) <= 500


def test_a_metric_of_which_nothing_is_known_is_not_there() -> None:
    page = Writer().page({"up": [[0]]}, openmetrics=False)
    assert page.decode().splitlines() == [
        "# HELP fairlane_up 1 if the broker answered this scrape, else 0.",
        "# TYPE fairlane_up gauge",
        "fairlane_up 0.0",
    ]


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/html", "text/plain; version=0.0.4; charset=utf-8"),
        (OPEN, "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"),
        ("application/openmetrics-text; version=nonsense", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=x.y", "text/plain; version=0.0.4; charset=utf-8"),
        (",;=,;;version==1", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)  # fmt: skip
def test_the_form_is_the_one_asked_for(accept: str, content_type: str) -> None:
    page, told = rendered(made("a"), accept, Writer())
    assert told == content_type
    openmetrics = told.startswith("application/openmetrics-text")
    assert page.endswith(b"# EOF\n") == openmetrics
    assert len(families(page, openmetrics=openmetrics)) == len(TABLE)


def test_names_escaped_in_another_way_are_left_to_the_library() -> None:
    accept = "application/openmetrics-text; version=1.0.0; escaping=values"
    page, told = rendered(made("a"), accept, Writer())
    assert told.endswith("escaping=values")
    assert b"\nU__fairlane__up " in page


def test_promtool_minds_only_the_colon_in_the_names_of_vllm() -> None:
    (promtool,) = debian.require("prometheus", "promtool")
    page, _ = rendered(made("a", "b"), "", Writer())
    ran = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, timeout=60, check=False
    )
    said = (ran.stdout + ran.stderr).decode().splitlines()
    assert sorted(said) == sorted(
        f"{metric.name} metric names should not contain ':'" for metric in TABLE if metric.alias_of
    )
