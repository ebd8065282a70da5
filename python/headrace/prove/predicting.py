"""Predictions of configurations, and the file they are kept in before anything is run."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.files import write_whole
from headrace.base.units import GIB
from headrace.bench import RunRecord
from headrace.bench.run.summary import LEAST_IDLE_SHARE
from headrace.prove.configuration import Configuration
from headrace.prove.result import Measured, Predicted
from headrace.prove.scale import iops_of
from headrace.simulation.database import predict
from headrace.workload.transactions import TransactionWorkload

PREDICTIONS_FILE = "predictions.json"
DRAWS = 24

# A cache fills while more than this share of what was free at first still is; so many seconds tell a percentile.
STILL_FREE, LEAST_SECONDS = 0.1, 5
FULL = 0.999


@dataclass(frozen=True)
class Percentiles:
    """How far the 95th percentile of response times lies above their mean.

    `spread`: relative to the mean, while the cache fills and all I/Os are reads; with it `burst`: I/Os that changed pages are written in at once, and that a transaction may have to
    wait behind, whoever else does. The two are independent: p95 - mean = sqrt((spread x mean)^2 + (burst / IOPS)^2). Where filling was not seen, `burst` is None and `spread` that of all.
    """

    spread: float
    burst: float | None

    def of(self, mean_ms: pl.Expr, full: pl.Expr, iops: float) -> pl.Expr:
        """In ms. `full`: whether pages are evicted; `iops`: at which the storage writes a burst."""
        written_ms = pl.when(full).then(1e3 * (self.burst or 0.0) / iops).otherwise(0.0)
        return mean_ms + ((self.spread * mean_ms) ** 2 + written_ms**2).sqrt()


def percentiles(record: RunRecord, workload: TransactionWorkload) -> Percentiles:
    """From the run calibrated on, by the medians over its seconds."""
    above, series = workload.database["clients"]["p95_over_mean"] - 1.0, record.series()
    if "innodb_buffer_pool_pages_free" not in series.columns:
        return Percentiles(above, None)
    free, threads = pl.col("innodb_buffer_pool_pages_free"), record.document["load"]["threads"]
    seconds = series.filter(free > STILL_FREE * free.first()).select(pl.col("p95_ms") * pl.col("tps") / (1e3 * threads))
    filling = seconds.to_series().drop_nulls()[1:]
    if len(filling) < LEAST_SECONDS:
        return Percentiles(above, None)
    spread = min(above, max(0.0, float(filling.median()) - 1.0))
    mean_s = threads / float(series.tail(series.height // 2)["tps"].mean())
    return Percentiles(spread, math.sqrt(above**2 - spread**2) * mean_s * iops_of(record.document["target"]["storage"]))


def predicted(
    workload: TransactionWorkload,
    configuration: Configuration,
    *,
    p95: Percentiles | None = None,
    changed: Sequence[float] | None = None,
    seconds: int,
    warmup_s: int,
    as_of: str | None = None,
    seed: int = 1,
    draws: int = DRAWS,
    processors: int | None = None,
) -> Predicted:
    """What the configuration does from an empty cache: the per-I/O form, by which the lab's volumes decide too. Raises InputError.

    `processors`: of the machine it will be run on, None: enough. The mean response time of a second follows from clients and tps (Little's law in a closed loop), its 95th percentile
    from `p95`, of the run calibrated on; `changed`: see `with_cache`; of the seconds the median, as of those measured.
    """
    workload = with_cache(workload, configuration.cache_gib, changed)
    run = predict(
        workload, configuration.storage, log_storage=configuration.log_storage, cache_gib=configuration.cache_gib, threads=configuration.threads, as_of=as_of,
        seconds=seconds + warmup_s, start="cold", start_balance_percent=configuration.balance_percent, seed=seed, draws=draws, form="events",
    )  # fmt: skip
    part = run.rows.filter(run.rows["t_s"] >= warmup_s)
    alone = float(part["tps"].mean() or 0.0)
    slower = 1.0 if processors is None else core.processor_share(alone, processors, workload.database["clients"])
    tps = alone * slower
    spread = run.summary["relative_spread"]
    above = p95 or Percentiles(workload.database["clients"]["p95_over_mean"] - 1.0, None)
    response = above.of(
        1e3 * configuration.threads / (pl.col("tps") * slower), pl.col("cached_share") >= FULL, iops_of(configuration.storage)
    )
    moving = part.filter(pl.col("tps") > 0.0).select(response).to_series()
    low, high = (None, None) if spread is None else (tps * (1.0 - 1.2816 * spread), tps * (1.0 + 1.2816 * spread))
    binds = part["cap"].value_counts(sort=True)["cap"][0] if part.height else ""
    return Predicted(
        tps, low, high, float(moving.median()) if len(moving) else 0.0, float(part["iops"].mean() or 0.0) * slower / max(tps, 1e-9), str(binds), run.warnings,
        tuple(round(value * slower, 2) for value in run.rows["tps"].to_list()),
    )  # fmt: skip


def with_cache(workload: TransactionWorkload, cache_gib: float, changed: Sequence[float] | None = None) -> TransactionWorkload:
    """The workload with another cache. `changed`: per class of pages the share of touches that change one (sysbench's are known), by which the pages that leave the other pool
    are cleaner or dirtier; None: as in the calibration's. Raises InputError."""
    with core_errors():
        database = core.cache_after(workload.database, workload.cache_gib * GIB, cache_gib * GIB, changed)
    return replace(workload, database=database)


def measured(record: RunRecord) -> Measured:
    """A run as a proof keeps it."""
    summary = record.summary
    ios = [summary.get(f"{what}_per_transaction") for what in ("reads", "writes")]
    series = record.series()["tps"].fill_null(0.0).to_list()
    return Measured(
        record.id, record.state, summary.get("seconds") or 0.0, summary.get("tps") or 0.0, summary.get("p95_of_seconds_ms"), None if None in ios else sum(ios),
        record.findings, tuple(round(value, 2) for value in series), _processors_bound(record),
    )  # fmt: skip


def _processors_bound(record: RunRecord) -> bool:
    """Less idle than a run needs to be one of its storage (headrace.bench.run.summary)."""
    cpus = record.document["environment"].get("cpus") or 1
    idle = [record.summary.get(name) for name in ("idle_cpus", "iowait_cpus")]
    return idle[0] is not None and idle[0] + (idle[1] or 0.0) < LEAST_IDLE_SHARE * cpus


def store(
    folder: Path, workload_file: Path, calibration_run: str, made: dict[str, tuple[Configuration, Predicted]]
) -> tuple[Path, str, str]:
    """Writes the predictions and flushes them to disk: (file, its SHA-256, the time in UTC). Raises CouldNotRun."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = {
        "schema": "headrace-predictions/1",
        "made_at": now,
        "workload_sha256": hashlib.sha256(workload_file.read_bytes()).hexdigest(),
        "calibrated_on_run": calibration_run,
        "predictions": {
            name: {
                "configuration": vars(configuration),
                "tps": one.tps,
                "tps_low": one.tps_low,
                "tps_high": one.tps_high,
                "p95_ms": one.p95_ms,
                "binds": one.binds,
            }
            for name, (configuration, one) in made.items()
        },
    }
    content = (json.dumps(document, indent=2) + "\n").encode()
    path = folder / PREDICTIONS_FILE
    write_whole(path, content)
    return path, hashlib.sha256(content).hexdigest(), now
