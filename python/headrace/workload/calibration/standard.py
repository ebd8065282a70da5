"""Where a calibration begins: the standard benchmark the run names, moved to what its settings say."""

from __future__ import annotations

from headrace import _core
from headrace.errors import InputError, core_errors
from headrace.workload.runs import Run

# InnoDB's flush settings that mean a log write at every commit.
AT_COMMIT = 1


def standard(run: Run) -> dict:
    """The core's database for a run's benchmark, size and settings. Raises InputError for a benchmark no standard is known of."""
    benchmark = run.benchmark
    if benchmark.name == "sysbench-tpcc":
        database = tpcc(run.engine, benchmark.tables * benchmark.scale)
    else:
        raise InputError(benchmark.name, "has no standard to begin from", "docs/reference/run-description.md", "Use sysbench-tpcc or sysbench-oltp.")
    return settled(database, run.settings)


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
        log["syncs_per_commit"] += 1.0
    if database["engine"] == "innodb":
        writes["background_per_s"] = float(settings.get("io_capacity", writes["background_per_s"]))
        writes["doublewrite"] = bool(settings.get("doublewrite", writes["doublewrite"]))
    return database | {"log": log, "writes": writes}
