"""The table of metrics, and the document that is made of it."""

import re

from scheduler.gateway.metrics.labels import LABELS
from scheduler.gateway.metrics.table import BY_NAME, PREFIX, TABLE
from support import metrics_doc

# what may stand at the end of a name that is no plain number; a rate is a count a second
_ENDINGS = r"_(seconds|bytes|joules|watts|celsius|hertz|ratio)(_total)?$"


def test_the_document_is_current() -> None:
    assert metrics_doc.DOCUMENT.read_text() == metrics_doc.document(), (
        "run: PYTHONPATH=. python tests/support/metrics_doc.py"
    )


def test_names_follow_the_conventions() -> None:
    assert len(BY_NAME) == len(TABLE)
    for metric in TABLE:
        assert metric.name.startswith((PREFIX, "vllm:")), metric.name
        assert re.fullmatch(r"[a-z0-9_]+(:[a-z0-9_]+)?", metric.name), metric.name
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        found = re.search(_ENDINGS, metric.name)
        assert metric.unit == (found[1] if found else ""), metric.name
        assert metric.help.endswith("."), metric.name


def test_every_label_is_bounded_and_used() -> None:
    used = {label for metric in TABLE for label in metric.labels}
    assert used == set(LABELS)


def test_histograms_reach_the_longest_wait_and_an_alias_has_the_same_shape() -> None:
    for metric in TABLE:
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(metric.buckets)
        if metric.kind == "histogram" and metric.name != "fairlane_decision_seconds":
            assert 600.0 in metric.buckets, metric.name
        if metric.alias_of:
            meant = BY_NAME[metric.alias_of]
            assert (meant.kind, meant.buckets) == (metric.kind, metric.buckets), metric.name
            assert len(meant.labels) == len(metric.labels), metric.name
