"""How well databases are predicted on runs the calibration has not seen: published sysbench-tpcc
runs of 2018, where their files are at hand.

    python benchmarks/mysql_accuracy.py FOLDER      the CSV (and vmstat) files named in published_runs.csv

`make bench` looks for the folder beside the repository or in HEADRACE_PUBLISHED_RUNS, and says when
it is not there. The files are not part of the project.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
from pathlib import Path

from headrace import calibrate, compare_run, load_run

HERE = Path(__file__).parent
# What is calibrated on what; the runs of the set are left out of its score. The first two are the
# ones the project holds itself to.
SETS = {
    "InnoDB from one long run": ["innodb_io1_20000iops_72thr"],
    "InnoDB from four runs": [
        "innodb_io1_5000iops_72thr",
        "innodb_io1_20000iops_72thr",
        "innodb_io1_26000iops_72thr",
        "innodb_gp2_2000gb_72thr",
    ],
    "InnoDB from 32 clients": ["innodb_io1_10000iops_pool54_32thr"],
    "MyRocks from one long run": ["myrocks_io1_20000iops_72thr"],
    "MyRocks from two runs": ["myrocks_io1_5000iops_72thr", "myrocks_io1_20000iops_72thr"],
    "m5, InnoDB from a pool of 25 GB": ["m5_innodb_gp2_1200gb_pool25_16thr"],
    "m5, InnoDB from a pool of 5 GB": ["m5_innodb_gp2_1200gb_pool5_16thr"],
    "m5, MyRocks from a cache of 25 GB": ["m5_myrocks_gp2_1200gb_cache25_16thr"],
    "m5, MyRocks from a cache of 5 GB": ["m5_myrocks_gp2_1200gb_cache5_16thr"],
}
# How an error of so many figures is named in the table.
FIGURES = {
    "second half": ["mean tps, second half"],
    "quarters": [f"mean tps, quarter {i}" for i in (1, 2, 3, 4)],
    "p5 and p95": ["one-second tps, p5", "one-second tps, p95"],
}


def folder() -> Path | None:
    """Where the published runs lie, or None."""
    named = os.environ.get("HEADRACE_PUBLISHED_RUNS")
    beside = sorted(HERE.parents[1].glob("*/data/percona_2018_calibration"))
    found = Path(named) if named else beside[0] if beside else None
    return found if found is not None and found.is_dir() else None


def load_all(source: Path) -> dict:
    """The runs of published_runs.csv, by name. Descriptions are written into a temporary folder."""
    runs = {}
    with tempfile.TemporaryDirectory() as place, (HERE / "published_runs.csv").open() as table:
        for row in csv.DictReader(table):
            measured, vmstat = source / f"{row['file']}.csv", source / f"{row['file']}.vmstat.txt"
            if measured.exists():
                path = Path(place) / f"{row['file']}.toml"
                path.write_text(_description(row, measured, vmstat))
                runs[row["file"]] = load_run(path)
    return runs


def _description(row: dict, measured: Path, vmstat: Path) -> str:
    lines = [
        'format = "headrace-run"',
        "version = 1",
        f'name = "{row["file"]}"',
        f'engine = "{row["engine"]}"',
        f'storage = "{row["storage"]}"',
        'as_of = "2018-08-15"',
        f'instance = "{row["instance"]}"',
        f"cache_gb = {row['cache_gb']}",
        f"threads = {row['threads']}",
        'start = "cold"',
        "[benchmark]",
        'name = "sysbench-tpcc"',
        f"tables = {row['tables']}",
        "scale = 100",
        f"data_gb = {row['data_gb']}",
        "[settings]",
        *row["settings"].split(),
        "[files]",
        f'sysbench = "{measured}"',
        *([f'vmstat = "{vmstat}"'] if vmstat.exists() else []),
    ]
    return "\n".join(lines) + "\n"


def score(runs: dict) -> list[dict]:
    """A row per set and run it has not seen: errors in percent by figure, and the compaction period
    over the expected one."""
    rows = []
    for name, known in SETS.items():
        if not all(run in runs for run in known):
            continue
        workload = calibrate([runs[run] for run in known])
        compaction = workload.database.get("compaction")
        for other, run in runs.items():
            alike = run.engine == workload.engine and run.instance == runs[known[0]].instance
            if other not in known and alike:
                found = compare_run(run, workload, draws=0)
                rows.append(
                    {
                        "set": name,
                        "run": other,
                        "period_tx": compaction and compaction["period_tx"],
                        **{
                            what: [found.error_percent(figure) for figure in figures]
                            for what, figures in FIGURES.items()
                        },
                    }
                )
    return rows


def summary(rows: list[dict]) -> list[dict]:
    """Median, 90th percentile and worst of the sizes of errors, by set and figure."""
    table = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for what in FIGURES:
            sizes = sorted(abs(value) for row in rows if row["set"] == name for value in row[what])
            table.append(
                {
                    "set": name,
                    "figure": what,
                    "n": len(sizes),
                    "median": sizes[len(sizes) // 2],
                    "p90": sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
                    "worst": sizes[-1],
                }
            )
    return table


def main() -> int:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else folder()
    if source is None:
        print("the published runs are not here: name their folder", file=sys.stderr)
        return 3
    rows = score(load_all(source))
    for row in rows:
        period = f"  period {row['period_tx']:,.0f} tx" if row["period_tx"] else ""
        print(
            (f"{row['set']:36s} {row['run']:38s} 2nd half {row['second half'][0]:+6.1f} %  quarters ")
            + " ".join(f"{x:+5.1f}" for x in row["quarters"])
            + "  p5 p95 "
            + " ".join(f"{x:+5.1f}" for x in row["p5 and p95"])
            + period
        )
    for row in summary(rows):
        print(
            f"{row['set']:36s} {row['figure']:12s} n={row['n']:2d}  median {row['median']:4.1f} %  p90 "
            f"{row['p90']:5.1f} %  worst {row['worst']:5.1f} %"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
