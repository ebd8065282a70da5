"""The workload on this storage by the simulator: what it asks, and its throughput with some
settings.

Only what the model has can be simulated: sizes of caches and redo log, syncs of a commit, the
doublewrite area, a log volume, a warm or cold start, the bytes of compaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.advice.situation import Situation, WorkloadDemand
from headrace.advice.values import as_bytes, as_number, is_on
from headrace.base import core
from headrace.base.core import core_errors
from headrace.base.units import GIB
from headrace.workload import TransactionWorkload
from headrace.workload.server_settings import database_under

HOUR_S = 3_600  # what is simulated; its second half is warm
STEP_S = 10.0  # of the interval form: short against the minutes in which caches and credits change
# A cache within 1 % of the best throughput holds what is hot: a difference nobody measures.
HOT_SHARE = 0.99
# Sizes of caches that are tried: a quarter of a doubling apart, from 1/180 to 5 times the memory's.
CACHE_STEPS, STEPS_PER_DOUBLING, FIRST_DOUBLING = 40, 4.0, -7.5
LEAST_CACHE_GIB = 0.01
# Manuals of MySQL (innodb_redo_log_capacity) and MariaDB (innodb_log_file_size).
MOST_REDO_BYTES = 512 * GIB


@dataclass(frozen=True)
class ModelSettings:
    """The settings that the model has."""

    cache_gib: float
    redo_bytes: float | None
    at_commit: int
    sync_binlog: int
    doublewrite: bool
    compaction_write_bytes_s: float | None
    log_storage: str | None
    start: str


def demand_of(situation: Situation, workload: TransactionWorkload) -> WorkloadDemand:
    """Returns the workload on this storage with as much cache as the memory allows."""
    database, most = workload.database, situation.cache_limit_gib
    # Sizes beyond the memory too, to say how large the cache should be.
    sizes = [most * 2.0 ** (step / STEPS_PER_DOUBLING + FIRST_DOUBLING) for step in range(CACHE_STEPS)]
    sizes = sorted({*(size for size in sizes if size >= LEAST_CACHE_GIB), most})
    runs = [_run(situation, workload, size, None, "warm") for size in sizes]
    with core_errors():
        means = [_mean(rows["tps"]) for rows in core.mysql_runs(database, runs)]
    tps = means[sizes.index(most)]
    hot = next(size for size, mean in zip(sizes, means, strict=True) if mean >= HOT_SHARE * max(means))
    if situation.engine == "innodb" and workload.size_gib is not None:
        hot = min(hot, workload.size_gib)  # a page of the volume is cached once
    return WorkloadDemand(
        tps=tps,
        redo_bytes_s=database["log"]["redo_bytes_per_tx"] * tps,
        binlog_bytes_s=database["log"]["binlog_bytes_per_tx"] * tps,
        compaction_bytes_s=(database["compaction"] or {}).get("write_bytes_per_tx", 0.0) * tps,
        flushed_pages_s=database["writes"]["flush_per_tx"] * tps,
        hot_gib=None if hot >= sizes[-1] else hot,
        looked_gib=sizes[-1],
        data_gib=workload.size_gib,
    )


def settings_of(situation: Situation) -> ModelSettings:
    """Returns the model's settings as advised."""
    chosen, innodb = situation.chosen, situation.engine == "innodb"
    cache = as_bytes(chosen.get("innodb_buffer_pool_size" if innodb else "rocksdb_block_cache_size"))
    commit = chosen.get("innodb_flush_log_at_trx_commit" if innodb else "rocksdb_flush_log_at_trx_commit", "1")
    return ModelSettings(
        cache_gib=cache / GIB if cache else situation.cache_limit_gib,
        redo_bytes=redo_of(chosen),
        at_commit=int(commit),
        sync_binlog=int(chosen.get("sync_binlog", "1")),
        doublewrite=is_on(chosen.get("innodb_doublewrite", "ON")),
        compaction_write_bytes_s=as_bytes(chosen.get("rocksdb_rate_limiter_bytes_per_sec")),
        log_storage=None if situation.log_storage is None else situation.log_storage.text,
        start="warm",
    )


def redo_of(values: Mapping[str, str]) -> float | None:
    """Returns bytes of all redo files, by values of parameters; None where there are none."""
    if "innodb_redo_log_capacity" in values:
        return as_bytes(values["innodb_redo_log_capacity"])
    each = as_bytes(values.get("innodb_log_file_size"))
    return None if each is None else each * (as_number(values.get("innodb_log_files_in_group")) or 1)


def throughput(
    database: Mapping[str, object],
    workload: TransactionWorkload,
    settings: ModelSettings,
    situation: Situation,
    first_hour: bool,
) -> float:
    """Returns transactions a second with these settings, of a warm hour or of the first hour."""
    # The redo log that the workload was calibrated with is taken to be today's, where that is
    # known.
    measured = (redo_of(situation.current) or situation.default_redo_bytes) if situation.compared else None
    if measured is not None and not 0.0 < measured <= MOST_REDO_BYTES:
        measured = None  # no server has that
    asked = {
        "flush_log_at_trx_commit": settings.at_commit,
        "sync_binlog": settings.sync_binlog,
        "doublewrite": settings.doublewrite,
        "redo_bytes": settings.redo_bytes,
        "measured_redo_bytes": measured,
        "compaction_write_bytes_s": settings.compaction_write_bytes_s,
    }
    start = settings.start if first_hour else "warm"
    run = _run(situation, workload, settings.cache_gib, settings.log_storage, start)
    with core_errors():
        rows = core.mysql_runs(database_under(database, asked), [run])[0]
    return _mean(rows["tps"], whole=first_hour)


def _run(
    situation: Situation, workload: TransactionWorkload, cache_gib: float, log_storage: str | None, start: str
) -> dict:
    bursts = situation.storage.burst_iops > situation.storage.iops
    return {
        "storage": situation.storage.text,
        "log_storage": log_storage,
        "instance": situation.instance_type,
        "as_of": situation.as_of,
        "cache_bytes": cache_gib * GIB,
        "clients": workload.threads,
        "start": start,
        "seconds": HOUR_S,
        "step_s": STEP_S,
        # Sustained rates: what is left when the credits are used up.
        "start_balance_percent": 0.0 if bursts else None,
    }


def _mean(tps: Sequence[float], whole: bool = False) -> float:
    """Returns the mean of the second half, or of all."""
    values = tps if whole else tps[len(tps) // 2 :]
    return sum(values) / len(values)
