"""Calibrates a replica's applier from the replica's own runs.

A replica that is behind applies as fast as it can, so its rate holds everything that an applier
waits for. The replica's counters and a sample of the binary log take that apart:

    binary log         events of a transaction; how many could be applied at once
    counters           pages read, commits of a group, processor time
    rate               what is left: flushes, and writes that are waited for

Pages read also determine how many distinct pages are touched, if the database is a standard one and
not calibrated from runs of the source (those determine it better).

The fit is the most probable set of parameters given their spreads before: one run with one thread
already separates most of them, a second in memory or with workers the rest. The rates are those of
the core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from headrace.errors import Refusals
from headrace.simulation.replica import Replica, ReplicaPrediction, predict_replica
from headrace.workload.parameters import list_parameters, scale_parameters
from headrace.workload.replica import add_measured_replica, get_parameter_spreads, get_replica_spread, make_applier
from headrace.workload.transactions import TransactionWorkload

if TYPE_CHECKING:
    from headrace.observe.formats.binary_log import BinaryLogSample

refuse = Refusals("docs/guide/calibrate-a-replica.md")
# Errors of the measurements, by chance and for reasons outside the model, relative standard
# deviations. Rates of the same cell on two days: 5 % (ours, lab, 2026-11-22: 2 to 8 %).
TPS_SPREAD, READS_SPREAD, GROUP_SPREAD = 0.05, 0.03, 0.1
# The process's processor time has that of its page cleaner and receiver in it; a guess.
CPU_SPREAD = 0.2
# Fewer page reads a transaction are not compared: they are those of the start.
LEAST_READS = 0.05
# More than any replica applies, so that there is always a backlog: 5,000 s of it at 2,000 tps.
BACKLOG = 1e7
FITTED_PARAMETERS = ("cpu_ms", "flush_factor", "forced_writes", "group_share")
LARGEST_STEP = math.log(30.0)
# Distinct pages that transactions touch.
_PAGES_TOUCHED = next(parameter for parameter in list_parameters("innodb") if parameter.name == "pages_touched")


@dataclass(frozen=True)
class ReplicaRun:
    """A measured run of a replica that was behind all the time.

    It was measured for `seconds`, after `warmup_s` of applying that do not count. `tps`:
    transactions applied a second; `reads`: pages read a transaction; `group`: commits per flush of
    the binary log; `cpu_ms`: processor time of mysqld a transaction. None: not measured.
    """

    name: str
    replica: Replica
    seconds: float
    tps: float
    warmup_s: float = 0.0
    as_of: str | None = None
    reads: float | None = None
    group: float | None = None
    cpu_ms: float | None = None

    def __post_init__(self) -> None:
        """Refuses a run that applied nothing. Raises InputError."""
        if not self.tps > 0 or not self.seconds > 0:
            raise refuse.input(f"{self.name}: {self.tps:g} tps", "must be more than 0", "Was it behind?")


def predict_run(workload: TransactionWorkload, run: ReplicaRun) -> ReplicaPrediction:
    """Predicts the run of a replica with more backlog than it can apply."""
    return predict_replica(
        workload,
        run.replica.storage,
        run.replica,
        instance=run.replica.instance,
        as_of=run.as_of,
        seconds=1,
        drain_s=math.ceil(run.warmup_s + run.seconds),
        source_tps=[BACKLOG],
        received=True,
        seed=None,
        draws=0,
    )


def average_rates(prediction: ReplicaPrediction, run: ReplicaRun) -> tuple[float, float]:
    """Returns the means of a prediction over the seconds that the run measured: transactions
    applied a second, and pages read a transaction."""
    rows = prediction.rows[1:]
    first = min(round(run.warmup_s), rows.height - 1)
    last = max(first + 1, math.ceil(run.warmup_s + run.seconds))
    part = rows[first:last]
    applied, reads = part["applied_tps"].to_list(), part["reads_per_tx"].to_list()
    total = sum(applied)
    return fmean(applied), sum(a * r for a, r in zip(applied, reads, strict=True)) / total if total else 0.0


def calibrate_replica(
    workload: TransactionWorkload,
    runs: Sequence[ReplicaRun],
    sample: BinaryLogSample | None = None,
) -> TransactionWorkload:
    """Returns the workload with the parameters of a replica's applier, fitted to the replica's runs
    and taken from a sample of the binary log. Raises InputError without either, and for storage
    that is not in the storage notation."""
    if not runs and sample is None:
        raise refuse.input("no runs", "a replica is calibrated from at least one run, or a binary log")
    database = _add_binary_log(workload, sample)
    return _fit_runs(database, runs) if runs else database


def _add_binary_log(workload: TransactionWorkload, sample: BinaryLogSample | None) -> TransactionWorkload:
    """Returns the workload with the events of a transaction, and the number of transactions that
    can be applied at once, from a sample of the binary log (None: unchanged)."""
    if sample is None:
        return workload
    values = {"events_per_tx": sample.events}
    width = sample.compute_parallelism(MANY_WORKERS)
    values["writeset_width" if sample.flavor == "mysql" else "commit_order_width"] = width
    words = f"a binary log of {len(sample.transactions):,} transactions"
    return add_measured_replica(workload, values, spread=dict.fromkeys(values, LOG_SPREAD), origin=words)


# Workers beyond those of any replica (MySQL's maximum is 1,024), so that only the log bounds the
# transactions that are applied at once.
MANY_WORKERS = 1024
# Relative standard deviation of another hour's binary log from the sample; a guess.
LOG_SPREAD = 0.1


def _fit_runs(workload: TransactionWorkload, runs: Sequence[ReplicaRun]) -> TransactionWorkload:
    """Returns the workload with the parameters that the runs determine, fitted as logarithms by
    least squares, with their standard deviations."""
    import numpy as np
    from scipy.optimize import least_squares

    base, spread = make_applier(workload), get_replica_spread(workload)
    has_flushes = any(_syncs_at_commit(run) for run in runs)
    has_workers = any((run.replica.make_settings()["workers"] or 0) > 1 for run in runs)
    has_reads = any((run.reads or 0.0) > LEAST_READS for run in runs)
    names = [name for name in FITTED_PARAMETERS if _depends_on(name, has_flushes, has_workers, has_reads)]
    # If processor time was measured, the fit of the applier's begins there.
    pages_cpu = base["page_cpu_ms"]
    applier_cpu_ms = [
        max(run.cpu_ms - _estimate_other_cpu_ms(run, pages_cpu), 0.05 * run.cpu_ms)
        for run in runs
        if run.cpu_ms is not None
    ]
    begin = {name: 0.0 for name in names}
    if applier_cpu_ms:
        begin["cpu_ms"] = float(np.clip(math.log(fmean(applier_cpu_ms) / base["cpu_ms"]), -LARGEST_STEP, LARGEST_STEP))
    fits_pages = has_reads and not workload.parameters
    spreads = np.array([max(spread[name], 1e-3) for name in names] + ([_PAGES_TOUCHED.spread] if fits_pages else []))

    def apply_deltas(deltas: Sequence[float]) -> TransactionWorkload:
        """Returns the workload with each fitted parameter multiplied by the exponential of its
        delta."""
        values = {name: base[name] * math.exp(delta) for name, delta in zip(names, deltas, strict=False)}
        candidate = add_measured_replica(workload, _clip_to_bounds(values))
        if not fits_pages:
            return candidate
        return replace(
            candidate,
            database=scale_parameters(candidate.database, candidate.engine, {_PAGES_TOUCHED.name: deltas[-1]}),
        )

    def compute_residuals(deltas: np.ndarray) -> np.ndarray:
        """Returns the distances of the parameters from the prior, then those of the predictions
        from the runs, in standard deviations."""
        changed = apply_deltas([float(delta) for delta in deltas])
        parts = list(deltas / spreads)
        for run in runs:
            parts += _compare(changed, run)
        return np.array(parts)

    start = np.array([begin[name] for name in names] + ([0.0] if fits_pages else []))
    minimum = least_squares(
        compute_residuals,
        start,
        bounds=(-LARGEST_STEP - 0.1, LARGEST_STEP + 0.1),
        diff_step=0.01,
        x_scale=spreads,
        max_nfev=40,
    )
    covariance = np.linalg.pinv(minimum.jac.T @ minimum.jac)
    deviations = {name: float(math.sqrt(covariance[index, index])) for index, name in enumerate(names)}
    best = apply_deltas([float(delta) for delta in minimum.x])
    assert best.replica is not None
    values = {name: best.replica.values[name] for name in names}
    return add_measured_replica(best, values, spread=deviations, origin=", ".join(run.name for run in runs))


def _estimate_other_cpu_ms(run: ReplicaRun, page_cpu_ms: float) -> float:
    """Returns the processor time of a transaction (ms) that is not the applier's: for reading its
    pages, and of the coordinator thread, which is always busy."""
    coordinator = 1e3 * run.replica.make_settings()["coordinator_cores"] / run.tps
    return page_cpu_ms * (run.reads or 0.0) + coordinator


def _syncs_at_commit(run: ReplicaRun) -> bool:
    """Returns whether the replica flushes a log as it commits."""
    settings = run.replica.make_settings()
    return settings["flush_log_at_trx_commit"] == 1 or (settings["log_bin"] and settings["sync_binlog"] > 0)


def _depends_on(name: str, has_flushes: bool, has_workers: bool, has_reads: bool) -> bool:
    """Returns whether the runs have what a parameter describes: flushes, groups or page reads."""
    return {"flush_factor": has_flushes, "group_share": has_workers and has_flushes, "forced_writes": has_reads}.get(
        name, True
    )


def _clip_to_bounds(values: Mapping[str, float]) -> dict[str, float]:
    """Returns the values limited to the range that the core takes for each parameter."""
    rows = get_parameter_spreads()
    return {name: max(rows[name]["least"], min(rows[name]["most"], value)) for name, value in values.items()}


def _compare(workload: TransactionWorkload, run: ReplicaRun) -> list[float]:
    """Returns the logarithm of predicted over measured for each figure that was measured, in
    standard deviations."""
    prediction = predict_run(workload, run)
    tps, reads = average_rates(prediction, run)
    parts = [math.log(max(tps, 1e-9) / run.tps) / TPS_SPREAD]
    if run.reads is not None and run.reads > LEAST_READS:
        parts.append(math.log(max(reads, 1e-6) / run.reads) / READS_SPREAD)
    if run.group is not None and (run.replica.make_settings()["workers"] or 0) > 1:
        parts.append(math.log(max(prediction.summary["grouped"], 1e-6) / run.group) / GROUP_SPREAD)
    if run.cpu_ms is not None:
        applier = make_applier(workload)
        taken = applier["cpu_ms"] + _estimate_other_cpu_ms(run, applier["page_cpu_ms"])
        parts.append(math.log(taken / run.cpu_ms) / CPU_SPREAD)
    return parts
