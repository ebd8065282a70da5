"""Where a calibration begins: the standard benchmark the run names, moved to what its settings say."""

from __future__ import annotations

import re

from headrace import _core
from headrace.errors import InputError, core_errors
from headrace.workload.calibration.counted import as_counted
from headrace.workload.runs import Run

DOC = "docs/reference/run-description.md"
GIB = 1024.0**3
# Bytes of a warehouse on disk: 471 GB and 100 GB over 5,000 of them (published runs of 2018; MyRocks with LZ4).
TPCC_BYTES = {"innodb": 94.2e6, "myrocks": 20e6}
# sysbench's options of a distribution, as the core names them.
DISTRIBUTION_OPTIONS = {
    "rand_spec_pct": "percent",
    "rand_spec_res": "share",
    "rand_spec_iter": "iterations",
    "rand_pareto_h": "h",
    "rand_zipfian_exp": "exponent",
}
# The settings go to 2^64 - 1; no volume writes a million pages a second, and the standard's limit is none.
MOST_PAGES_PER_S, NO_LIMIT_PER_S = 1e6, 1e9
# InnoDB's flush settings that mean a log write at every commit.
AT_COMMIT = 1


def standard(run: Run) -> dict:
    """The core's database for a run's benchmark, size and settings. Raises InputError for a benchmark no standard is known of."""
    benchmark = run.benchmark
    if benchmark.name == "sysbench-tpcc":
        return _unhurried(settled(tpcc(run.engine, benchmark.tables * benchmark.scale), run.settings), run)
    if benchmark.name == "sysbench-oltp":
        return as_counted(_unhurried(oltp(_options(run))["database"], run), run)
    if benchmark.data_gib is None:
        raise InputError("benchmark.data_gib is missing", "a load of your own needs the size of its data", DOC, "Give data_gib.")
    return as_counted(_unhurried(settled(own(run), run.settings), run), run)


def own(run: Run) -> dict:
    """A load of the user's own: TPC-C's spread of popularity over its data. Weakly founded; the runs decide."""
    per_warehouse = TPCC_BYTES[run.engine] / GIB
    return tpcc(run.engine, max(1.0, run.benchmark.data_gib / per_warehouse))


def oltp(options: dict) -> dict:
    """A sysbench OLTP script: `database`, `size_gib`, `spreads`. Raises InputError."""
    with core_errors():
        return _core.mysql_sysbench(options)


def _options(run: Run) -> dict:
    benchmark, settings = run.benchmark, run.settings
    kind = {"type": benchmark.distribution or "special"}
    kind |= {DISTRIBUTION_OPTIONS[name]: value for name, value in benchmark.parameters.items() if name in DISTRIBUTION_OPTIONS}
    known = {
        name: settings[name]
        for name in ("redo_gib", "flush_log_at_trx_commit", "sync_binlog", "io_capacity", "doublewrite", "memtable_mib")
        if name in settings
    }
    known = _usual(run) | known
    if "binlog" in settings:
        known["log_bin"] = bool(settings["binlog"])
    return {"script": benchmark.script, "distribution": kind, "engine": run.engine, "tables": benchmark.tables, "table_size": benchmark.scale,
            "threads": run.threads, "cache_gib": run.cache_gib} | known  # fmt: skip


def writes_in_background(run: Run) -> bool:
    """Whether pages are written at a rate of their own (innodb_io_capacity) while clients work.

    Not by MariaDB since its page cleaner of 10.5: with innodb_max_dirty_pages_pct_lwm = 0, its default, it does that only when idle. Under oltp_read_write MariaDB 10.11 wrote
    2.8 to 3.3 pages a transaction at 300, 600, 1,000 and 3,000 IOPS alike, with innodb_io_capacity = 500 (a lab, 2026-11-21).
    """
    return run.flavor != "mariadb" or () < _version(run) < (10, 5)


def _unhurried(database: dict, run: Run) -> dict:
    """Without writes in the background where the server makes none."""
    return database if writes_in_background(run) else database | {"writes": {**database["writes"], "background_per_s": 0.0}}


def _version(run: Run) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", run.engine_version or "")[:2])


def _usual(run: Run) -> dict:
    """Defaults of the server that are not those of MySQL 8.0, by flavor and version (their manuals); for what a description leaves out."""
    version = _version(run)
    if run.flavor == "mariadb":
        return {"log_bin": False, "sync_binlog": 0}
    if version and version < (8, 0):
        return {"log_bin": False, "sync_binlog": 1 if version >= (5, 7) else 0}
    return {"io_capacity": 10_000} if version >= (8, 4) else {}


def tpcc(engine: str, warehouses: float) -> dict:
    """sysbench-tpcc over so many warehouses. Raises InputError."""
    with core_errors():
        return _core.mysql_tpcc(engine, float(warehouses))


def settled(database: dict, settings: dict) -> dict:
    """A database under server settings: what they decide outright."""
    log, writes = dict(database["log"]), dict(database["writes"])
    if "flush_log_at_trx_commit" in settings:
        log["syncs_per_commit"] = 1.0 if int(settings["flush_log_at_trx_commit"]) == AT_COMMIT else 0.0
    if settings.get("binlog") is False:
        log["binlog_bytes_per_tx"] = 0.0
    elif int(settings.get("sync_binlog", 0)) == 1:
        log["syncs_per_commit"] += 2.0  # the binlog grows: its data, then the filesystem's journal
    if database["engine"] == "innodb":
        writes["background_per_s"] = min(float(settings.get("io_capacity", writes["background_per_s"])), MOST_PAGES_PER_S)
        writes["flush_limit_per_s"] = min(float(settings.get("io_capacity_max", writes["flush_limit_per_s"])), NO_LIMIT_PER_S)
        writes["doublewrite"] = bool(settings.get("doublewrite", writes["doublewrite"]))
    return database | {"log": log, "writes": writes}
