"""Runs for tests of the store and what reads it: written as the runner writes them, with figures that are known."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TypedDict, Unpack

import polars as pl

from headrace.bench.store.store import PERCENTILES_FILE, SERIES_FILE, RunRecord, Store, write_parquet

CONFIG = {"innodb_buffer_pool_size": "134217728", "sync_binlog": "1", "hostname": "one"}


class Changes(TypedDict, total=False):
    """Differences of a run from the others."""

    storage: str
    threads: int
    options: dict[str, object]
    config: dict[str, str]
    state: str
    version: str
    environment: dict[str, object]
    findings: list[str]


def series(
    tps: float = 500.0, spread: float = 10.0, seconds: int = 120, warmup: int = 10, seed: int = 1, phi: float = 0.0
) -> pl.DataFrame:
    """A time line whose tps go up and down by `spread` (standard deviation), remembered from second to second by `phi`."""
    chance, value, rows = random.Random(seed), 0.0, []
    for second in range(warmup + seconds):
        value = phi * value + chance.gauss(0.0, spread * (1 - phi * phi) ** 0.5)
        rate = max(0.0, tps + value)
        rows.append(
            {
                "t_s": float(second), "duration_s": 1.0, "t_unix": 1.8e9 + second, "phase": "measure" if second >= warmup else "warmup", "threads": 16, "tps": rate,
                "qps": 20 * rate, "p95_ms": 20_000.0 / rate if rate else None, "errors_per_s": 0.0, "read_iops": 2.0 * rate, "write_iops": rate + 100.0,
                "read_mib_s": rate / 32, "write_mib_s": rate / 64, "queue": 4.0, "busy": 0.9, "read_wait_ms": 1.0, "write_wait_ms": 2.0,
                "balance_percent": 50.0 - 0.1 * second, "cap_volume_iops": 0.5, "cap_volume_throughput": 0.0, "user_cpus": 0.5, "system_cpus": 0.2, "iowait_cpus": 0.1, "idle_cpus": 1.2,
            }
        )  # fmt: skip
    return pl.DataFrame(rows)


def document(frame: pl.DataFrame, **changes: Unpack[Changes]) -> dict:
    """run.json of it."""
    part = frame.filter(pl.col("phase") == "measure")
    summary = {
        name: part[name].mean()
        for name in (
            "tps",
            "qps",
            "read_iops",
            "write_iops",
            "read_mib_s",
            "write_mib_s",
            "queue",
            "read_wait_ms",
            "write_wait_ms",
        )
    }
    summary |= {"seconds": float(part.height), "tps_sd": part["tps"].std(), "tps_min": part["tps"].min(), "p50_ms": 20.0, "p95_ms": 40.0, "p99_ms": 60.0, "p999_ms": None,
                "mean_ms": 22.0, "max_ms": 90.0, "stall_s": 0.0, "errors_per_s": 0.0, "p95_of_seconds_ms": 40.0, "idle_cpus": 1.2, "balance_percent_first": 49.0,
                "balance_percent_last": 37.0}  # fmt: skip
    return {
        "state": changes.get("state", "complete"), "began_at": "2027-01-15T08:00:00+00:00", "ended_at": "2027-01-15T08:02:30+00:00", "start": "warm",
        "benchmark": {"name": "sysbench-oltp", "unit": "transactions", "options": {"script": "oltp_read_write", "tables": 8, "rows": 100_000, **changes.get("options", {})}},
        "load": {"threads": changes.get("threads", 16), "warmup_s": frame.height - part.height, "seconds": part.height, "seed": 1},
        "target": {"label": "mysql://bench@/sbtest?socket=/s", "storage": changes.get("storage", "gp3:100"), "log_storage": None, "devices": ["/dev/loop3"], "volumes": [], "flavor": "mariadb",
                   "version": changes.get("version", "10.11.6-MariaDB"), "engine": "innodb", "cache_gib": 0.125, "instance": None, "as_of": None, "lab": None, "data_gib": 2.0},
        "tool": {"name": "sysbench", "path": "/usr/bin/sysbench", "version": "1.0.20"},
        "config": CONFIG | changes.get("config", {}),
        "environment": {"kernel": "6.1", "cpu": "some", "cpus": 2, "memory_gib": 8.0, "host": "one", "system": "Debian", "before": {"busy_share": 0.01, "load1": 0.1},
                        **changes.get("environment", {})},
        "summary": summary, "findings": list(changes.get("findings", [])), "notes": [],
    }  # fmt: skip


def keep(store: Store, frame: pl.DataFrame | None = None, **changes: Unpack[Changes]) -> RunRecord:
    """A run in the store."""
    frame = series() if frame is None else frame
    name, folder = store.begin("sysbench-oltp")
    write_parquet(frame, folder / SERIES_FILE)
    counts = [10, 100, 400, 300, 150, 30, 8, 2]
    total, reached, rows = sum(counts), 0, []
    for value, count in zip((5.0, 10.0, 20.0, 25.0, 40.0, 60.0, 80.0, 90.0), counts, strict=True):
        reached += count
        rows.append({"value_ms": value, "count": count, "share": reached / total})
    write_parquet(pl.DataFrame(rows), folder / PERCENTILES_FILE)
    return store.finish(name, folder, document(frame, **changes))


def store_in(folder: Path) -> Store:
    return Store(folder / "runs")
