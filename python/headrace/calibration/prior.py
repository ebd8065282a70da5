"""Builds the database from which a calibration starts: the standard benchmark that the run names,
under the run's settings and with the counters of its server.

The counters (bytes of redo and WAL, compaction, pages of the pool in use) are of the whole server,
so they are taken over the transactions of the run, which no other load should share:
`checks.check_commits` notes runs in which another load ran.
"""

from __future__ import annotations

import math
import re
from typing import cast

import numpy as np

from headrace.base import core
from headrace.base.core import translate_core_errors
from headrace.base.units import GIB
from headrace.calibration.observations import get_page_kib
from headrace.calibration.runs import Run
from headrace.errors import Refusals
from headrace.workload.server_settings import apply_server_settings

refuse = Refusals("docs/reference/run-description.md")
# Bytes of a warehouse on disk: 471 GB and 100 GB over 5,000 of them (published runs of 2018;
# MyRocks with LZ4).
TPCC_BYTES = {"innodb": 94.2e6, "myrocks": 20e6}
# Bytes of a warehouse of HammerDB's TPROC-C in InnoDB: 1,000 take about 100 GB (published runs of
# 2026).
TPROCC_BYTES = 100e6
# sysbench's options of a distribution, as the core names them.
DISTRIBUTION_OPTIONS = {
    "rand_spec_pct": "percent",
    "rand_spec_res": "share",
    "rand_spec_iter": "iterations",
    "rand_pareto_h": "h",
    "rand_zipfian_exp": "exponent",
}
# Settings of a run that decide a value of its database outright: key of the run, name of the core.
SETTINGS_OF_DATABASE = {
    "flush_log_at_trx_commit": "flush_log_at_trx_commit",
    "binlog": "log_bin",
    "sync_binlog": "sync_binlog",
    "doublewrite": "doublewrite",
    "io_capacity": "io_capacity",
    "io_capacity_max": "io_capacity_max",
}
# Settings of the page cleaner: key of the run, name of the core.
SETTINGS_OF_CLEANER = {
    "io_capacity": "io_capacity",
    "io_capacity_max": "io_capacity_max",
    "max_dirty_percent": "max_dirty_pages_pct",
    "max_dirty_lwm_percent": "max_dirty_pages_pct_lwm",
    "adaptive_flushing_lwm_percent": "adaptive_flushing_lwm",
}
# Pages a second that the disk writes at random, over innodb_io_capacity_max: people set that by the
# disk, as the manual advises, and leave a part of the disk to clients. Guesses: a factor of 2, and
# a spread of a factor of two either way.
DISK_OVER_IO_CAPACITY_MAX = 2.0
IO_CAPACITY_SPREAD = math.log(2.0)
# Defaults of the server that are applied if a run does not say the setting. The default io_capacity
# is not: the standard's background writes are measured.
DEFAULTS_THAT_COUNT = ("log_bin", "sync_binlog")


def build_prior(run: Run) -> dict:
    """Returns the core's database of the standard benchmark that a run names, under the run's
    settings and counters, at the speed of its processors. Raises InputError if a load of the user's
    own does not say its size."""
    database = _build_standard(run)
    clients = core.clients_at_speed(database["clients"], run.machine.core_speed)
    threads = None if run.instance else run.settings.get("threads_per_core")
    database |= {"clients": {**clients, "core_speed": run.machine.core_speed, "threads_per_core": threads}}
    if run.machine.alone_faster is not None:
        database["clients"]["alone_faster"] = run.machine.alone_faster
    if "io_cpu_us" in run.settings:
        server_ms = database["clients"]["io_ms"]
        io_ms = core.processor_ms(run.settings["io_cpu_us"] / 1e3, 0.0, run.threads_per_core)
        database["clients"] |= {"io_ms": io_ms, "io_device_ms": max(0.0, io_ms - server_ms)}
    if run.engine == "innodb":
        database |= {"checkpoint": core.checkpoint_law(run.flavor or "mysql", _choose_redo_release(run))}
    disk = find_local_disk(run, database)
    if disk is not None:
        database |= {
            "local_disk": disk["writes"],
            "local_disk_reads": disk["reads"],
            "local_disk_read_ms": disk["read_ms"],
        }
    return database


def find_local_disk(run: Run, database: dict) -> core.LocalDisk | None:
    """Returns the speed of a run's local disk, estimated from its kind, its size, the server's
    settings and the load; None if the run is on volumes or the catalog has the disk's figures."""
    if not math.isinf(run.caps.iops):
        return None
    pages_s = run.settings.get("io_capacity_max")
    known_writes = None if pages_s is None else (DISK_OVER_IO_CAPACITY_MAX * pages_s, IO_CAPACITY_SPREAD)
    size_gb = core.parse_storage(run.storage)["members"][0]["size_gib"] * GIB / 1e9
    with translate_core_errors():
        return core.mysql_local_disk(
            cast("core.Database", database),
            run.cache_gib * GIB,
            run.machine.local_disk,
            size_gb,
            known_writes,
            run.as_of.isoformat(),
        )


def find_own_spreads(run: Run, database: dict) -> dict[str, float]:
    """Returns the spreads before a run of parameters for which its description decides them, by
    name: so far the speed of its local disk, empty without one."""
    disk = find_local_disk(run, database)
    return {} if disk is None else {"local_disk": disk["spread"]}


def _build_standard(run: Run) -> dict:
    """Returns the database of the run's benchmark under its settings and counters."""
    benchmark = run.benchmark
    if benchmark.name == "sysbench-tpcc":
        return _drop_background_writes(
            apply_settings(
                build_tpcc(
                    run.engine,
                    (benchmark.tables or 1) * (benchmark.scale or 1),
                    run.machine.client_host,
                    run.cache_gib * GIB,
                ),
                run,
            ),
            run,
        )
    if benchmark.name == "hammerdb-tprocc":
        return apply_counters(apply_settings(dict(build_tprocc(_collect_tprocc_options(run))["database"]), run), run)
    if benchmark.name == "sysbench-oltp":
        database = _split_dirty_by_class(build_oltp(_collect_oltp_options(run)))
        return apply_counters(_apply_to_cleaner(database, run), run)
    if benchmark.data_gib is None:
        hint = "Give data_gib."
        raise refuse.input("benchmark.data_gib is missing", "a load of your own needs the size of its data", hint)
    return apply_counters(_drop_background_writes(apply_settings(_build_own(run), run), run), run)


def _apply_to_cleaner(database: dict, run: Run) -> dict:
    """Returns the database with its page cleaner under the settings of a run; unchanged without a
    page cleaner or such settings."""
    given = {name: run.settings[key] for key, name in SETTINGS_OF_CLEANER.items() if key in run.settings}
    if database["cleaner"] is None or not given:
        return database
    if "io_capacity" in given:
        given.setdefault("io_capacity_max", _find_io_capacity_max(run))
    return apply_server_settings(database, given)


def _split_dirty_by_class(standard: core.SysbenchAnswer) -> dict:
    """Returns the database of a sysbench script with dirty pages followed by page class, as those
    of TPROC-C are: leaves of secondary indexes are changed by nearly every touch, and a larger
    cache keeps more of them, so that fewer evicted pages are dirty. A change is written once, when
    its redo must go or its page is evicted. Unchanged if nothing is written or the page cleaner is
    followed, which has the classes already."""
    database, writes = dict(standard["database"]), standard["database"]["writes"]
    if database["engine"] != "innodb" or database["cleaner"] is not None or not writes["later_dirty"] > 0.0:
        return database
    # A changed page is written once in as many transactions as the redo log holds.
    window = {"window_tx": writes["flush_ramp_tx"], "flush_per_tx": writes["flush_per_tx"]}
    return database | {
        "dirtying": {"changed": list(standard["changed"]), **window},
        "writes": {**writes, "first_dirty": 1.0, "later_dirty": 1.0, "background_per_s": 0.0},
    }


def _build_own(run: Run) -> dict:
    """Returns the database of a load of the user's own: TPC-C's popularity of pages over the data
    of its size. A weak guess, which the runs correct."""
    per_warehouse = TPCC_BYTES[run.engine] / GIB
    database = build_tpcc(run.engine, max(1.0, (run.benchmark.data_gib or 0.0) / per_warehouse))
    # Stock levels, which read the last orders, are of TPC-C alone.
    return database | {"last_orders": None}


def build_oltp(options: dict) -> core.SysbenchAnswer:
    """Returns the core's standard of a sysbench OLTP script: `database`, `size_gib`, `spreads`, and
    the share of touches by page class that change the page (`changed`). Raises InputError."""
    with translate_core_errors():
        return core.mysql_sysbench(options)


def build_tprocc(options: dict) -> core.TproccAnswer:
    """Returns the core's standard of HammerDB's TPROC-C: `database`, and the share of touches by
    page class that change the page (`changed`). Raises InputError."""
    with translate_core_errors():
        return core.mysql_tprocc(options)


def _collect_tprocc_options(run: Run) -> dict:
    """Returns the options of the core's TPROC-C for a run."""
    warehouses = (run.benchmark.tables or 1) * (run.benchmark.scale or 1)
    redo = {"redo_gib": run.settings["redo_gib"]} if "redo_gib" in run.settings else {}
    return (
        {
            "warehouses": float(warehouses),
            "cache_gib": run.cache_gib,
            "flavor": _name_flavor(run),
            "version": _choose_redo_release(run),
        }
        | redo
        | _collect_client_host(run)
    )


def _name_flavor(run: Run) -> str:
    """Returns the core's name of the run's flavor; Percona Server counts as MySQL."""
    return "mariadb" if run.flavor == "mariadb" else "mysql"


def _collect_client_host(run: Run) -> dict:
    """Returns the core's option `client_host`, where the clients run; empty if not described."""
    return {} if run.machine.client_host is None else {"client_host": run.machine.client_host}


def _collect_oltp_options(run: Run) -> dict:
    """Returns the options of the core's sysbench OLTP scripts for a run."""
    benchmark, settings = run.benchmark, run.settings
    kind = {"type": benchmark.distribution or "special"}
    kind |= {
        DISTRIBUTION_OPTIONS[name]: value
        for name, value in benchmark.parameters.items()
        if name in DISTRIBUTION_OPTIONS
    }
    options = {
        name: settings[name]
        for name in ("redo_gib", "flush_log_at_trx_commit", "sync_binlog", "io_capacity", "doublewrite", "memtable_mib")
        if name in settings
    }
    options = _choose_defaults(run) | options
    if "binlog" in settings:
        options["log_bin"] = bool(settings["binlog"])
    if follows_dirty_pages(run):
        options["cleaner"] = core.page_cleaner("mysql", _choose_redo_release(run))
    return (
        {
            "script": benchmark.script,
            "distribution": kind,
            "engine": run.engine,
            "flavor": _name_flavor(run),
            "tables": benchmark.tables,
            "table_size": benchmark.scale,
            "threads": run.threads,
            "cache_gib": run.cache_gib,
        }
        | options
        | _collect_client_host(run)
    )


def follows_dirty_pages(run: Run) -> bool:
    """Returns whether the model follows the dirty pages of a sysbench script by page class, as the
    page cleaner of MySQL from 8.4 treats them."""
    return run.engine == "innodb" and run.flavor != "mariadb" and _parse_version(run) >= (8, 4)


# Pages a second: innodb_io_capacity of MySQL from 8.4 (its manual).
IO_CAPACITY_FROM_8_4 = 10_000


def writes_in_background(run: Run) -> bool:
    """Returns whether the server writes pages at innodb_io_capacity while clients work, which
    counts for pages whose changes are not followed.

    MariaDB from 10.5 does not: with innodb_max_dirty_pages_pct_lwm = 0, its default, its page
    cleaner does so only when idle. Under oltp_read_write MariaDB 10.11 wrote 2.8 to 3.3 pages
    a transaction at 300, 600, 1,000 and 3,000 IOPS alike, with innodb_io_capacity = 500 (a lab,
    2026-11-21).
    """
    return run.flavor != "mariadb" or () < _parse_version(run) < (10, 5)


def _drop_background_writes(database: dict, run: Run) -> dict:
    """Returns the database, without background writes if the server makes none."""
    return (
        database
        if writes_in_background(run)
        else database | {"writes": {**database["writes"], "background_per_s": 0.0}}
    )


# MySQL 8.0 was ready for general use on 2018-04-19 (its release notes, 8.0.11). A run of before a
# year after it that does not say its version is taken for a 5.7, which is a guess: that one writes
# no binary log unless told to.
TAKEN_FOR_8_0_FROM = "2019-04-19"
# MySQL 8.0.30, with innodb_redo_log_capacity, was ready on that day (its release notes).
CAPACITY_FROM = "2022-07-26"


def _parse_version(run: Run) -> tuple[int, ...]:
    """Returns the server's version as up to three numbers; an empty tuple if it is not known."""
    return tuple(int(part) for part in re.findall(r"\d+", run.engine_version or "")[:3])


def _choose_redo_release(run: Run) -> str:
    """Returns the server's version, which decides how its redo log is limited; if it is not known,
    a release that was current on the day of the run."""
    if run.flavor == "mariadb":
        return run.engine_version or "10.5"
    return run.engine_version or ("8.0" if run.as_of.isoformat() < CAPACITY_FROM else "8.4")


def _find_io_capacity_max(run: Run) -> float:
    """Returns the default innodb_io_capacity_max, pages a second: twice the run's
    innodb_io_capacity, at least 2,000 (manuals of MySQL 5.7 to 9 and of MariaDB)."""
    usual = _choose_defaults(run).get("io_capacity", 200)
    return max(2_000.0, 2.0 * (run.settings.get("io_capacity") or usual))


def _choose_defaults(run: Run) -> dict:
    """Returns the defaults of the run's server that differ from those of MySQL 8.0, by the core's
    names, from flavor and version (their manuals)."""
    version = _parse_version(run)
    if run.flavor == "mariadb":
        # It has no binary log by default; a description with sync_binlog means that it has one.
        return {"log_bin": run.settings.get("sync_binlog", 0) > 0, "sync_binlog": 0}
    if version and version < (8, 0):
        # sync_binlog = 1 came with 5.7.7; a 5.7 without a patch level is taken for one in general
        # use (5.7.9 on).
        return {"log_bin": False, "sync_binlog": 0 if version < (5, 7) or (5, 7, 0) <= version < (5, 7, 7) else 1}
    if not version and str(run.as_of) < TAKEN_FOR_8_0_FROM:
        # A log that is not there is not synced; its few bytes stay the standard's, since it is not
        # known whether it was there.
        return {"sync_binlog": 0}
    return {"io_capacity": IO_CAPACITY_FROM_8_4} if version >= (8, 4) else {}


def build_tpcc(
    engine: str, warehouses: float, client_host: str | None = None, cache_bytes: float | None = None
) -> dict:
    """Returns the core's standard of sysbench-tpcc over `warehouses`, with clients on one of
    CLIENT_HOSTS (None: not known) and a cache of `cache_bytes` (None: small compared with the
    data). Raises InputError."""
    with translate_core_errors():
        return dict(core.mysql_tpcc(engine, float(warehouses), client_host, cache_bytes))


def apply_settings(database: dict, run: Run) -> dict:
    """Returns the database under the settings of a run, as far as they decide its values outright
    (docs/decisions/0006). Raises InputError."""
    names = SETTINGS_OF_DATABASE | (SETTINGS_OF_CLEANER if database["cleaner"] is not None else {})
    given = {name: run.settings[key] for key, name in names.items() if key in run.settings}
    if "redo_gib" in run.settings:
        given |= {"redo_bytes": run.settings["redo_gib"] * GIB, "cache_bytes": run.cache_gib * GIB}
        given.setdefault("io_capacity_max", _find_io_capacity_max(run))
    elif "io_capacity" in given and database["cleaner"] is not None:
        given.setdefault("io_capacity_max", _find_io_capacity_max(run))
    usual = {"sync_binlog": 1} | {
        name: value for name, value in _choose_defaults(run).items() if name in DEFAULTS_THAT_COUNT
    }
    return apply_server_settings(database, usual | given)


# --- what the server counted ----------------------------------------------------------------------

# A pool with more of its pages free than this, and than its page cleaner keeps free, was not full:
# its free list says nothing. A guess.
FULL_FREE_SHARE = 0.12
# Bounds of the share of a pool that holds pages: control blocks take a twentieth or less. Guesses.
LEAST_SHARE, MOST_SHARE = 0.5, 0.995
# With fewer samples the usual state of the pool is not known. A guess.
LEAST_SAMPLES = 4


def sum_per_transaction(run: Run, *names: str) -> float | None:
    """Returns the sum of counters by `names`, extended to the whole run, over its transactions;
    None if one was not recorded, or all are 0."""
    if run.status is None or run.transactions <= 0:
        return None
    total = 0.0
    for name in names:
        column = f"{name}_per_s"
        if column not in run.status.columns or run.status[column].drop_nulls().is_empty():
            return None
        samples = run.status.select(column, "duration_s").drop_nulls()
        total += (
            float((samples[column] * samples["duration_s"]).sum())
            / float(samples["duration_s"].sum())
            * run.span_s
            / run.transactions
        )
    return total if np.isfinite(total) and total > 0 else None


def measure_usable_share(run: Run) -> float | None:
    """Returns the share of the cache that holds pages once the pool is full, the rest being control
    blocks and the free list (innodb_lru_scan_depth), by the last samples of the run. None if they
    were not recorded or the pool was not full."""
    if run.status is None or not {"innodb_buffer_pool_pages_free", "innodb_buffer_pool_pages_total"} <= set(
        run.status.columns
    ):
        return None
    samples = run.status.select("innodb_buffer_pool_pages_free", "innodb_buffer_pool_pages_total").drop_nulls()
    if samples.height < LEAST_SAMPLES:
        return None
    last = samples[-max(LEAST_SAMPLES, samples.height // 4) :]
    free, total = (float(np.median(last[f"innodb_buffer_pool_pages_{what}"])) for what in ("free", "total"))
    # The page cleaner fills the free list of each instance up to innodb_lru_scan_depth: a third of
    # a pool of 64 MiB.
    ready = run.settings.get("lru_scan_depth", 0) * run.settings.get("pool_instances", 1)
    if not 0 <= free <= max(FULL_FREE_SHARE * total, ready):
        return None
    page_bytes = 1024.0 * get_page_kib(run)
    return float(np.clip((total - free) * page_bytes / (run.cache_gib * GIB), LEAST_SHARE, MOST_SHARE))


def apply_counters(database: dict, run: Run) -> dict:
    """Returns the database with the values that the server's counters give in place of the
    standard's: the usable share of the pool, bytes of redo or WAL, and compaction."""
    changed = dict(database)
    if run.engine == "innodb":
        share, redo = measure_usable_share(run), sum_per_transaction(run, "innodb_os_log_written")
        if share is not None:
            changed["usable_share"] = share
        if redo is not None:
            changed["log"] = {**changed["log"], "redo_bytes_per_tx": redo}
        return changed
    wal = sum_per_transaction(run, "rocksdb_wal_bytes")
    if wal is not None:
        factor = changed["log"]["redo_bytes_per_tx"] / wal if changed["log"]["redo_bytes_per_tx"] > 0 else 1.0
        changed["log"] = {**changed["log"], "redo_bytes_per_tx": wal}
        if changed["compaction"] is not None:
            compaction = changed["compaction"]
            changed["compaction"] = {
                **compaction,
                "period_tx": compaction["period_tx"] * factor,
                "first_tx": compaction["first_tx"] * factor,
            }
    read, written = (
        sum_per_transaction(run, "rocksdb_compact_read_bytes"),
        sum_per_transaction(run, "rocksdb_compact_write_bytes", "rocksdb_flush_write_bytes"),
    )
    if changed["compaction"] is not None and read is not None and written is not None:
        changed["compaction"] = {**changed["compaction"], "read_bytes_per_tx": read, "write_bytes_per_tx": written}
    return changed
