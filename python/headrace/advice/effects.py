"""What the simulator expects of a setting: the workload's transactions a second with it and without it, everything else as advised.

Only what the model has can be estimated: sizes of caches and redo log, syncs of a commit, the doublewrite area, a log volume, a warm or cold start, the bytes of
compaction. All else says so (parameters.toml, `effect`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.advice.model import NOT_ESTIMATED
from headrace.advice.situation import GIB, MIB, Situation
from headrace.advice.values import as_bytes, as_number, is_on, same, size_text
from headrace.base import core
from headrace.base.core import core_errors

HOUR_S = 3_600
STEP_S = 10.0
DRAWS = 24
Z80 = 1.2816  # half of an 80 % interval in standard deviations
# A cache within 1 % of the best throughput holds what is hot.
HOT_SHARE = 0.99
CACHE_STEPS = 40
LEAST_CACHE_GIB = 0.01
REDO = ("innodb_redo_log_capacity", "innodb_log_file_size")
# Manuals of MySQL (innodb_redo_log_capacity) and MariaDB (innodb_log_file_size).
MOST_REDO_BYTES = 512 * GIB
# A difference below this is the model's rounding.
NOTHING = 0.001
MANY = 3.0
UNLIMITED_BYTES_S = 1e12


@dataclass(frozen=True)
class Demand:
    """What a workload asks of the storage advised for, warm: `tps`, redo, binlog and compaction writes in bytes a second, pages flushed a second; `hot_gib`: the
    smallest cache within 1 % of the throughput of the largest looked at, `looked_gib` (None: it is that one); `data_gib`: its data where they are known."""

    tps: float
    redo_bytes_s: float
    binlog_bytes_s: float
    compaction_bytes_s: float
    flushed_pages_s: float
    hot_gib: float | None
    looked_gib: float
    data_gib: float | None


@dataclass(frozen=True)
class State:
    """The settings the model has."""

    cache_gib: float
    redo_bytes: float | None
    at_commit: int
    sync_binlog: int
    doublewrite: bool
    compaction_write_bytes_s: float | None
    log_storage: str | None
    start: str


def demand_of(situation: Situation) -> Demand:
    """The workload on this storage with as much cache as the memory allows."""
    database, workload = situation.workload.database, situation.workload
    most = situation.cache_limit_gib
    # Beyond the memory too, to say what it would take.
    sizes = [most * 2.0 ** (step / 4.0 - 7.5) for step in range(CACHE_STEPS)]
    sizes = sorted({*(size for size in sizes if size >= LEAST_CACHE_GIB), most})
    means = [_mean(rows) for rows in _simulate(database, [_run(situation, size, None, "warm") for size in sizes])]
    tps = means[sizes.index(most)]
    hot = next((size for size, mean in zip(sizes, means, strict=True) if mean >= HOT_SHARE * max(means)), sizes[-1])
    if situation.engine == "innodb" and workload.size_gib is not None:
        hot = min(hot, workload.size_gib)  # pages that are on the volume once are cached once
    compaction = database["compaction"] or {}
    return Demand(
        tps=tps,
        redo_bytes_s=database["log"]["redo_bytes_per_tx"] * tps,
        binlog_bytes_s=database["log"]["binlog_bytes_per_tx"] * tps,
        compaction_bytes_s=compaction.get("write_bytes_per_tx", 0.0) * tps,
        flushed_pages_s=database["writes"]["flush_per_tx"] * tps,
        hot_gib=None if hot >= sizes[-1] else hot,
        looked_gib=sizes[-1],
        data_gib=workload.size_gib,
    )


def effect_of(parameter: str, value: str, before: str | None, situation: Situation) -> str | None:
    """What changing `parameter` from `before` to `value` does, in a sentence; None without a workload or without a value to compare with."""
    if situation.workload is None:
        return None
    base = state_of(situation)
    changed = _ALTERNATIVES.get(parameter)
    if changed is not None:
        other = changed(base, situation)
        if other is None:
            return None
        label, state, note = other
        return _sentence(label, base, state, situation, note)
    old = _before(parameter, before, base)
    if old is None:
        return f"{NOT_ESTIMATED}: the value today is not known (name the server or its option file)"
    if parameter in REDO and not situation.compared:
        return f"{NOT_ESTIMATED}: the redo log the workload was measured with is not known (name the server or its option file)"
    label = f"{_readable(before)} to {_readable(value)}"
    if old == base or same("count", before, value):
        return "as it is"
    return _sentence(label, old, base, situation, _NOTES.get(parameter, ""), first_hour=parameter == "innodb_buffer_pool_load_at_startup")


def _readable(value: str) -> str:
    """Whole mebibytes with their unit; else as it is."""
    size = as_bytes(value)
    return size_text(size) if size and size % MIB == 0 else value


def state_of(situation: Situation) -> State:
    """The model's settings as advised."""
    chosen, innodb = situation.chosen, situation.engine == "innodb"
    cache = chosen.get("innodb_buffer_pool_size" if innodb else "rocksdb_block_cache_size")
    commit = chosen.get("innodb_flush_log_at_trx_commit" if innodb else "rocksdb_flush_log_at_trx_commit", "1")
    limit = chosen.get("rocksdb_rate_limiter_bytes_per_sec")
    return State(
        cache_gib=as_bytes(cache) / GIB if cache else situation.cache_limit_gib,
        redo_bytes=redo_of(chosen),
        at_commit=int(commit),
        sync_binlog=int(chosen.get("sync_binlog", "1")),
        doublewrite=is_on(chosen.get("innodb_doublewrite", "ON")),
        compaction_write_bytes_s=as_bytes(limit) if limit else None,
        log_storage=None if situation.log_storage is None else situation.log_storage.text,
        start="warm",
    )


def redo_of(chosen: dict[str, str]) -> float | None:
    """Bytes of all redo files together, None where there is none."""
    if "innodb_redo_log_capacity" in chosen:
        return as_bytes(chosen["innodb_redo_log_capacity"])
    if "innodb_log_file_size" in chosen:
        each = as_bytes(chosen["innodb_log_file_size"])
        return None if each is None else each * (as_number(chosen.get("innodb_log_files_in_group")) or 1)
    return None


def _before(parameter: str, before: str | None, base: State) -> State | None:
    """The state with one parameter as it was; None where that is not known."""
    if before in (None, ""):
        return None
    size, number = as_bytes(before), as_number(before)
    if parameter in ("innodb_buffer_pool_size", "rocksdb_block_cache_size") and size:
        return replace(base, cache_gib=size / GIB)
    if parameter in ("innodb_redo_log_capacity", "innodb_log_file_size") and size and base.redo_bytes:
        return replace(base, redo_bytes=size)
    if parameter in ("innodb_flush_log_at_trx_commit", "rocksdb_flush_log_at_trx_commit") and number is not None:
        return replace(base, at_commit=int(number))
    if parameter == "sync_binlog" and number is not None:
        return replace(base, sync_binlog=int(number))
    if parameter == "innodb_buffer_pool_load_at_startup":
        return replace(base, start="cold" if not is_on(before) else "warm")
    if parameter == "rocksdb_rate_limiter_bytes_per_sec" and size is not None:
        return replace(base, compaction_write_bytes_s=size or UNLIMITED_BYTES_S)
    return None


def _other_commit(base: State, situation: Situation) -> tuple[str, State, str] | None:
    to = 2 if base.at_commit == 1 else 1
    return f"{to} instead of {base.at_commit}", replace(base, at_commit=to), ""


def _other_sync(base: State, situation: Situation) -> tuple[str, State, str] | None:
    if situation.workload.database["log"]["binlog_bytes_per_tx"] <= 0.0:
        return "without a binlog", base, ""
    to = 0 if base.sync_binlog == 1 else 1
    return f"{to} instead of {base.sync_binlog}", replace(base, sync_binlog=to), ""


def _no_doublewrite(base: State, situation: Situation) -> tuple[str, State, str] | None:
    return "OFF instead of ON", replace(base, doublewrite=False), ""


def _log_volume(base: State, situation: Situation) -> tuple[str, State, str] | None:
    if base.log_storage is not None:
        return f"without {base.log_storage}", replace(base, log_storage=None), ""
    candidate = log_candidate(situation)
    return None if candidate is None else (f"with {candidate} for redo and binlog", replace(base, log_storage=candidate), "")


def log_candidate(situation: Situation) -> str | None:
    """A small volume for the logs: gp3 with what it includes, or gp2 before there was gp3; room for the redo log and a day of binlogs."""
    demand = situation.demand
    binlog = 0.0 if demand is None else demand.binlog_bytes_s * 86_400.0
    size = max(10, math.ceil(((redo_of(situation.chosen) or 0.0) * 1.2 + binlog) / GIB))
    for kind in ("gp3", "gp2"):
        text = f"{kind}:{size}"
        try:
            with core_errors():
                core.storage_limits(text, situation.as_of, situation.instance_type)
        except Exception:
            continue
        return text
    return None


# Parameters advised as they already are on most servers: what matters is what the other value would bring.
_ALTERNATIVES: dict[str, Callable] = {
    "innodb_flush_log_at_trx_commit": _other_commit,
    "rocksdb_flush_log_at_trx_commit": _other_commit,
    "sync_binlog": _other_sync,
    "innodb_doublewrite": _no_doublewrite,
    "log_volume": _log_volume,
    "innodb_log_group_home_dir": _log_volume,
    "log_bin": _log_volume,
    "rocksdb_wal_dir": _log_volume,
}
_NOTES = {
    "innodb_redo_log_capacity": "the workload taken as measured with the former; stalls of a too small log are not in it",
    "innodb_log_file_size": "the workload taken as measured with the former; stalls of a too small log are not in it",
    "rocksdb_rate_limiter_bytes_per_sec": "means; the stalls it smooths are not in them",
    "innodb_buffer_pool_load_at_startup": "first hour after a restart; the load's own minutes not counted",
}


def _sentence(label: str, old: State, new: State, situation: Situation, note: str, first_hour: bool = False) -> str:
    """`A to B: 210 to 254 tps, +21 % (80 %: +15 to +27)`, over a warm hour."""
    database = situation.workload.database
    before, after = (_tps(database, state, situation, first_hour) for state in (old, new))
    change = math.log(max(after, 1e-9) / max(before, 1e-9))
    spread = _spread(old, new, situation, first_hour)
    if abs(change) < NOTHING and spread < NOTHING:
        said = "no change"
    else:
        said = _change(change)
        if spread >= NOTHING:
            said += f" (80 %: {_change(change - Z80 * spread)} to {_change(change + Z80 * spread)})"
    tail = f"; {note}" if note else ""
    return f"{label}: {before:,.4g} to {after:,.4g} tps, {said}, simulated{tail}"


def _spread(old: State, new: State, situation: Situation, first_hour: bool) -> float:
    """Standard deviation of the logarithm of the ratio over databases as probable as the calibration says."""
    ratios = []
    for database in situation.workload.draws(DRAWS, 1):
        before, after = (_tps(database, state, situation, first_hour) for state in (old, new))
        ratios.append(math.log(max(after, 1e-9) / max(before, 1e-9)))
    return statistics.stdev(ratios) if len(ratios) > 1 else 0.0


def _change(logarithm: float) -> str:
    """`+21 %`, or from three times on `3.2 times`."""
    factor = math.exp(logarithm)
    return f"{factor:.3g} times" if factor >= MANY else f"{(factor - 1.0) * 100.0:+.3g} %"


def _tps(database: dict, state: State, situation: Situation, first_hour: bool) -> float:
    set_up = _settled(database, state, situation)
    start = state.start if first_hour else "warm"
    rows = _simulate(set_up, [_run(situation, state.cache_gib, state.log_storage, start)])[0]
    return _mean(rows, whole=first_hour)


def _settled(database: dict, state: State, situation: Situation) -> dict:
    """The database under these settings. The redo log it was calibrated with is taken to be today's, where that is known."""
    measured = (redo_of(situation.current) or situation.default_redo_bytes) if situation.compared else None
    if measured is not None and not 0.0 < measured <= MOST_REDO_BYTES:
        measured = None  # no server has that
    with core_errors():
        return core.database_under(
            database,
            {
                "flush_log_at_trx_commit": state.at_commit,
                "sync_binlog": state.sync_binlog,
                "doublewrite": state.doublewrite,
                "redo_bytes": state.redo_bytes,
                "measured_redo_bytes": measured,
                "compaction_write_bytes_s": state.compaction_write_bytes_s,
            },
        )


def _run(situation: Situation, cache_gib: float, log_storage: str | None, start: str) -> dict:
    credits = situation.storage.burst_iops > situation.storage.iops
    return {
        "storage": situation.storage.text, "log_storage": log_storage, "instance": situation.instance_type, "as_of": situation.as_of,
        "cache_bytes": cache_gib * GIB, "clients": situation.workload.threads, "arrivals": None, "start": start, "seconds": HOUR_S,
        # Sustained: what is left when the credits are gone.
        "step_s": STEP_S, "seed": None, "start_balance_percent": 0.0 if credits else None, "follow": None,
    }  # fmt: skip


def _simulate(database: dict, runs: list[dict]) -> list[dict]:
    with core_errors():
        return core.mysql_runs(database, runs)


def _mean(rows: dict, whole: bool = False) -> float:
    """Mean tps of the second half, or of all."""
    values = rows["tps"] if whole else rows["tps"][len(rows["tps"]) // 2 :]
    return sum(values) / len(values)


def fill_time_s(cache_gib: float, iops: float, bytes_s: float) -> float:
    """Seconds to read a cache full page by page at the storage's sustained rates."""
    return cache_gib * GIB / min(iops * 16_384.0, bytes_s)
