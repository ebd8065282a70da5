"""Pages that the server counted: they decide between parameters that throughput at a cap cannot tell apart, within seconds."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest

from headrace.base import core
from headrace.calibration.counted import COUNTED_SPREAD, average_counted_pages, compare_counted
from headrace.calibration.fit import Objective, fit
from headrace.calibration.observations import make_core_run, observe
from headrace.calibration.prior import build_prior
from headrace.calibration.runs import BenchmarkLoad, Run
from headrace.calibration.runs.model import SERIES_COLUMNS
from headrace.observe.run_storage import Caps
from headrace.workload.parameters import scale_parameters

SECONDS = 600
# Differences from the standard: half as much flushed, and twice as dirty when evicted.
TRUE = {"flush_per_tx": -0.7, "later_dirty": 0.5, "first_dirty": 0.2}


def make_run(**changes: object) -> Run:
    """Makes a run of sysbench-tpcc on a small volume, without figures."""
    series = pl.DataFrame(
        {
            name: pl.Series([0.0] * SECONDS if name == "tps" else [None] * SECONDS, dtype=kind)
            for name, kind in SERIES_COLUMNS.items()
        }
    ).with_columns(t_s=pl.Series([float(t) for t in range(SECONDS)]), duration_s=pl.lit(1.0), threads=pl.lit(32))
    benchmark = BenchmarkLoad("sysbench-tpcc", 1, 100, None, None, None, {})
    facts = {
        "name": "r", "engine": "innodb", "engine_version": "8.0.30", "flavor": "mysql", "storage": "gp3:100:6000:500", "log_storage": None,
        "as_of": date(2024, 11, 1), "instance": None, "cache_gib": 2.0, "threads": 32, "start": "warm", "seconds": None, "benchmark": benchmark,
        "settings": {}, "caveats": (), "caps": Caps(6000, 6000, 500, 500, 100), "files": {}, "interval_s": 1.0, "series": series, "status": None, "findings": (),
    }  # fmt: skip
    return Run(**(facts | changes))


def simulate_run(**changes: object) -> tuple[Run, dict]:
    """Returns the run as a database that is off the standard does it, and that database."""
    described = make_run(**changes)
    database = scale_parameters(build_prior(described), "innodb", TRUE)
    rows = core.mysql_runs(database, [make_core_run(described, SECONDS, 1.0)])[0]
    series = described.series.with_columns(tps=pl.Series(rows["tps"]))
    status = pl.DataFrame(
        {
            "t_s": series["t_s"],
            "duration_s": series["duration_s"],
            "innodb_pages_read_per_s": np.array(rows["reads_per_tx"]) * np.array(rows["tps"]),
            "innodb_pages_written_per_s": np.array(rows["written_per_tx"]) * np.array(rows["tps"]),
        }
    )
    return replace(described, series=series, status=status), database


def test_what_was_counted_is_what_the_core_says_of_the_same_database():
    counted, database = simulate_run()
    observation = observe(counted)
    pages = average_counted_pages(observation)
    assert [(each.column, each.part.start) for each in pages] == [
        ("reads_per_tx", 0), ("reads_per_tx", 60), ("written_per_tx", 0), ("written_per_tx", 60),
    ]  # fmt: skip
    rows = core.mysql_runs(database, [observation.core_run])[0]
    # Windows of five seconds against seconds: a warm run changes by less than a percent within one.
    assert np.abs(np.concatenate(compare_counted(pages, observation, rows))).max() < 0.01 / COUNTED_SPREAD


def test_counters_tell_reads_from_writes():
    """At a cap, throughput tells one sum of reads and writes; with counters both come out."""
    counted, database = simulate_run()

    def fit_written(of: Run) -> float:
        observation = observe(of)
        objective = Objective(build_prior(of), "innodb", [observation])
        fitted = fit(objective, [np.zeros(len(objective.names))]).database
        rows = core.mysql_runs(fitted, [observation.core_run])[0]
        return float(np.mean(rows["written_per_tx"]))

    true = float(np.mean(core.mysql_runs(database, [observe(counted).core_run])[0]["written_per_tx"]))
    with_counters, without = fit_written(counted), fit_written(replace(counted, status=None))
    # Counted exactly, and held against priors of 25 to 50 %: within the spread of a mean, 5 %.
    assert abs(np.log(with_counters / true)) < COUNTED_SPREAD
    assert abs(np.log(with_counters / true)) < abs(np.log(without / true))


def test_two_samples_tell_the_whole_run_alone():
    counted, _ = simulate_run()
    assert counted.status is not None
    total = counted.status.mean().with_columns(t_s=pl.lit(0.0), duration_s=pl.lit(float(SECONDS)))
    pages = average_counted_pages(observe(replace(counted, status=total)))
    assert [(each.column, each.part) for each in pages] == [
        ("reads_per_tx", slice(0, 120)),
        ("written_per_tx", slice(0, 120)),
    ]


def test_pages_of_the_benchmarks_own_rows_count_too():
    counted, _ = simulate_run()
    assert counted.status is not None
    series = counted.series.with_columns(pages_written_per_s=counted.status["innodb_pages_written_per_s"])
    by_rows = average_counted_pages(observe(replace(counted, status=None, series=series)))
    by_status = [each for each in average_counted_pages(observe(counted)) if each.column == "written_per_tx"]
    assert [each.value for each in by_rows] == pytest.approx([each.value for each in by_status])
    assert average_counted_pages(observe(replace(counted, status=None))) == ()


def test_bytes_read_tell_pages_where_no_reads_were_counted():
    """vmstat has bytes alone. InnoDB reads whole pages, MyRocks blocks of any length."""
    counted, database = simulate_run()
    rows = core.mysql_runs(database, [make_core_run(counted, SECONDS, 1.0)])[0]
    read_mib = np.array(rows["reads_per_tx"]) * np.array(rows["tps"]) * 16 / 1024
    series = counted.series.with_columns(
        read_mib_s=pl.Series(read_mib), write_mib_s=pl.Series(np.array(rows["mib_s"]) - read_mib)
    )
    with_bytes = replace(counted, status=None, series=series)
    observation = observe(with_bytes)
    assert not np.isfinite(observation.iops).any()
    windows = (np.array(rows["reads_per_tx"]) * np.array(rows["tps"])).reshape(-1, 5).mean(axis=1)
    assert observation.reads_per_s == pytest.approx(windows)
    small = observe(replace(with_bytes, settings={"page_kib": 8}))
    assert small.reads_per_s == pytest.approx(2 * windows)
    assert not np.isfinite(observe(replace(with_bytes, engine="myrocks")).reads_per_s).any()

    objective = Objective(build_prior(with_bytes), "innodb", [observation])
    fitted = fit(objective, [np.zeros(len(objective.names))]).database
    true, refound = (
        float(np.mean(core.mysql_runs(each, [observation.core_run])[0]["reads_per_tx"])) for each in (database, fitted)
    )
    # The counters' spread, above.
    assert abs(np.log(refound / true)) < COUNTED_SPREAD
