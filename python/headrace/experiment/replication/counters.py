"""What a replica's server, process and volume counted between two moments, per transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.base.units import MIB
from headrace.experiment.replication.statements import Statements

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SECTOR = 512  # the unit of /sys/block/*/stat, whatever the device's own (Documentation/block/stat.rst)
# Fields of /sys/block/*/stat: reads, merged, sectors, ms; writes, merged, sectors, ms; in flight,
# ms busy, ms queued; discards (4); flushes, ms of flushes.
STAT = {"reads": 0, "read_sectors": 2, "read_ms": 3, "writes": 4, "writes_merged": 5, "write_sectors": 6, "write_ms": 7, "flushes": 15, "flush_ms": 16}  # fmt: skip
STATUS = (
    "Innodb_data_reads",
    "Innodb_data_writes",
    "Innodb_data_fsyncs",
    "Innodb_os_log_fsyncs",
    "Innodb_os_log_written",
    "Innodb_log_writes",
    "Innodb_buffer_pool_reads",
    "Innodb_buffer_pool_read_requests",
    "Innodb_buffer_pool_pages_flushed",
    "Innodb_buffer_pool_wait_free",
    "Innodb_pages_written",
    "Innodb_pages_read",
    "Innodb_dblwr_pages_written",
    "Innodb_dblwr_writes",
    "Binlog_commits",
    "Binlog_group_commits",
    "Slave_retried_transactions",
)


@dataclass(frozen=True)
class Counted:
    """Totals at a moment. `device`: of all its volumes together; `cpu_s`: of the process."""

    at: float
    applied: int
    status: Mapping[str, float]
    device: Mapping[str, float]
    cpu_s: float
    metrics: Mapping[str, float]


def count(sql: Statements) -> Counted:
    """All counters now."""
    server = sql.server
    at = time.monotonic()
    applied = sql.applied()
    status = {row["Variable_name"].lower(): row["Value"] for row in sql.rows("SHOW GLOBAL STATUS")}
    found = {name: float(status[name.lower()]) for name in STATUS if name.lower() in status}
    devices = [_device(device) for device in server.devices]
    device = {name: sum(one[name] for one in devices) for name in STAT}
    return Counted(at, applied, found, device, cpu_s(server.pid), _applier_metrics(sql))


def _device(device: str) -> dict[str, float]:
    fields = Path(f"/sys/block/{Path(device).name}/stat").read_text().split()
    return {name: float(fields[index]) for name, index in STAT.items()}


def cpu_s(pid: int | None) -> float:
    """Processor time of a process so far, s."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS  # utime, stime: proc(5)


def _applier_metrics(sql: Statements) -> dict[str, float]:
    """MySQL's component_replication_applier_metrics, where it is loaded: counts and times of
    waits."""
    if sql.mariadb:
        return {}
    try:
        rows = sql.rows("SELECT * FROM performance_schema.replication_applier_metrics")
    except Exception:
        return {}
    return {key.lower(): float(value) for row in rows for key, value in row.items() if isinstance(value, int | float)}


@dataclass(frozen=True)
class PerTransaction:
    """What one applied transaction took, from two counts.

    Times in ms. `reads`: page reads that InnoDB waited for or started, `pages`: written, `flushes`:
    of the device, `log_bytes`: redo. `group`: commits in one flush of the binary log. `latencies`:
    of one request of the device as the kernel saw it, merged requests as one.
    """

    transactions: int
    seconds: float
    reads: float
    pages: float
    log_bytes: float
    fsyncs: float
    group: float | None
    retries: float
    waits_for_free: float
    device_reads: float
    device_writes: float
    device_flushes: float
    device_mib: float
    cpu_ms: float
    read_latency_ms: float | None
    write_latency_ms: float | None
    flush_latency_ms: float | None
    metrics: Mapping[str, float]

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds


def between(first: Counted, last: Counted) -> PerTransaction:
    """Per transaction between two counts; at least one transaction lies between them."""
    n = last.applied - first.applied

    def status(name: str) -> float:
        return last.status.get(name, 0.0) - first.status.get(name, 0.0)

    def device(name: str) -> float:
        return last.device[name] - first.device[name]

    def mean(time_of: str, of: str) -> float | None:
        return device(time_of) / device(of) if device(of) > 0 else None

    groups = status("Binlog_group_commits")
    return PerTransaction(
        transactions=n,
        seconds=last.at - first.at,
        reads=status("Innodb_buffer_pool_reads") / n,
        pages=status("Innodb_buffer_pool_pages_flushed") / n,
        log_bytes=status("Innodb_os_log_written") / n,
        fsyncs=status("Innodb_data_fsyncs") / n,
        group=status("Binlog_commits") / groups if groups else None,
        retries=status("Slave_retried_transactions") / n,
        waits_for_free=status("Innodb_buffer_pool_wait_free") / n,
        device_reads=device("reads") / n,
        device_writes=(device("writes") - device("flushes")) / n,
        device_flushes=device("flushes") / n,
        device_mib=(device("read_sectors") + device("write_sectors")) * SECTOR / MIB / n,
        cpu_ms=1e3 * (last.cpu_s - first.cpu_s) / n,
        read_latency_ms=mean("read_ms", "reads"),
        write_latency_ms=mean("write_ms", "writes"),
        flush_latency_ms=mean("flush_ms", "flushes"),
        metrics={key: last.metrics[key] - first.metrics.get(key, 0.0) for key in last.metrics},
    )
