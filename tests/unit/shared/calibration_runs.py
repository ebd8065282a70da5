"""Runs for the tests of the calibration: made by databases whose parameters are known, or published ones where they lie beside the repository."""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from places import ROOT

from headrace.base.units import GIB
from headrace.calibration.fit import TPCC_KIB_PER_IO
from headrace.calibration.from_runs import sysbench_tpcc
from headrace.calibration.runs import Run, load_run
from headrace.simulation.database import predict
from headrace.workload.parameters import scale_parameters
from headrace.workload.transactions import TransactionWorkload

PUBLISHED = ROOT.parent / "shared" / "data" / "percona_2018_calibration"
WHERE = {"instance": "c5.9xlarge", "as_of": "2018-08-15"}
WAREHOUSES = 5_000
LONG = "io1:1024:20000"
# Logarithms, half of the spreads before a run to two of them (parameters.py): a database no standard knows.
MOVED = {
    "innodb": {"pages_touched": 0.15, "usable_share": -0.02, "old_share": -0.1, "flush_ramp_tx": -0.3, "first_dirty": -0.3, "later_dirty": -0.8, "base_ms": 0.2,
               "sharpness": 0.1},
    "myrocks": {"pages_touched": -0.15, "usable_share": -0.03, "read_bytes": 0.1, "compaction_bytes": 0.3, "base_ms": 0.15, "sharpness": 0.1},
}  # fmt: skip
# The compaction cycle of the known MyRocks database: 5 % off the standard's, I/Os per transaction 22 % above their mean at its beginning.
PERIOD_TX = 310_000.0
PROFILE = (1.25, 1.20, 1.15, 1.10, 1.06, 1.03, 1.00, 0.98, 0.96, 0.94, 0.92, 0.91, 0.90, 0.88, 0.87, 0.85)

# Facts of the published runs (Percona, 201807 and 201808; c5.9xlarge, sysbench-tpcc 50 x 100): engine, storage, GB of cache, clients.
FACTS = {
    "innodb_io1_20000iops_72thr": ("innodb", "io1:1024:20000", 54, 72),
    "innodb_io1_5000iops_72thr": ("innodb", "io1:1024:5000", 54, 72),
    "innodb_io1_26000iops_72thr": ("innodb", "io1:1024:26000", 54, 72),
    "innodb_gp2_2000gb_72thr": ("innodb", "gp2:2000", 50, 72),
    "innodb_io1_10000iops_pool54_32thr": ("innodb", "io1:1024:10000", 54, 32),
    "innodb_io1_10000iops_pool27_32thr": ("innodb", "io1:1024:10000", 27, 32),
    "myrocks_io1_20000iops_72thr": ("myrocks", "io1:1024:20000", 54, 72),
    "myrocks_io1_5000iops_72thr": ("myrocks", "io1:1024:5000", 54, 72),
    "myrocks_io1_10000iops_cache54_32thr": ("myrocks", "io1:1024:10000", 54, 32),
    "myrocks_io1_30000iops_cache54_32thr": ("myrocks", "io1:1024:30000", 54, 32),
}
DATA_GB = {"innodb": 471, "myrocks": 100}


@functools.cache
def truth(engine: str) -> TransactionWorkload:
    """A database whose parameters are known, without a calibration behind it."""
    standard = sysbench_tpcc(warehouses=WAREHOUSES, engine=engine, cache_gib=50, threads=72)
    database = scale_parameters(standard.database, engine, MOVED[engine])
    if engine == "innodb":
        return replace(standard, database=_with_known_mix(database, standard), parameters=(), covariance=())
    mean = sum(PROFILE) / len(PROFILE)
    database["compaction"] |= {
        "period_tx": PERIOD_TX,
        "first_tx": 1.3 * PERIOD_TX,
        "profile": [part / mean for part in PROFILE],
    }
    return replace(standard, database=database, parameters=(), covariance=())


def _with_known_mix(database: dict, standard: TransactionWorkload) -> dict:
    """Flushing so strong that an I/O has the bytes a calibration takes as known of InnoDB under sysbench-tpcc: the truth must lie within what is known."""
    pages = sum(item["pages"] for item in standard.database["popularity"])
    share = standard.cache_gib * GIB / (pages * standard.database["read_bytes"])
    usual_kib = float(np.interp(share, *np.array(TPCC_KIB_PER_IO).T))
    low, high = 0.1, 40.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        database = database | {"writes": database["writes"] | {"flush_per_tx": middle}}
        summary = predict(replace(standard, database=database), LONG, seed=None, draws=0, **WHERE).summary
        # Writes are bigger than reads, on average: the doublewrite area goes in runs of 256 KiB.
        low, high = (middle, high) if summary["mib_s"] * 1024 / summary["iops"] < usual_kib else (low, middle)
    return database


def description(name: str, engine: str, storage: str, cache: str, threads: int, **changes: object) -> str:
    """The text of a RUN.toml beside its run.csv. `changes`: start, tables, scale, benchmark, settings, files (lines), log_storage."""
    given = {
        "start": "cold",
        "tables": 50,
        "scale": WAREHOUSES // 50,
        "benchmark": "sysbench-tpcc",
        "settings": "",
        "files": "",
        "top": "",
        "more": "",
    } | changes
    return f"""format = "headrace-run"
version = 1
name = "{name}"
engine = "{engine}"
storage = "{storage}"
as_of = {WHERE["as_of"]}
instance = "{WHERE["instance"]}"
{cache}
threads = {threads}
start = "{given["start"]}"
{given["top"]}
[benchmark]
name = "{given["benchmark"]}"
tables = {given["tables"]}
scale = {given["scale"]}
{given["more"]}
[settings]
{given["settings"]}
[files]
sysbench = "run.csv"
{given["files"]}
"""


def sysbench_csv(rows: pl.DataFrame, threads: int) -> str:
    """Returns predicted rows as sysbench would have reported them; `t_s` there is the end of a
    second."""
    lines = [
        f"{row['t_s'] + 1:g},{threads},{row['tps']:.2f},{30 * row['tps']:.2f},{row['p95_ms']:.2f}"
        for row in rows.iter_rows(named=True)
    ]
    return "\n".join(["t_s,threads,tps,qps,lat_p95_ms", *lines]) + "\n"


def iostat_text(rows: pl.DataFrame, read_kib: float) -> str:
    """Returns predicted rows as iostat -xt would have shown them: a report of the time since boot,
    then one a second."""
    head = "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util"
    begin = datetime(2018, 8, 15, 10)
    out = ["Linux 4.14.62 (db1) \t08/15/2018 \t_x86_64_\t(36 CPU)\n"]

    def report(second: float, reads: float, writes: float, written_kib: float) -> None:
        line = f"nvme1n1 {reads:.2f} {reads * read_kib:.2f} 0.00 0.00 0.51 {read_kib:.2f} {writes:.2f} {written_kib:.2f} 0.00 0.00 0.72 {written_kib / max(writes, 0.01):.2f} 1.80 88.40"
        out.append(f"{begin + timedelta(seconds=second):%m/%d/%Y %H:%M:%S}\n{head}\n{line}\n")

    report(0, 1.0, 1.0, 16.0)
    for row in rows.iter_rows(named=True):
        reads = row["reads_per_tx"] * row["tps"]
        report(row["t_s"] + 1, reads, max(row["iops"] - reads, 0.0), max(row["mib_s"] * 1024 - reads * read_kib, 0.0))
    return "\n".join(out)


def record(
    folder: Path, workload: TransactionWorkload, storage: str = LONG, *, name: str = "made", seconds: int = 3_600, seed: int = 11, iostat: bool = False,
    start: str = "cold", cache_gib: float | None = None, threads: int | None = None, change=None, **described: object,
) -> Path:  # fmt: skip
    """Lets a database run on a storage and writes what was measured: the path of its RUN.toml. `change(rows)` spoils the rows first."""
    run = predict(
        workload,
        storage,
        seconds=seconds,
        seed=seed,
        draws=0,
        start=start,
        cache_gib=cache_gib,
        threads=threads,
        **WHERE,
    )
    rows = run.rows if change is None else change(run.rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.csv").write_text(sysbench_csv(rows, run.threads))
    files = ""
    if iostat:
        (folder / "iostat.txt").write_text(iostat_text(rows, workload.database["read_bytes"] / 1024))
        files = 'iostat = "iostat.txt"'
    text = description(
        name,
        workload.engine,
        storage,
        f"cache_gib = {run.cache_gib}",
        run.threads,
        **{"start": start, "files": files} | described,
    )
    (folder / "run.toml").write_text(text)
    return folder / "run.toml"


def recorded(folder: Path, workload: TransactionWorkload, storage: str = LONG, **options: object) -> Run:
    """Records a predicted run in a folder, and reads it back."""
    return load_run(record(folder, workload, storage, **options))


def published(name: str, folder: Path) -> Run:
    """A published run; the test is skipped where its file is not there."""
    file = PUBLISHED / f"{name}.csv"
    if not file.exists():
        pytest.skip("the published runs of 2018 (percona_2018_calibration) do not lie beside the repository")
    engine, storage, cache_gb, threads = FACTS[name]
    folder = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.csv").write_text(file.read_text())
    text = description(
        name,
        engine,
        storage,
        f"cache_gb = {cache_gb}",
        threads,
        more=f"data_gb = {DATA_GB[engine]}",
        top='engine_version = "5.7.22"',
    )
    (folder / "run.toml").write_text(text)
    return load_run(folder / "run.toml")
