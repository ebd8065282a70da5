"""The Grafana dashboard, from the table of metrics: a panel for each name in its column `panel`.

dashboard.json and panel.json are what all have alike, for Grafana 10 and newer (grafana/kinds,
dashboard schema; a test reads it with its types).
"""

from __future__ import annotations

import json
from typing import Any

from headrace.base.packaged import read_text
from headrace.operate.exports.table import ExportedMetric, group_by_panel

# Columns of the grid, and of a panel: two panels in a row.
GRID, WIDE, HIGH = 24, 12, 8
UNITS = {"bytes": "binBps", "seconds": "s", "ratio": "percentunit", "": "short"}
# Counters of time per time are shares.
SHARE = "percentunit"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def build_dashboard() -> dict[str, object]:
    """Returns the dashboard as Grafana imports it."""
    panels = [_build_panel(number, title, metrics) for number, (title, metrics) in enumerate(group_by_panel().items())]
    return {**_read("dashboard.json"), "panels": panels}


def _read(name: str) -> dict[str, Any]:
    return json.loads(read_text("headrace.operate.exports", name))


def _build_panel(number: int, title: str, metrics: list[ExportedMetric]) -> dict[str, object]:
    """Returns the panel of the metrics with this title. `number`: its place in the grid, from 0."""
    targets = [target for metric in metrics for target in _build_targets(metric)]
    for nth, target in enumerate(targets):
        target["refId"] = chr(ord("A") + nth)
    row, column = divmod(number, GRID // WIDE)
    panel = _read("panel.json")
    panel["fieldConfig"]["defaults"]["unit"] = _choose_unit(title, metrics[0])
    return panel | {
        "id": number + 1,
        "title": title,
        "description": " ".join(dict.fromkeys(metric.help for metric in metrics)),
        "gridPos": {"h": HIGH, "w": WIDE, "x": WIDE * column, "y": HIGH * row},
        "targets": targets,
    }


def _choose_unit(title: str, metric: ExportedMetric) -> str:
    if metric.kind == "counter" and metric.unit == "seconds" and not title.startswith("Mean"):
        return SHARE
    return UNITS[metric.unit]


def _build_targets(metric: ExportedMetric) -> list[dict[str, object]]:
    """Returns the queries of a metric: two quantiles of a histogram, the rate of a counter (mean
    latency: time by requests), or the value of a gauge."""
    chosen = '{volume_id=~"$volume_id"}' if "volume_id" in metric.labels else ""
    by = ", ".join(metric.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    if metric.kind == "histogram":
        rate = f"sum by (le, {by}) (rate({metric.name}_bucket{chosen}[$__rate_interval]))"
        return [_make_target(f"histogram_quantile({q}, {rate})", f"p{100 * q:g} {legend}") for q in (0.5, 0.99)]
    if metric.kind == "counter":
        rate = f"rate({metric.name}{chosen}[$__rate_interval])"
        if metric.panel == "Mean latency":
            ops = metric.name.replace("_seconds_total", "_ops_total")
            rate = f"{rate} / rate({ops}{chosen}[$__rate_interval])"
        return [_make_target(rate, f"{_shorten_name(metric)} {legend}")]
    return [_make_target(f"{metric.name}{chosen}", f"{_shorten_name(metric)} {legend}")]


def _shorten_name(metric: ExportedMetric) -> str:
    name = metric.name.removeprefix("aws_ebs_csi_").removeprefix("headrace_").removesuffix("_total")
    return name.removesuffix("_seconds").removesuffix("_ratio").replace("_", " ")


def _make_target(expression: str, legend: str) -> dict[str, object]:
    return {"datasource": DATASOURCE, "expr": expression, "legendFormat": legend.strip(), "refId": "A"}
