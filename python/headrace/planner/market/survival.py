"""Computes how long a failover takes after a loss of the server or of its zone, and how much data
is lost with a zone (data/managed: figures of each service, with source and date)."""

from __future__ import annotations

import math

from headrace.base import core
from headrace.planner.candidates import AURORA

# Metrics of goals.
SURVIVAL = ("failover_s", "lost_with_zone_s")


def option_of(service: str, readers: int) -> str | None:
    """Says what the rules of a service tell apart: an Aurora cluster with a reader, or without."""
    if not service.startswith(AURORA):
        return None
    return "reader" if readers else "no-reader"


def survival_of(service: str, as_of: str, readers: int) -> dict[str, float]:
    """Returns two times, s. `failover_s`: until the database is back after its server is lost, at
    the most; `lost_with_zone_s`: seconds of commits that are lost with an availability zone. NaN:
    not known, or without a bound, as for a single server of EC2, whose volumes are gone with their
    zone."""
    option = option_of(service, readers)
    figures = {}
    for name, key, rule_option in zip(SURVIVAL, ("rto_high", "rpo_zone"), (option, None), strict=True):
        rule = core.managed_rule(service, key, as_of, rule_option)
        figures[name] = float(rule["value"]) if rule is not None and rule["value"] else math.nan
    return figures
