"""Samples as lines of the exposition format, fast: a line is made again only when its figure has changed.

Rules of this file: pure. What it writes reads as what prometheus-client's own writers write, which tests hold
it to; those escape each label of each line anew, and in the newer format spell `vllm:` as `vllm_`.
"""

from itertools import accumulate
from typing import Any, Final

from scheduler.gateway.metrics.table import TABLE, Metric

Samples = dict[
    str, list[list[Any]]
]  # a metric's key -> label values and figure; see core/samples.py

_KEPT_MAX: Final = 50_000  # series of which lines are kept; beyond, all are made anew


class _Kept:
    """The lines of one series: of a histogram its buckets, count and sum."""

    __slots__ = ("figures", "heads", "text")

    def __init__(self, heads: list[str]) -> None:
        self.heads = heads  # what stands before each figure
        self.figures: list[Any] = []  # those of the last page
        self.text = ""


class Writer:
    """Writes pages, and keeps what the next one has in common with the last."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[tuple[str, ...], _Kept]] = {m.name: {} for m in TABLE}
        self._many = 0
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
                self._write(out, metric, rows)
        if openmetrics:
            out.append("# EOF\n")
        return "".join(out).encode()

    def _write(self, out: list[str], metric: Metric, rows: list[list[Any]]) -> None:
        known, width = self._kept[metric.name], len(metric.labels)
        lines = _histogram if metric.buckets else _plain
        for row in rows:
            labels, figures = tuple(row[:width]), row[width:]
            kept = known.get(labels) or self._keep(metric, labels)
            if kept.figures != figures:
                kept.figures, kept.text = figures, lines(kept.heads, figures)
            out.append(kept.text)

    def _keep(self, metric: Metric, labels: tuple[str, ...]) -> _Kept:
        if (
            self._many >= _KEPT_MAX
        ):  # the labels of one page are bounded, but not those of all pages
            for known in self._kept.values():
                known.clear()
            self._many = 0
        self._many += 1
        kept = self._kept[metric.name][labels] = _Kept(_heads(metric, labels))
        return kept


def _plain(heads: list[str], figures: list[Any]) -> str:
    return f"{heads[0]}{number(figures[0])}\n"


def _histogram(heads: list[str], figures: list[Any]) -> str:
    counts, total = figures
    below = [*accumulate(counts)]
    shown = [*map(number, below), number(below[-1]), number(total)]
    return "".join(f"{head}{figure}\n" for head, figure in zip(heads, shown, strict=True))


def number(value: float) -> str:
    """Return a figure, which in this format is always a float."""
    return repr(float(value))


def _title(metric: Metric, *, open_: bool) -> str:
    name = metric.name.removesuffix("_total") if open_ else metric.name
    text = metric.help.replace("\\", r"\\")
    unit = f"# UNIT {name} {metric.unit}\n" if open_ and metric.unit else ""
    return f"# HELP {name} {text}\n# TYPE {name} {metric.kind}\n{unit}"


def _heads(metric: Metric, values: tuple[str, ...]) -> list[str]:
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
