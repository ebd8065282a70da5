"""Makes `tpcc-run.toml` and `tpcc-run.txt`: a run as sysbench prints it, simulated and not measured, to try `headrace calibrate` on.

The database is the standard sysbench-tpcc with three parameters changed, so that the calibration
has something to find. The files are written to the folder of this script, or to the folder that the
first argument names.
"""

import sys
from pathlib import Path

import headrace

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
shop = headrace.sysbench_tpcc(warehouses=2000, cache_gib=24, threads=48)
shop.database["popularity"] = [{**item, "pages": 1.15 * item["pages"]} for item in shop.database["popularity"]]
shop.database["clients"]["base_ms"] = 11.0
shop.database["log"]["syncs_per_commit"] = 1.0  # the redo log alone: sync_binlog = 0
run = headrace.predict(
    shop, "io1:400:9000", instance="m5.4xlarge", as_of="2019-06-01", seconds=3600, start="cold", seed=7, draws=0
)
EVERY = 5
lines = [
    "sysbench 1.0.20 (simulated by examples/make_run.py, not measured)",
    "",
    "Running the test with following options:",
    "Number of threads: 48",
    "",
]
for i in range(0, run.rows.height, EVERY):
    rows = run.rows[i : i + EVERY]
    lines.append(
        f"[ {i + EVERY}s ] thds: 48 tps: {rows['tps'].mean():.2f} qps: {28.5 * rows['tps'].mean():.2f} (r/w/o: {13 * rows['tps'].mean():.2f}/"
        f"{13.5 * rows['tps'].mean():.2f}/{2 * rows['tps'].mean():.2f}) lat (ms,95%): {rows['p95_ms'].median():.2f} err/s: 0.00 reconn/s: 0.00"
    )
(folder / "tpcc-run.txt").write_text("\n".join(lines) + "\n")
(folder / "tpcc-run.toml").write_text(
    """# What was run, and the files measured. Every key: docs/reference/run-description.md
# This one was made by examples/make_run.py: simulated, not measured.
format = "headrace-run"
version = 1
name = "tpcc on io1 9000"
engine = "innodb"
storage = "io1:400:9000"
as_of = 2019-06-01
instance = "m5.4xlarge"
cache_gib = 24
threads = 48
start = "cold"

[benchmark]
name = "sysbench-tpcc"
tables = 20
scale = 100
data_gib = 175

[settings]
sync_binlog = 0

[files]
sysbench = "tpcc-run.txt"
"""
)
print(f"wrote {folder / 'tpcc-run.toml'} and {folder / 'tpcc-run.txt'}")
