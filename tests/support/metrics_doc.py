"""Makes ops/METRICS.md from scheduler/gateway/metrics/table.py.

python tests/support/metrics_doc.py        writes it
"""

from pathlib import Path

from scheduler.gateway.metrics.labels import LABELS
from scheduler.gateway.metrics.table import TABLE, Metric

DOCUMENT = Path(__file__).resolve().parents[2] / "ops" / "METRICS.md"

_HEAD = """\
# The metrics

`GET /metrics` of the gateway, for Prometheus. Made by `tests/support/metrics_doc.py` from the table in
`scheduler/gateway/metrics/table.py`; tests hold this document, the table and a scrape to each other.

- One scrape is one look at the broker, so its figures are of one instant. While no broker answers, the page
  says `fairlane_up 0` and nothing that only the broker knows.
- What is not known has no series; 0 means zero.
- Four metrics are there under the names of vLLM, too; `GET /metrics?aliases=0` leaves these out.
- Counters begin anew with each start of the broker (`fairlane_start_time_seconds`), which Prometheus reads
  as a reset, but for those that the journal carries on; a counter never falls otherwise. One whose labels are
  closed sets is there from 0 on, and so are a known lane's `queue_full` and `client_gone`.
- A label has a closed or bounded set of values: 10,000 names of lanes do not make 10,000 series.
- What is a ratio over some time is made by a rule out of counters: the cache's hit ratio of
  `prompt_tokens_cached` and `prompt_tokens_computed`, the share of device time in reload and re-prefill of
  the phases `load` and `reprefill` in `device_phase_seconds`, the error of estimates of
  `estimate_error_seconds` over `measured_seconds`.
"""


def document() -> str:
    """Return the whole text."""
    parts = [_HEAD, "## Metrics", "", "| name | type | unit | labels | source | | no series when |"]
    parts += ["|---|---|---|---|---|---|---|", *(_row(metric) for metric in TABLE), ""]
    parts += ["## Buckets", "", "| histogram | upper bounds, seconds |", "|---|---|"]
    parts += [
        f"| `{metric.name}` | {', '.join(f'{bound:g}' for bound in metric.buckets)} |"
        for metric in TABLE
        if metric.buckets
    ]
    parts += ["", "## Labels", "", "| label | values |", "|---|---|"]
    parts += [f"| `{label}` | {values} |" for label, values in sorted(LABELS.items())]
    return "\n".join([*parts, ""])


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    cells = [f"`{metric.name}`", metric.kind, metric.unit, labels, metric.source, metric.help]
    return "| " + " | ".join([*cells, metric.absent]) + " |"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
