"""Predictions of a proof, from the run that was calibrated on; they are stored before the other
runs."""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.documents import to_toml
from headrace.base.files import write_whole
from headrace.base.units import GIB
from headrace.bench import RunRecord
from headrace.bench.running.summary import LEAST_IDLE_SHARE, compute_idle_share
from headrace.bench.store.store import write_now
from headrace.calibration.response import FULL_CACHE_SHARE, writes_while_filling
from headrace.experiment import neighbours, small_pools
from headrace.experiment.proof import MeasuredResult, PredictedResult, StoredPredictions
from headrace.experiment.request import Configuration, refuse
from headrace.experiment.scale import sum_iops
from headrace.observe.settings import LAB_IO_CPU_US
from headrace.simulation.database import Prediction, predict
from headrace.workload.transactions import TransactionWorkload
from headrace.workload.unexplained import compute_interval

PREDICTIONS_FILE = "predictions.json"
# Draws of the parameters for the 80 % interval; with 24 its ends are known to a fifth (a guess).
DRAWS = 24

# Names that a calibration reads in place of RUN.toml and of the counters of the disk.
DESCRIPTION, COUNTERS = "LAB.toml", "lab.csv"
COUNTED = ("reads", "read_bytes", "writes", "write_bytes")


def write_lab_counts(record: RunRecord) -> Path:
    """Writes DESCRIPTION next to the run's RUN.toml, with the lab's own counts as disk figures, and
    returns its path.

    `/proc/diskstats` counts a flush among the writes where it is empty, and not where a journal of
    the filesystem rides on it. Compared with the lab's own count it was 1 % off under InnoDB and 80
    % too low in writes under MyRocks (MariaDB 10.11 on xfs, Linux 6.18, 2026-11-21). Raises
    CouldNotRun when the run has no such figures.
    """
    if record.run_toml is None:
        raise refuse.run(record.id, "has no RUN.toml to calibrate from", "; ".join(record.findings))
    frames = [_read_counters(path) for path in sorted(record.folder.glob("lab-*.parquet"))]
    if not frames:
        raise refuse.run(record.id, "has no figures of the lab's volumes", "Was the lab ended during the run?")
    # Volumes were read one after the other: seconds that not all of them have are left out.
    first, last = max(frame["time"][0] for frame in frames), min(frame["time"][-1] for frame in frames)
    common = [frame.filter(pl.col("time").is_between(first, last)) for frame in frames]
    write_whole(record.folder / COUNTERS, pl.concat(common).sort("time", "device").write_csv().encode())
    document = tomllib.loads(record.run_toml.read_text())
    document["files"] = {key: name for key, name in document["files"].items() if key != "device"} | {"disk": COUNTERS}
    if document["engine"] == "innodb":
        # Older files have no io_cpu_us.
        document["settings"] = {"io_cpu_us": LAB_IO_CPU_US} | document.get("settings", {})
    path = record.folder / DESCRIPTION
    write_whole(path, to_toml(document).encode())
    return path


def _read_counters(path: Path) -> pl.DataFrame:
    """Returns the running sums of a volume's counts, a row a second, stamped with the second's
    end."""
    return pl.read_parquet(path).select(
        (pl.col("t_s") + 1.0).cast(pl.Float64).alias("time"),
        pl.lit(path.stem.removeprefix("lab-")).alias("device"),
        *(pl.col(name).cum_sum() for name in COUNTED),
    )


def predict_result(
    workload: TransactionWorkload,
    configuration: Configuration,
    *,
    changed: Sequence[float] | None = None,
    seconds: int,
    warmup_s: int,
    as_of: str | None = None,
    seed: int = 1,
    draws: int = DRAWS,
    processors: int | None = None,
) -> PredictedResult:
    """Predicts a run of the configuration from an empty cache, simulated I/O by I/O.

    `processors`: those of the machine it will run on, None: as in the calibrated run. The 95th
    percentile of response times is the median over the seconds, as in measured runs. `changed`: see
    `with_cache`; with it, purge and pauses of a small MariaDB pool are adjusted (`small_pools`).
    Raises InputError.
    """

    def run_with(adjusted: TransactionWorkload, draws: int) -> tuple[Prediction, pl.DataFrame, float]:
        run = predict(
            adjusted,
            configuration.storage,
            log_storage=configuration.log_storage,
            vcpus=processors,
            cache_gib=configuration.cache_gib,
            threads=configuration.threads,
            as_of=as_of,
            seconds=seconds + warmup_s,
            start="cold",
            start_balance_percent=configuration.balance_percent,
            seed=seed,
            draws=draws,
            form="events",
        )
        part = run.rows.filter(run.rows["t_s"] >= warmup_s)
        return run, part, statistics.fmean(part["tps"]) if part.height else 0.0

    adjusted = with_cache(workload, configuration.cache_gib, changed)
    if changed is not None:
        tps = run_with(adjusted, 0)[2]
        adjusted = small_pools.adjust_purge(adjusted, workload, configuration.cache_gib, tps, changed)
    run, part, running_tps = run_with(adjusted, draws)
    pauses = small_pools.estimate_pauses(workload, configuration.cache_gib, running_tps, seconds)
    tps = running_tps * (1.0 - pauses["lost_share"])
    spread = run.summary["relative_spread"]
    chance = core.noise_of_mean(adjusted.database["noise"], running_tps, seconds)
    low, high = (None, None) if spread is None else compute_interval(tps, math.hypot(spread, pauses["spread"], chance))
    p95_ms = predict_p95_ms(adjusted.database, configuration, part.filter(pl.col("tps") > 0.0))
    return PredictedResult(
        tps=tps,
        tps_low=low,
        tps_high=high,
        p95_ms=statistics.median(p95_ms) if p95_ms else 0.0,
        ios_per_tx=(statistics.fmean(part["iops"]) if part.height else 0.0) / max(running_tps, 1e-9),
        binds=str(part["cap"].value_counts(sort=True)["cap"][0] if part.height else ""),
        warnings=run.warnings,
        series=tuple(round(value, 2) for value in run.rows["tps"].to_list()),
    )


def predict_p95_ms(database: dict, configuration: Configuration, rows: pl.DataFrame) -> list[float]:
    """Returns the 95th percentile of response times, ms, for each of `rows`, seconds with
    transactions of a prediction; the mean follows from clients and tps (Little's law)."""
    ios_of_page, _ = core.page_write_cost(database["cached_bytes"], database["writes"]["doublewrite"])
    # Log writes, about one a transaction at most, are taken for pages.
    written = ((pl.col("iops") / pl.col("tps") - pl.col("reads_per_tx")) / ios_of_page).clip(lower_bound=0.0)
    return core.p95_behind_bursts(
        database,
        (1e3 * configuration.threads / rows["tps"]).to_list(),
        rows["reads_per_tx"].to_list(),
        ((rows["cached_share"] >= FULL_CACHE_SHARE) | writes_while_filling(database)).to_list(),
        1e3 * ios_of_page / sum_iops(configuration.storage),
        rows.select(configuration.threads * written).to_series().to_list(),
    )


def with_cache(
    workload: TransactionWorkload, cache_gib: float, changed: Sequence[float] | None = None
) -> TransactionWorkload:
    """Returns the workload with another cache. `changed` has the share of touches that change a
    page by page class, which decides how many evicted pages are dirty; None: as in the calibration.
    Raises InputError."""
    with translate_core_errors():
        database = core.cache_after(workload.database, workload.cache_gib * GIB, cache_gib * GIB, changed)
    return replace(workload, database=database)


def make_measured_result(record: RunRecord) -> MeasuredResult:
    """Returns the result of a run for a proof."""
    summary = record.summary
    reads, writes = (summary.get(f"{what}_per_transaction") for what in ("reads", "writes"))
    return MeasuredResult(
        run=record.id,
        state=record.state,
        seconds=summary.get("seconds") or 0.0,
        tps=summary.get("tps") or 0.0,
        p95_ms=summary.get("p95_of_seconds_ms"),
        ios_per_tx=None if reads is None or writes is None else reads + writes,
        findings=record.findings,
        series=tuple(round(value, 2) for value in record.read_series()["tps"].fill_null(0.0).to_list()),
        processors_bound=_is_processor_bound(record),
    )


def _is_processor_bound(record: RunRecord) -> bool:
    """Returns whether the processors limited a run: less than LEAST_IDLE_SHARE was idle, or other
    programs used too much (`neighbours`)."""
    beside = neighbours.read(record.folder)
    if beside is not None and beside.disturb:
        return True
    idle, waiting = (record.summary.get(name) for name in ("idle_cpus", "iowait_cpus"))
    share = compute_idle_share(record.document["environment"], idle, waiting)
    return share is not None and share < LEAST_IDLE_SHARE


def store(
    folder: Path,
    workload_file: Path,
    calibration_run: str,
    predictions: Mapping[str, tuple[Configuration, PredictedResult]],
) -> StoredPredictions:
    """Writes the predictions, configuration and prediction by name, into PREDICTIONS_FILE in
    `folder`, flushed to disk, with the id of the calibration's run. Raises CouldNotRun."""
    stored_at = write_now()
    keys = ("tps", "tps_low", "tps_high", "p95_ms", "binds")
    document = {
        "schema": "headrace-predictions/1",
        "made_at": stored_at,
        "workload_sha256": hashlib.sha256(workload_file.read_bytes()).hexdigest(),
        "calibrated_on_run": calibration_run,
        "predictions": {
            name: {"configuration": vars(configuration)} | {key: getattr(prediction, key) for key in keys}
            for name, (configuration, prediction) in predictions.items()
        },
    }
    content = (json.dumps(document, indent=2) + "\n").encode()
    path = folder / PREDICTIONS_FILE
    write_whole(path, content)
    return StoredPredictions(str(path), hashlib.sha256(content).hexdigest(), stored_at)
