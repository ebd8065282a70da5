"""The effect of a setting, in a sentence: the workload's throughput with it and without it.

Every other setting is as advised. An effect that the model does not have is not estimated, and the
reason is said (parameters.toml, `effect`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.advice.model import NOT_ESTIMATED
from headrace.advice.situation import Situation, WorkloadDemand
from headrace.advice.values import are_same, as_bytes, as_number, format_size, is_on
from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import DAY_S, GIB, MIB, Z80
from headrace.errors import InputError
from headrace.workload import TransactionWorkload
from headrace.workload.server_settings import apply_server_settings

# --- simulation -----------------------------------------------------------------------------------
# Only what the model has can be simulated: sizes of caches and redo log, syncs of a commit, the
# doublewrite area, a log volume, a warm or cold start, the bytes of compaction.


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
    """The settings that the model simulates. `redo_bytes`: of all redo files; `at_commit`: as
    innodb_flush_log_at_trx_commit; `start`: of the cache, warm or cold."""

    cache_gib: float
    redo_bytes: float | None
    at_commit: int
    sync_binlog: int
    doublewrite: bool
    compaction_write_bytes_s: float | None
    log_storage: str | None
    start: str


def compute_demand(situation: Situation, workload: TransactionWorkload) -> WorkloadDemand:
    """Simulates the workload on this storage, and returns its demand with as much cache as the
    memory allows, and the size of its hot set."""
    database, most = workload.database, situation.cache_limit_gib
    # Sizes beyond the memory too, to say how large the cache should be.
    sizes = [most * 2.0 ** (step / STEPS_PER_DOUBLING + FIRST_DOUBLING) for step in range(CACHE_STEPS)]
    sizes = sorted({*(size for size in sizes if size >= LEAST_CACHE_GIB), most})
    runs = [_make_run(situation, workload, size, None, "warm") for size in sizes]
    with translate_core_errors():
        means = [_compute_mean(rows["tps"]) for rows in core.mysql_runs(database, runs)]
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
        largest_cache_gib=sizes[-1],
        data_gib=workload.size_gib,
    )


def collect_settings(situation: Situation) -> ModelSettings:
    """Returns the advised values of the settings that the model simulates."""
    chosen, innodb = situation.chosen, situation.engine == "innodb"
    cache = as_bytes(chosen.get("innodb_buffer_pool_size" if innodb else "rocksdb_block_cache_size"))
    commit = chosen.get("innodb_flush_log_at_trx_commit" if innodb else "rocksdb_flush_log_at_trx_commit", "1")
    return ModelSettings(
        cache_gib=cache / GIB if cache else situation.cache_limit_gib,
        redo_bytes=sum_redo_bytes(chosen),
        at_commit=int(commit),
        sync_binlog=int(chosen.get("sync_binlog", "1")),
        doublewrite=is_on(chosen.get("innodb_doublewrite", "ON")),
        compaction_write_bytes_s=as_bytes(chosen.get("rocksdb_rate_limiter_bytes_per_sec")),
        log_storage=None if situation.log_storage is None else situation.log_storage.text,
        start="warm",
    )


def sum_redo_bytes(values: Mapping[str, str]) -> float | None:
    """Returns the bytes of all redo files, from values by parameter; None where none is given."""
    if "innodb_redo_log_capacity" in values:
        return as_bytes(values["innodb_redo_log_capacity"])
    each = as_bytes(values.get("innodb_log_file_size"))
    return None if each is None else each * (as_number(values.get("innodb_log_files_in_group")) or 1)


def simulate_throughput(
    database: Mapping[str, object],
    workload: TransactionWorkload,
    settings: ModelSettings,
    situation: Situation,
    first_hour: bool,
) -> float:
    """Returns mean transactions a second with these settings: of a warm hour, or with `first_hour`
    of the hour after a start."""
    # The redo log that the workload was calibrated with is taken to be today's, where that is
    # known.
    measured = (sum_redo_bytes(situation.current) or situation.default_redo_bytes) if situation.compared else None
    if measured is not None and not 0.0 < measured <= MOST_REDO_BYTES:
        measured = None  # no server has that
    server_settings = {
        "flush_log_at_trx_commit": settings.at_commit,
        "sync_binlog": settings.sync_binlog,
        "doublewrite": settings.doublewrite,
        "redo_bytes": settings.redo_bytes,
        "measured_redo_bytes": measured,
        "compaction_write_bytes_s": settings.compaction_write_bytes_s,
    }
    start = settings.start if first_hour else "warm"
    run = _make_run(situation, workload, settings.cache_gib, settings.log_storage, start)
    with translate_core_errors():
        rows = core.mysql_runs(apply_server_settings(database, server_settings), [run])[0]
    return _compute_mean(rows["tps"], whole=first_hour)


def _make_run(
    situation: Situation, workload: TransactionWorkload, cache_gib: float, log_storage: str | None, start: str
) -> dict:
    """Returns an hour to simulate, as the core takes it, without credits where the storage bursts.
    `log_storage` None: the log lies with the data; `start`: warm or cold."""
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


def _compute_mean(tps: Sequence[float], whole: bool = False) -> float:
    """Returns the mean transactions a second of the second half of a run, or of all."""
    values = tps if whole else tps[len(tps) // 2 :]
    return sum(values) / len(values)


# Databases drawn for an interval: a guess, the spread of 24 is known to a seventh.
DRAWS = 24
# A difference below 0.1 % is the model's rounding.
NOTHING = 0.001
# From three times on a change is written as a factor.
MANY = 3.0
# Stands for "no limit": above every storage.
UNLIMITED_BYTES_S = 1e12
# Room in a log volume above the redo log, for the old files that a resize keeps for a while. A
# guess.
REDO_ROOM = 1.2
LEAST_LOG_GIB = 10
REDO = ("innodb_redo_log_capacity", "innodb_log_file_size")
CACHES = ("innodb_buffer_pool_size", "rocksdb_block_cache_size")
COMMITS = ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit")
REDO_NOTE = "the workload is taken as measured with the former; stalls of a small redo log are not simulated"
NOTES = {
    "innodb_redo_log_capacity": REDO_NOTE,
    "innodb_log_file_size": REDO_NOTE,
    "rocksdb_rate_limiter_bytes_per_sec": "means; the stalls that it smooths are not simulated",
    "innodb_buffer_pool_load_at_startup": "first hour after a restart; the minutes of the load itself do not count",
}

# Settings that a value is compared with: a label, the other settings, and a note.
Alternative = tuple[str, ModelSettings, str]


def describe_effect(parameter: str, value: str, before: str | None, situation: Situation) -> str | None:
    """Returns the effect of changing `parameter` from `before` to `value`, in a sentence.

    None without a workload, or without anything to compare with.
    """
    if situation.workload is None:
        return None
    base = collect_settings(situation)
    alternative = ALTERNATIVES.get(parameter)
    if alternative is not None:
        other = alternative(base, situation)
        return None if other is None else _compose_sentence(other[0], base, other[1], situation, other[2])
    old = _revert_parameter(parameter, before, base)
    if old is None or before is None:
        return f"{NOT_ESTIMATED}: the value today is not known (name the server or its option file)"
    if parameter in REDO and not situation.compared:
        unknown = "the redo log the workload was measured with is not known (name the server or its option file)"
        return f"{NOT_ESTIMATED}: {unknown}"
    if old == base or are_same("count", before, value):
        return "as it is"
    label = f"{_format_value(before)} to {_format_value(value)}"
    first_hour = parameter == "innodb_buffer_pool_load_at_startup"
    return _compose_sentence(label, old, base, situation, NOTES.get(parameter, ""), first_hour)


def _format_value(value: str) -> str:
    """Returns whole mebibytes with their unit; everything else as it is."""
    size = as_bytes(value)
    return format_size(size) if size and size % MIB == 0 else value


def _revert_parameter(parameter: str, before: str | None, base: ModelSettings) -> ModelSettings | None:
    """Returns the settings with one parameter as it was; None where that is not known."""
    if not before:
        return None
    size, number = as_bytes(before), as_number(before)
    if parameter in CACHES and size:
        return replace(base, cache_gib=size / GIB)
    if parameter in REDO and size and base.redo_bytes:
        return replace(base, redo_bytes=size)
    if parameter in COMMITS and number is not None:
        return replace(base, at_commit=int(number))
    if parameter == "sync_binlog" and number is not None:
        return replace(base, sync_binlog=int(number))
    if parameter == "innodb_buffer_pool_load_at_startup":
        return replace(base, start="warm" if is_on(before) else "cold")
    if parameter == "rocksdb_rate_limiter_bytes_per_sec" and size is not None:
        return replace(base, compaction_write_bytes_s=size or UNLIMITED_BYTES_S)
    return None


# --- other values, for parameters that most servers have as advised -------------------------------


def _compare_commit(base: ModelSettings, situation: Situation) -> Alternative:
    other = 2 if base.at_commit == 1 else 1
    return f"{other} instead of {base.at_commit}", replace(base, at_commit=other), ""


def _compare_sync(base: ModelSettings, situation: Situation) -> Alternative:
    """Compares sync_binlog with its other value, 0 or 1; with itself where no binlog is written."""
    if situation.demand is None or situation.demand.binlog_bytes_s <= 0.0:
        return "without a binlog", base, ""
    other = 0 if base.sync_binlog == 1 else 1
    return f"{other} instead of {base.sync_binlog}", replace(base, sync_binlog=other), ""


def _compare_doublewrite(base: ModelSettings, situation: Situation) -> Alternative:
    return "OFF instead of ON", replace(base, doublewrite=False), ""


def _compare_log_volume(base: ModelSettings, situation: Situation) -> Alternative | None:
    """Compares with the same server without its log volume, or with a small one; None where none
    can be had."""
    if base.log_storage is not None:
        return f"without {base.log_storage}", replace(base, log_storage=None), ""
    candidate = _find_log_candidate(situation)
    label = f"with {candidate} for redo and binlog"
    return None if candidate is None else (label, replace(base, log_storage=candidate), "")


def _find_log_candidate(situation: Situation) -> str | None:
    """Returns a small volume for the logs, with room for the redo log and a day of binlogs.

    It is gp3 with the rates that are included, or gp2 before there was gp3.
    """
    binlog = 0.0 if situation.demand is None else situation.demand.binlog_bytes_s * DAY_S
    size = max(LEAST_LOG_GIB, math.ceil(((sum_redo_bytes(situation.chosen) or 0.0) * REDO_ROOM + binlog) / GIB))
    for text in (f"gp3:{size}", f"gp2:{size}"):
        try:
            with translate_core_errors():
                core.storage_limits(text, situation.as_of, situation.instance_type)
        except InputError:
            continue
        return text
    return None


ALTERNATIVES: dict[str, Callable[[ModelSettings, Situation], Alternative | None]] = {
    "innodb_flush_log_at_trx_commit": _compare_commit,
    "rocksdb_flush_log_at_trx_commit": _compare_commit,
    "sync_binlog": _compare_sync,
    "innodb_doublewrite": _compare_doublewrite,
    "log_volume": _compare_log_volume,
    "innodb_log_group_home_dir": _compare_log_volume,
    "log_bin": _compare_log_volume,
    "rocksdb_wal_dir": _compare_log_volume,
}


# --- words ----------------------------------------------------------------------------------------


def _compose_sentence(
    label: str, old: ModelSettings, new: ModelSettings, situation: Situation, note: str, first_hour: bool = False
) -> str:
    """Returns the effect in words: `A to B: 210 to 254 tps, +21 % (80 % interval: +15 to +27)`."""
    workload = situation.workload
    assert workload is not None  # the caller looked

    def compute_rates(database: Mapping[str, object]) -> tuple[float, float]:
        """Returns the transactions a second with the old settings and with the new."""
        return (
            simulate_throughput(database, workload, old, situation, first_hour),
            simulate_throughput(database, workload, new, situation, first_hour),
        )

    before, after = compute_rates(workload.database)
    change, spread = _compute_log_ratio(before, after), _compute_spread(workload, compute_rates)
    change_text = "no change"
    if abs(change) >= NOTHING or spread >= NOTHING:
        change_text = _describe_change(change)
        if spread >= NOTHING:
            change_text += f" (80 % interval: {_describe_change(change - Z80 * spread)} to {_describe_change(change + Z80 * spread)})"
    return f"{label}: {before:,.4g} to {after:,.4g} tps, {change_text}, simulated{f'; {note}' if note else ''}"


def _compute_spread(
    workload: TransactionWorkload, rates: Callable[[Mapping[str, object]], tuple[float, float]]
) -> float:
    """Returns the standard deviation of the ratio's logarithm, over draws of the calibration."""
    ratios = [_compute_log_ratio(*rates(database)) for database in workload.draw_databases(DRAWS, 1)]
    return statistics.stdev(ratios) if len(ratios) > 1 else 0.0


def _compute_log_ratio(before: float, after: float) -> float:
    return math.log(max(after, 1e-9) / max(before, 1e-9))  # a throughput may be 0


def _describe_change(logarithm: float) -> str:
    """Returns a change of throughput in words: `+21 %`, or from three times on `3.2 times`."""
    factor = math.exp(logarithm)
    return f"{factor:.3g} times" if factor >= MANY else f"{(factor - 1.0) * 100.0:+.3g} %"
