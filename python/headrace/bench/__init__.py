"""Loads on real servers and devices, measured and kept.

>>> from headrace.bench import SysbenchOltp, prepare, run, make_server_target
>>> from headrace.mysql import parse_address
>>> address = parse_address("mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock")
>>> target = make_server_target(address, storage="gp3:100")                                # doctest: +SKIP
>>> load = SysbenchOltp(tables=8, rows=100_000)
>>> prepare(load, target, threads=16)                                                 # doctest: +SKIP
>>> run(load, target, seconds=60, warmup_s=10, threads=16).summary["tps"]             # doctest: +SKIP
812.4
"""

from headrace.bench.comparison.compare import Difference, compare
from headrace.bench.drivers.benchmark import Benchmark
from headrace.bench.drivers.fio import FioJob, FioLoad, FioResult
from headrace.bench.drivers.fio import run_once as fio_once
from headrace.bench.drivers.mysqlslap import Mysqlslap
from headrace.bench.drivers.sysbench_fileio import SysbenchFileio
from headrace.bench.drivers.sysbench_oltp import SysbenchOltp
from headrace.bench.drivers.tpcc import Tpcc
from headrace.bench.running.runner import BrokenRun, InterruptedRun, Second, clean_up, prepare, run
from headrace.bench.store.store import RunRecord, Store
from headrace.bench.target import Target, make_file_target, make_server_target

__all__ = [
    "Benchmark",
    "BrokenRun",
    "Difference",
    "FioJob",
    "FioLoad",
    "FioResult",
    "InterruptedRun",
    "Mysqlslap",
    "RunRecord",
    "Second",
    "Store",
    "SysbenchFileio",
    "SysbenchOltp",
    "Target",
    "Tpcc",
    "clean_up",
    "compare",
    "make_file_target",
    "fio_once",
    "prepare",
    "run",
    "make_server_target",
]
