"""Loads on real servers and devices, measured and kept.

target         what is measured: a server or files, the storage below
benchmark      what every driver can do: prepare, run, check, clean up
sysbench_oltp  tpcc  mysqlslap        drivers on a server
sysbench_fileio  fio_job              drivers on files or devices
preparing      the data, made when they are missing
runner         run(): the tool, samples beside it, one time line
timeline       all sources second by second
environment    the machine, and what else it did
store          a folder a run; query: DuckDB over all of them
run_files      RUN.toml, as `headrace calibrate` takes it
compare        two runs, or two groups: differences with intervals
fio            conformance    fio once; do the lab's volumes do what the catalog and the model say?

>>> from headrace.bench import SysbenchOltp, prepare, run, server_target
>>> from headrace.connect import parse_address
>>> target = server_target(parse_address("mysql://root@/sbtest?socket=/run/mysqld/mysqld.sock"), storage="gp3:100")    # doctest: +SKIP
>>> load = SysbenchOltp(tables=8, rows=100_000)
>>> prepare(load, target, threads=16)                                                                                   # doctest: +SKIP
>>> run(load, target, seconds=60, warmup_s=10, threads=16).summary["tps"]                                               # doctest: +SKIP
812.4
"""

from headrace.bench.comparison.compare import Difference, RunComparison, compare
from headrace.bench.drivers.benchmark import Benchmark, RunLoad
from headrace.bench.drivers.fio import FioJob
from headrace.bench.drivers.mysqlslap import Mysqlslap
from headrace.bench.drivers.sysbench_fileio import SysbenchFileio
from headrace.bench.drivers.sysbench_oltp import SysbenchOltp
from headrace.bench.drivers.tpcc import Tpcc
from headrace.bench.running.runner import BrokenRun, InterruptedRun, Second, cleanup, prepare, run
from headrace.bench.store.store import RunRecord, Store, default_store
from headrace.bench.target import Target, file_target, server_target

__all__ = [
    "Benchmark",
    "BrokenRun",
    "RunComparison",
    "Difference",
    "FioJob",
    "InterruptedRun",
    "RunLoad",
    "Mysqlslap",
    "RunRecord",
    "Second",
    "Store",
    "SysbenchFileio",
    "SysbenchOltp",
    "Target",
    "Tpcc",
    "cleanup",
    "compare",
    "default_store",
    "file_target",
    "prepare",
    "run",
    "server_target",
]
