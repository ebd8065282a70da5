"""The processors of a recording that has them next to the disks (iostat's avg-cpu, vmstat, sar -u):
storage is not to blame for a host that computes all the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from headrace.base.units import span_in_words
from headrace.observe.evidence.model import Evidence
from headrace.operate.doctor.model import Finding
from headrace.operate.doctor.slowness import stretches
from headrace.operate.doctor.thresholds import Thresholds
from headrace.operate.doctor.verdicts import table

SHARES = ("user_cpus", "system_cpus", "idle_cpus", "iowait_cpus", "steal_cpus")


def processors_finding(
    evidence: Evidence, at: Callable[[float], str], t: Thresholds, storage_waits: bool
) -> Finding | None:
    """Processors that are nearly spent for a good part of the recording. `storage_waits`: something
    of storage was found too, so that it does not keep up."""
    rows = evidence.host
    if not rows.height or not {"user_cpus", "system_cpus", "idle_cpus"} <= set(rows.columns):
        return None
    every = sum((pl.col(name).fill_null(0.0) for name in SHARES if name in rows.columns), pl.lit(0.0))
    steal = pl.col("steal_cpus").fill_null(0.0) if "steal_cpus" in rows.columns else pl.lit(0.0)
    shares = rows.select(
        "t_unix",
        "duration_s",
        ((pl.col("user_cpus") + pl.col("system_cpus")) / every).alias("busy"),
        (steal / every).alias("steal"),
    ).with_columns(spent=((pl.col("busy") >= t.processor_share) | (pl.col("steal") >= t.steal_share)).fill_null(False))
    spent = shares.filter(pl.col("spent"))
    seconds = float(spent["duration_s"].sum())
    if seconds < t.window_s or seconds < t.spent_share * float(shares["duration_s"].sum()):
        return None
    first, behind = stretches(shares["spent"])[0]
    part = shares[first:behind]
    begin = float(rows["t_unix"][0])
    begins = float(part["t_unix"][0]) - begin
    ends = float(part["t_unix"][-1] + part["duration_s"][-1]) - begin
    busy, steal_share = (float(part[name].mean() or 0.0) for name in ("busy", "steal"))  # type: ignore[arg-type]
    count = f" of {evidence.facts.vcpus} processors" if evidence.facts.vcpus else " of the processors"
    in_all = "" if seconds <= ends - begins else f" ({span_in_words(round(seconds))} in all)"
    when = f"From {at(begins)} to {at(ends)}{in_all}"
    storage = "Storage waited as well" if storage_waits else "Storage kept up"
    name = "recorded-processors-too" if storage_waits else "recorded-processors"
    finding = table()["recorded-steal" if steal_share >= t.steal_share else name].finding(
        weight=seconds, when=when, busy_share=busy, steal_share=steal_share, count=count, storage=storage
    )
    return replace(finding, from_unix=begins, to_unix=ends)
