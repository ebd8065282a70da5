"""Alert rules for Prometheus, from alerts.csv and the table of metrics."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from headrace.base.packaged import read_rows
from headrace.operate.exports.table import read_metrics

GROUP = "headrace"
# A metric of the table in an expression: {headrace_verdict}.
NAMED = re.compile(r"(?<!\{)\{([a-z_0-9]+)\}(?!\})")


@dataclass(frozen=True)
class AlertRule:
    """A row of alerts.csv with the names of its metrics. The alert fires once its expression has
    held for `for_s` seconds, and ends `off_s` seconds after it held last."""

    name: str
    expression: str
    for_s: int
    off_s: int
    severity: str
    summary: str
    do: str


def alert_rules() -> list[AlertRule]:
    """Returns the rules of alerts.csv. Raises KeyError for a metric that is not in the table."""
    return [
        AlertRule(
            row["name"],
            NAMED.sub(lambda match: read_metrics()[match[1]].name, row["expression"]),
            int(row["for_s"]),
            int(row["off_s"]),
            row["severity"],
            row["summary"],
            row["do"],
        )
        for row in read_rows("headrace.operate.exports", "alerts.csv")
    ]


def build_rules_file() -> str:
    """Returns the text of a rule file of Prometheus 2.42 and newer (keep_firing_for)."""
    lines = [
        "# Written by `headrace export template alerts`. Metrics are those of `headrace export prometheus`.",
        "groups:",
        f"  - name: {GROUP}",
        "    rules:",
    ]
    for rule in alert_rules():
        # A JSON text is a YAML text in quotation marks.
        lines += [
            f"      - alert: {rule.name}",
            f"        expr: {json.dumps(rule.expression)}",
            f"        for: {rule.for_s}s",
            f"        keep_firing_for: {rule.off_s}s",
            "        labels:",
            f"          severity: {rule.severity}",
            "        annotations:",
            f"          summary: {json.dumps(rule.summary)}",
            f"          do: {json.dumps(rule.do)}",
        ]
    return "\n".join(lines) + "\n"
