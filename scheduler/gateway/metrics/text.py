"""Samples as lines of the exposition format, fast: what stands before a figure is made once and kept.

Rules of this file: pure. What it writes reads as what prometheus-client's own writers write, which tests hold
it to; those escape each label of each line anew, and in the newer format spell `vllm:` as `vllm_`.
"""

from typing import Any, Final

from scheduler.gateway.metrics.table import TABLE, Metric

Samples = dict[
    str, list[list[Any]]
]  # a metric's key -> label values and figure; see core/samples.py

_KEPT_MAX: Final = 50_000  # heads of lines; beyond, all are made anew


class Writer:
    """Writes pages, and keeps what they have in common."""

    def __init__(self) -> None:
        self._heads: dict[str, dict[tuple[str, ...], list[str]]] = {m.name: {} for m in TABLE}
        self._kept = 0
        self._titles = {
            metric.name: (_title(metric, open_=False), _title(metric, open_=True))
            for metric in TABLE
        }

    def page(self, samples: Samples, *, openmetrics: bool) -> bytes:
        """Return a page.

        Args:
            samples: What is known.
            openmetrics: In that format instead of the older one.
        """
        out: list[str] = []
        for metric in TABLE:
            rows = samples.get(metric.key)
            if rows:
                out.append(self._titles[metric.name][openmetrics])
                (self._histogram if metric.buckets else self._plain)(out, metric, rows)
        if openmetrics:
            out.append("# EOF\n")
        return "".join(out).encode()

    def _plain(self, out: list[str], metric: Metric, rows: list[list[Any]]) -> None:
        known = self._heads[metric.name]
        for row in rows:
            labels = tuple(row[:-1])
            heads = known.get(labels) or self._keep(metric, labels)
            out.append(f"{heads[0]}{number(row[-1])}\n")

    def _histogram(self, out: list[str], metric: Metric, rows: list[list[Any]]) -> None:
        known = self._heads[metric.name]
        for row in rows:
            labels = tuple(row[:-2])
            heads = known.get(labels) or self._keep(metric, labels)
            below = 0
            for head, count in zip(heads, row[-2], strict=False):
                below += count
                out.append(f"{head}{number(below)}\n")
            out.append(f"{heads[-2]}{number(below)}\n{heads[-1]}{number(row[-1])}\n")

    def _keep(self, metric: Metric, labels: tuple[str, ...]) -> list[str]:
        if self._kept >= _KEPT_MAX:  # whoever names labels is bounded, but not for all time
            self._heads, self._kept = {m.name: {} for m in TABLE}, 0
        self._kept += 1
        heads = self._heads[metric.name][labels] = _made(metric, labels)
        return heads


def number(value: float) -> str:
    """Return a figure, which in this format is always a float."""
    return repr(float(value))


def _title(metric: Metric, *, open_: bool) -> str:
    name = metric.name.removesuffix("_total") if open_ else metric.name
    text = metric.help.replace("\\", r"\\")
    unit = f"# UNIT {name} {metric.unit}\n" if open_ and metric.unit else ""
    return f"# HELP {name} {text}\n# TYPE {name} {metric.kind}\n{unit}"


def _made(metric: Metric, values: tuple[str, ...]) -> list[str]:
    """Return what stands before the figures: of a plain metric one, of a histogram buckets, count and sum."""
    pairs = dict(zip(metric.labels, values, strict=True))
    if not metric.buckets:
        return [_head(metric.name, pairs)]
    bounds = [*(number(bound) for bound in metric.buckets), "+Inf"]
    buckets = [_head(f"{metric.name}_bucket", {**pairs, "le": bound}) for bound in bounds]
    return [*buckets, _head(f"{metric.name}_count", pairs), _head(f"{metric.name}_sum", pairs)]


def _head(name: str, labels: dict[str, str]) -> str:
    shown = ",".join(f'{label}="{_escaped(value)}"' for label, value in sorted(labels.items()))
    return f"{name}{{{shown}}} " if shown else f"{name} "


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
