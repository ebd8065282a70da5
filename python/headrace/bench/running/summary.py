"""The summary of a run: its figures, and findings on their validity."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from headrace.base import caps
from headrace.base.units import format_percent
from headrace.bench.drivers.benchmark import SHARES, ToolOutcome
from headrace.bench.running.environment import BUSY_SHARE
from headrace.bench.target import Target
from headrace.errors import HeadraceError
from headrace.observe.live.samples import Samples

MEANS = (
    "qps",
    "errors_per_s",
    "read_iops",
    "write_iops",
    "flush_iops",
    "read_mib_s",
    "write_mib_s",
    "queue",
    "busy",
    "read_wait_ms",
    "write_wait_ms",
)
CAPS = tuple(map(caps.name_column, caps.COUNTED))
# With a smaller idle share of the processors the machine limits the run.
LEAST_IDLE_SHARE = 0.10
STEAL_SHARE = 0.01  # of the processors (a guess)
ERROR_SHARE = 0.01  # of the transactions (a guess)
# Share of the mean wait of I/Os by which late answers are noted.
LATE_SHARE = 0.10
COLD_SHARE = 0.5  # of what the cache can hold of the data (a guess)


def compute_figures(series: pl.DataFrame, outcome: ToolOutcome) -> dict[str, float | None]:
    """Returns means over the part that counts, percentiles of its histogram, and shares of time
    0..1. None: not measured."""
    part = series.filter(pl.col("phase") == "measure")
    results: dict[str, float | None] = {"seconds": float(part["duration_s"].sum())}
    results |= {
        "tps": mean(part, "tps"),
        "tps_sd": _compute_statistic(partial(np.std, ddof=1), part["tps"], 2),
        "tps_min": _compute_statistic(np.min, part["tps"]),
        "tps_max": _compute_statistic(np.max, part["tps"]),
    }
    results["stall_s"] = float(part.filter(pl.col("tps") == 0)["duration_s"].sum())
    results |= {name: mean(part, name) for name in MEANS}
    results |= dict.fromkeys(SHARES) if outcome.histogram is None else outcome.histogram.summarize()
    results |= {name: outcome.figures.get(name) for name in ("mean_ms", "max_ms", "transactions", "errors")}
    results["p95_of_seconds_ms"] = _compute_statistic(np.median, part["p95_ms"])
    results |= outcome.figures
    results |= _compute_per_transaction(part)
    results |= {name: mean(part, name) for name in CAPS if name in part.columns}
    for name in ("balance_percent", "innodb_buffer_pool_pages_free"):
        if name in part.columns and (samples := part[name].drop_nulls()).len():
            results |= {f"{name}_first": float(samples[0]), f"{name}_last": float(samples[-1])}
    for name in ("user_cpus", "system_cpus", "iowait_cpus", "idle_cpus", "steal_cpus", "lab_late_p99_ms"):
        if name in part.columns:
            results[name] = mean(part, name)
    return {
        name: None if value is None or not math.isfinite(value) else float(value) for name, value in results.items()
    }


def mean(part: pl.DataFrame, name: str) -> float | None:
    """Returns the mean over time of the rows that have the figure, in its own unit; None without
    any."""
    if name not in part.columns:
        return None
    rows = part.select(name, "duration_s").drop_nulls()
    length = float(rows["duration_s"].sum())
    return float((rows[name] * rows["duration_s"]).sum()) / length if length else None


def _compute_statistic(figure: Callable[[np.ndarray], float], column: pl.Series, least: int = 1) -> float | None:
    """Returns a statistic of the values that are not null; None for fewer than `least`."""
    values = column.drop_nulls().to_numpy()
    return float(figure(values)) if len(values) >= least else None


def _compute_per_transaction(part: pl.DataFrame) -> dict[str, float | None]:
    """Returns I/Os and KiB a transaction: sums over the rows that have both; None without
    transactions."""
    results: dict[str, float | None] = {}
    for name, column, factor in (
        ("reads_per_transaction", "read_iops", 1.0),
        ("writes_per_transaction", "write_iops", 1.0),
        ("read_kib_per_transaction", "read_mib_s", 1024.0),
        ("write_kib_per_transaction", "write_mib_s", 1024.0),
    ):
        if column in part.columns:
            rows = part.select("tps", "duration_s", column).drop_nulls()
            done = float((rows["tps"] * rows["duration_s"]).sum())
            results[name] = factor * float((rows[column] * rows["duration_s"]).sum()) / done if done else None
    return results


def classify_start(samples: Samples, target: Target, data_gib: float | None) -> str:
    """Returns cold or warm: cold where less than half of the data that fit into the cache were in
    it at the first sample. MyRocks, and a server that does not report its pool, are cold in the
    first 60 s after their start."""
    status = samples.status
    if (
        status.height
        and target.engine == "innodb"
        and {"innodb_buffer_pool_pages_data", "innodb_buffer_pool_pages_total"} <= set(status.columns)
    ):
        page_gib = (
            float((status["innodb_page_size"][0] if "innodb_page_size" in status.columns else None) or 16_384) / 2**30
        )
        cached_gib = (status["innodb_buffer_pool_pages_data"][0] or 0) * page_gib
        capacity_gib = (status["innodb_buffer_pool_pages_total"][0] or 0) * page_gib
        return "cold" if cached_gib < COLD_SHARE * min(capacity_gib, data_gib or capacity_gib) else "warm"
    uptime = status["uptime"][0] if status.height and "uptime" in status.columns else None
    return "cold" if uptime is not None and uptime < 60 else "warm"


def list_findings(
    document: dict, series: pl.DataFrame, samples: Samples, failure: HeadraceError | None, interrupted: bool
) -> list[str]:
    """Returns sentences on an early end, missing and doubtful figures of a run, the gravest first.
    `failure` is the error that ended it early, None: no error did."""
    part = series.filter(pl.col("phase") == "measure")
    load = document["load"]
    sentences = []
    if interrupted:
        sentences.append(
            f"Stopped after {series['duration_s'].sum():,.0f} of {load['warmup_s'] + load['seconds']:,} s: what was measured until then."
        )
    if failure is not None:
        sentences.append(
            f"Ended early, after {series['duration_s'].sum():,.0f} of {load['warmup_s'] + load['seconds']:,} s: {failure.rule}."
        )
    if not part.height:
        sentences.append("Nothing was measured after the warm-up: all figures are empty.")
    tps, errors = mean(part, "tps"), mean(part, "errors_per_s")
    if tps and errors and errors > ERROR_SHARE * tps:
        sentences.append(f"{errors:,.1f} errors a second with {tps:,.0f} transactions: see raw/output.txt.")
    if (stalled := part.filter(pl.col("tps") == 0).height) and part.height:
        sentences.append(f"In {stalled} of {part.height} rows nothing was done at all.")
    sentences += _describe_machine(document, part)
    sentences += _describe_lateness(part)
    return sentences + [f"{note}." for note in samples.notes]


def compute_idle_share(environment: dict, idle: float | None, waiting: float | None) -> float | None:
    """Returns the idle share (0..1) of the processors that a run may use (cpuset, taskset) from the
    mean number of idle and waiting processors; None if they were not counted. Processors that the
    run may not use are taken for idle, so the work of others on them counts as the run's.
    """
    if idle is None:
        return None
    cpus = environment.get("cpus") or 1
    usable = environment.get("cpus_usable") or cpus
    return max(0.0, idle + (waiting or 0.0) - (cpus - usable)) / usable


def _describe_machine(document: dict, part: pl.DataFrame) -> list[str]:
    """Returns sentences about a machine that was busy before the run, had no idle processor in it,
    or lost time to the hypervisor."""
    sentences = []
    before, cpus = document["environment"]["before"], document["environment"]["cpus"] or 1
    if before["busy_share"] > BUSY_SHARE:
        sentences.append(
            f"Before the run the machine was not at rest: {format_percent(before['busy_share'])} of its processors were in "
            f"use, load {before['load1']:.1f}."
        )
    idle, waiting, steal = (mean(part, name) for name in ("idle_cpus", "iowait_cpus", "steal_cpus"))
    share = compute_idle_share(document["environment"], idle, waiting)
    if share is not None and share < LEAST_IDLE_SHARE:
        sentences.append(
            f"The processors were {format_percent(1 - share)} busy: the figures are those of the machine, not of its "
            "storage alone."
        )
    if steal is not None and steal > STEAL_SHARE * cpus:
        sentences.append(f"{format_percent(steal / cpus, 1)} of the processors' time was taken by the hypervisor.")
    return sentences


def _describe_lateness(part: pl.DataFrame) -> list[str]:
    """Returns a sentence where the lab's answers left late by a notable share of the volume's waits
    (ms); else none."""
    late = mean(part, "lab_late_p99_ms")
    waits = [value for value in (mean(part, "read_wait_ms"), mean(part, "write_wait_ms")) if value]
    if late and waits and late > LATE_SHARE * max(waits):
        return [
            (
                f"The lab's answers left late, by {late:.2f} ms at the 99th percentile, compared with waits of "
                f"{max(waits):.2f} ms: the machine has too much to do."
            )
        ]
    return []
