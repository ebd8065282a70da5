"""Counters of a replica's server, process and volumes, and their growth per transaction."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from headrace.base.processes import read_cpu_seconds
from headrace.base.units import MIB
from headrace.experiment.replication.statements import Statements
from headrace.lab.calls import VolumeTotals

# Totals of the lab per volume (`Lab.metrics_totals`).
VOLUME = (
    *("reads", "writes", "read_bytes", "write_bytes", "read_s", "write_s"),
    *("flushes", "idle_s", "queue_s", "exceeded_iops_s"),
)


@dataclass(frozen=True)
class Counted:
    """Counters at a moment: transactions `applied`, SHOW GLOBAL STATUS, the lab's totals of all
    volumes of the server together, and the processor time of its process, s."""

    at: float
    applied: int
    status: Mapping[str, float]
    volume: Mapping[str, float]
    cpu_s: float


def count(sql: Statements) -> Counted:
    """Reads the current counters of a server."""
    server = sql.server
    at, applied, status = time.monotonic(), sql.count_done(), sql.read_status()
    totals = sum_volume_totals(server.lab.metrics_totals()["volumes"], set(server.volumes.ids))
    return Counted(at, applied, status, totals, read_cpu_seconds(server.pid) or 0.0)


def sum_volume_totals(totals: Iterable[VolumeTotals], volumes: Collection[str]) -> dict[str, float]:
    """Returns the sums of the lab's totals of some volumes; an array counts once, not by its
    members."""
    rows = [row for row in totals if row["volume"] in volumes and row["member"] is None]
    figures = [cast("Mapping[str, float]", row) for row in rows]
    return {name: float(sum(row[name] for row in figures)) for name in VOLUME}


@dataclass(frozen=True)
class VolumePerTransaction:
    """The lab's own count of a volume's requests, by transactions; latencies, ms, with waits for
    caps included."""

    reads: float
    writes: float
    flushes: float
    mib: float
    read_latency_ms: float | None
    write_latency_ms: float | None


@dataclass(frozen=True)
class PerTransaction:
    """The cost of one applied transaction, from two counts.

    Times in ms. `reads`: pages that a thread waited for; `pages`: written; `log_bytes`: redo;
    `group`: commits in one flush of the binary log. `busy`: share of the time with a request in
    flight. `free`: share of the buffer pool without a page, at the end.
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
    cpu_ms: float
    volume: VolumePerTransaction
    busy: float
    queue: float
    capped: float
    free: float

    @property
    def tps(self) -> float:
        return self.transactions / self.seconds


def compute_per_transaction(first: Counted, last: Counted) -> PerTransaction:
    """Returns the figures per applied transaction between two counts, which must be apart by at
    least one transaction."""
    transactions = last.applied - first.applied

    def subtract_status(name: str) -> float:
        return last.status.get(name, 0.0) - first.status.get(name, 0.0)

    def subtract_volume(name: str) -> float:
        return last.volume[name] - first.volume[name]

    def compute_mean_ms(time_of: str, of: str) -> float | None:
        return 1e3 * subtract_volume(time_of) / subtract_volume(of) if subtract_volume(of) > 0 else None

    groups, seconds = subtract_status("binlog_group_commits"), last.at - first.at
    return PerTransaction(
        transactions=transactions,
        seconds=seconds,
        reads=subtract_status("innodb_buffer_pool_reads") / transactions,
        pages=subtract_status("innodb_buffer_pool_pages_flushed") / transactions,
        log_bytes=subtract_status("innodb_os_log_written") / transactions,
        fsyncs=subtract_status("innodb_data_fsyncs") / transactions,
        group=subtract_status("binlog_commits") / groups if groups else None,
        retries=subtract_status("slave_retried_transactions") / transactions,
        waits_for_free=subtract_status("innodb_buffer_pool_wait_free") / transactions,
        cpu_ms=1e3 * (last.cpu_s - first.cpu_s) / transactions,
        volume=VolumePerTransaction(
            reads=subtract_volume("reads") / transactions,
            writes=subtract_volume("writes") / transactions,
            flushes=subtract_volume("flushes") / transactions,
            mib=(subtract_volume("read_bytes") + subtract_volume("write_bytes")) / MIB / transactions,
            read_latency_ms=compute_mean_ms("read_s", "reads"),
            write_latency_ms=compute_mean_ms("write_s", "writes"),
        ),
        busy=1.0 - subtract_volume("idle_s") / seconds,
        queue=subtract_volume("queue_s") / seconds,
        capped=subtract_volume("exceeded_iops_s") / seconds,
        free=last.status["innodb_buffer_pool_pages_free"] / last.status["innodb_buffer_pool_pages_total"],
    )
