"""What `make demo` proves: one storage calibrated on, two predicted, then run."""

from __future__ import annotations

from headrace.calibration.from_runs import sysbench_oltp
from headrace.prove.request import Request, from_workload

MINUTES = 2.0
# 72 GiB of data, every row as likely as another, and a pool that holds a quarter of it: what sysbench does to a server that is too small, and storage decides.
TABLES, ROWS, CACHE_GIB, THREADS = 64, 5_000_000, 18.0, 16
CURRENT = "gp2:1000"
STORAGES = ("gp3:500:6000", "io1:500:1500")


def demo_request() -> Request:
    """What the demonstration proves."""
    workload = sysbench_oltp(cache_gib=CACHE_GIB, threads=THREADS, tables=TABLES, table_size=ROWS, distribution={"type": "uniform"})
    return from_workload(workload, list(STORAGES), workload.name).with_current(CURRENT)
