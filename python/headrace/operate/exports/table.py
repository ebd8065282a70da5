"""The table of metrics (metrics.csv): from it come the exposition for Prometheus, OTLP, the Grafana
dashboard and the alert rules, so that no name stands twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from headrace.base.packaged import read_rows

KINDS = ("counter", "gauge", "histogram")


@dataclass(frozen=True)
class ExportedMetric:
    """A row of the table. `by`: who serves it: the endpoint of a `lab`, `headrace export`, or
    `both`; `panel`: the panel of the dashboard, `counter`: the counter of the statistics page
    behind it, `field`: the key of the daemon's answer (`Lab.metrics_totals`), "" for none."""

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    of: str
    by: str
    panel: str
    counter: str
    field: str
    help: str
    source: str
    date: str


@cache
def read_metrics() -> dict[str, ExportedMetric]:
    """Returns the table by name, in its order."""
    table = {}
    for row in read_rows("headrace.operate.exports", "metrics.csv"):
        labels = row.pop("labels")
        table[row["name"]] = ExportedMetric(labels=tuple(labels.split(",")) if labels else (), **row)
    return table


def select_exported_metrics() -> dict[str, ExportedMetric]:
    """Returns the metrics that `headrace export` writes."""
    return {name: metric for name, metric in read_metrics().items() if metric.by != "lab"}


def select_lab_metrics() -> dict[str, ExportedMetric]:
    """Returns the metrics that the endpoint of a lab serves."""
    return {name: metric for name, metric in read_metrics().items() if metric.by != "export"}


def group_by_panel() -> dict[str, list[ExportedMetric]]:
    """Returns the metrics by panel of the dashboard, in the order of the table."""
    panels: dict[str, list[ExportedMetric]] = {}
    for metric in select_exported_metrics().values():
        if metric.panel:
            panels.setdefault(metric.panel, []).append(metric)
    return panels
