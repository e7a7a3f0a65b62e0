"""Samples as prometheus-client knows them, and the format that a scraper asks for.

The library is imported with the first scrape: it takes 70 ms, and a gateway is asked for answers first.
"""

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.registry import Collector

from scheduler.gateway.metrics.table import TABLE, Metric
from scheduler.gateway.metrics.text import Samples, Writer, number

_FAMILIES: dict[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


class Snapshot(Collector):
    """One look at the box, as a collector."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Any]:
        """Yield a family for each metric of which something is known."""
        for metric in TABLE:
            rows = self._samples.get(metric.key)
            if rows:
                yield _family(metric, rows)


def rendered(samples: Samples, accept: str, writer: Writer) -> tuple[bytes, str]:
    """Return a page and its content type.

    Args:
        samples: What is known.
        accept: The scraper's Accept header.
        writer: Of the usual formats; names escaped in another way are the library's to write.
    """
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:  # a version that is no number
        encode, content_type = generate_latest, CONTENT_TYPE_PLAIN_0_0_4
    if content_type.endswith(("escaping=dots", "escaping=values")):
        registry = CollectorRegistry()
        registry.register(Snapshot(samples))
        return encode(registry), content_type
    openmetrics = content_type.startswith("application/openmetrics-text")
    return writer.page(samples, openmetrics=openmetrics), content_type


def _family(metric: Metric, rows: list[list[Any]]) -> Any:
    name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    if not metric.buckets:
        family = _FAMILIES[metric.kind](name, metric.help, labels=metric.labels, unit=metric.unit)
        for row in rows:
            family.add_metric(row[:-1], row[-1])
        return family
    spread = HistogramMetricFamily(name, metric.help, labels=metric.labels, unit=metric.unit)
    bounds = [*(number(bound) for bound in metric.buckets), "+Inf"]
    for *labels, counts, total in rows:
        below = [sum(counts[: place + 1]) for place in range(len(counts))]
        spread.add_metric(labels, list(zip(bounds, below, strict=True)), total)
    return spread
