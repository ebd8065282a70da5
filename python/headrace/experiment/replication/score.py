"""Compares measured replicas with predictions of a model that is calibrated on others.

The database behind a load of sysbench is the standard one. The applier's cost on this machine is
calibrated on one or two replicas; the rest are predicted.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import MIB
from headrace.bench import SysbenchOltp
from headrace.calibration.replica import ReplicaRun, average_rates, calibrate_replica, predict_run
from headrace.experiment import machine
from headrace.experiment.replication.cell import ReplicaCell, ReplicaLoad
from headrace.experiment.replication.dynamics import ONSET_S, Course
from headrace.experiment.replication.run import Drained
from headrace.experiment.standin import describe_distribution
from headrace.observe.formats.binary_log import BinaryLogSample
from headrace.simulation.replica import Replica, predict_replica
from headrace.workload import TransactionWorkload
from headrace.workload.replica import add_measured_replica

# Default redo of both flavors, GiB: innodb_log_file_size of MariaDB, innodb_redo_log_capacity of
# MySQL 8.0.30 and later.
REDO_GIB = {"mariadb": 96 / 1024, "mysql": 100 / 1024}
# Control blocks of a buffer pool: Innodb_buffer_pool_pages_total over its size (MariaDB 10.11).
POOL_SHARE = 0.99
PAGE_BYTES = 16_384  # innodb_page_size, default of both
# The newest release of each that the lab measures.
VERSIONS = {"mariadb": "mariadb-10.11", "mysql": "mysql-9.7"}
# Names of the model for the lab's modes.
MODES = {"serial": "single", "ordered": "writeset", "unordered": "writeset"}


@dataclass(frozen=True)
class ScoredCell:
    """A measured replica and its prediction from a calibration on others."""

    drained: Drained
    predicted_tps: float
    predicted_reads: float
    binding: str

    @property
    def error_percent(self) -> float:
        return 100.0 * (self.predicted_tps / self.drained.tps - 1.0)


@dataclass(frozen=True)
class ScoredCourse:
    """A measured course of lag with its predicted figures; times in s, None: never."""

    course: Course
    onset_s: float | None
    lag_at_end_s: float
    peak_s: float
    catch_up_s: float | None


def make_standard_workload(load: ReplicaLoad, cache_mib: int) -> TransactionWorkload:
    """Returns the standard database of a load of sysbench with a cache of `cache_mib`, under the
    defaults of the lab's server."""
    benchmark = load.benchmark
    assert isinstance(benchmark, SysbenchOltp), load.name
    options = {
        "script": benchmark.script,
        "distribution": describe_distribution(benchmark),
        "engine": "innodb",
        "tables": benchmark.tables,
        "table_size": benchmark.rows,
        "threads": load.clients,
        "cache_gib": cache_mib / 1024,
        "redo_gib": REDO_GIB[load.flavor],
        "log_bin": True,
        "flush_log_at_trx_commit": 1,
    }
    with translate_core_errors():
        standard = core.mysql_sysbench(options)
    database = deepcopy(dict(standard["database"]))
    flavor, _, version = VERSIONS[load.flavor].partition("-")
    free = core.innodb_free_pages(flavor, version, cache_mib * MIB, os.cpu_count() or 1)
    database["usable_share"] = POOL_SHARE - free * PAGE_BYTES / (cache_mib * MIB)
    workload = TransactionWorkload(
        name=load.name,
        engine="innodb",
        database=database,
        cache_gib=cache_mib / 1024,
        threads=load.clients,
        size_gib=load.data.gib,
    )
    return add_measured_replica(workload, {}, written=tuple(standard["changed"]))


def make_replica(cell: ReplicaCell, day: str | None = None) -> Replica:
    """Returns the replica of a cell for the model, on an instance with the processors of this
    machine."""
    instance, _ = machine.choose_instance(day or core.newest_date())
    return Replica(
        cell.storage,
        log_storage=cell.log_storage,
        instance=instance,
        cache_gib=cell.cache_mib * MIB / 2**30,
        version=VERSIONS[cell.load.flavor],
        mode=MODES.get(cell.mode, cell.mode),
        workers=cell.workers,
        preserve_order=cell.mode != "unordered",
        log_bin=cell.binlog,
        flush_log_at_trx_commit=cell.flush_log,
        sync_binlog=cell.sync_binlog,
        sync_relay_log=cell.sync_relay_log,
        start_balance_percent=cell.balance_percent,
    )


def make_replica_run(drained: Drained) -> ReplicaRun:
    """Returns the run of a measured replica for a calibration."""
    per, cell = drained.per, drained.cell
    return ReplicaRun(
        name=cell.words,
        replica=make_replica(cell),
        seconds=per.seconds,
        warmup_s=cell.warmup_s,
        tps=per.tps,
        reads=per.reads,
        group=per.group,
        cpu_ms=per.cpu_ms,
    )


def calibrate_workload(measured: Sequence[Drained], log: BinaryLogSample | None = None) -> TransactionWorkload:
    """Returns the standard database of the load with an applier calibrated on measured replicas."""
    first = measured[0]
    workload = make_standard_workload(first.cell.load, first.cell.cache_mib)
    return calibrate_replica(workload, [make_replica_run(drained) for drained in measured], log)


def score(workload: TransactionWorkload, measured: Sequence[Drained]) -> list[ScoredCell]:
    """Returns each measured replica with its prediction."""
    scores = []
    for drained in measured:
        run = make_replica_run(drained)
        prediction = predict_run(workload, run)
        tps, reads = average_rates(prediction, run)
        scores.append(ScoredCell(drained, tps, reads, str(prediction.summary["binding"])))
    return scores


def score_course(workload: TransactionWorkload, course: Course) -> ScoredCourse:
    """Returns a measured course with the prediction for the same number of transactions in the same
    time."""
    seconds = max(1, round(course.load_s))
    rate = course.rate * course.load_s / seconds
    prediction = predict_replica(
        workload,
        course.cell.storage,
        make_replica(course.cell),
        seconds=seconds,
        drain_s=math.ceil(20 * course.load_s),
        source_tps=[rate] * seconds,
        seed=None,
        draws=0,
    )
    late_rows = prediction.rows.filter(prediction.rows["lag_s"] >= ONSET_S)
    return ScoredCourse(
        course,
        # A row's lag is that of its end.
        float(late_rows["t_s"][0]) + 1.0 if late_rows.height else None,
        prediction.summary["lag_at_load_end_s"],
        prediction.summary["peak_lag_s"],
        prediction.summary["catch_up_s"],
    )


def compute_errors(scored: Sequence[ScoredCell]) -> tuple[float, float]:
    """Returns the median and the largest absolute error of tps, percent."""
    percents = [abs(cell.error_percent) for cell in scored]
    return statistics.median(percents), max(percents)
