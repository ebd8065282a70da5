"""A full redo log in predictions, settings and the figures a calibration compares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import headrace
from headrace.base import core
from headrace.base.units import GIB
from headrace.calibration.observations import observe
from headrace.calibration.prior import build_prior
from headrace.calibration.runs import Run, load_run
from headrace.calibration.stops import (
    LEAST_SHARE,
    SHARE_SPREAD,
    TOUCHED,
    compare_stopped_share,
    find_waiting,
    list_stopping_starts,
    stops_clients,
)
from headrace.report.databases import describe_run
from headrace.workload.server_settings import apply_server_settings
from headrace.workload.transactions import TransactionWorkload

# Warm, 64 clients, 8 pages flushed of a transaction at 1,000 pages a second.
STORAGE = "gp3:1000:6000:500"
WHERE = {"start": "warm", "seconds": 300, "seed": None, "draws": 0}


def shop(redo_gib: float = 0.25, version: str = "5.7.30") -> TransactionWorkload:
    """sysbench-tpcc with a redo log and a ceiling of flushing that it does not keep to."""
    plain = headrace.sysbench_tpcc(warehouses=500, cache_gib=24, threads=64)
    settings = {"redo_bytes": redo_gib * GIB, "io_capacity_max": 1_000.0}
    database = apply_server_settings(plain.database, settings) | {"checkpoint": core.checkpoint_law("mysql", version)}
    return replace(plain, database=database)


def test_a_small_redo_log_stops_clients_and_the_prediction_says_so():
    workload = shop()
    assert stops_clients(workload.database)
    run = headrace.predict(workload, STORAGE, **WHERE)
    stopped = run.rows["stopped_share"].to_numpy()
    share = run.summary["stalled_share"]
    assert share == run.summary["stalls_s"] / 300 and 0.05 < share < 0.5
    assert set(np.flatnonzero(run.rows["tps"].to_numpy() < 1.0)) <= set(np.flatnonzero(stopped > 0.9))
    words = " ".join(describe_run(run, workload))
    assert "clients wait until a full redo log has been flushed" in words


def test_the_ceiling_the_size_of_the_log_and_the_server_decide():
    small = shop()
    # 1 GiB has room for four times the transactions; cold, five minutes do not fill it.
    cold = WHERE | {"start": 1e6}
    large = headrace.with_settings(small, ["innodb_log_file_size=4G"])
    assert large.database["log"]["redo_capacity_bytes"] == 8 * GIB  # two files
    wide = headrace.with_settings(small, ["innodb_io_capacity_max=20000"])
    shares = [
        headrace.predict(each, STORAGE, **cold).rows["stopped_share"].mean()
        for each in (small, large, wide, shop(version="8.4.0"))
    ]
    assert shares[0] > 0.05 and shares[1:] == [0.0, 0.0, 0.0]


def test_half_of_the_median_counts_as_much_as_there_is():
    """A stop of half a second or more that begins at any moment of a row lowers as many rows below the half as it lasts, on
    average."""
    generator = np.random.default_rng(5)
    for length in (0.6, 1.3, 2.7):
        begins = 10.0 * np.arange(4_000) + generator.uniform(0.0, 5.0, 4_000)
        edges = np.arange(40_001.0)
        before = np.interp(
            edges, np.column_stack([begins, begins + length]).ravel(), np.repeat(length * np.arange(4_001.0), 2)[1:-1]
        )
        tps = 500.0 * (1.0 - np.diff(before))
        # Each stop counts for a whole number of rows next to L: a standard deviation of at most a
        # half, over sqrt(4,000); four of them.
        assert find_waiting(tps).sum() / 4_000 == pytest.approx(length, abs=4 * 0.5 / np.sqrt(4_000))


def test_shares_are_compared_in_standard_deviations_where_they_were_measured():
    columns: core.DatabaseRows = {"stopped_share": [0.0, 0.2]}  # pyright: ignore[reportAssignmentType]
    assert compare_stopped_share(None, columns) == []
    assert compare_stopped_share(0.06, columns)[0] == pytest.approx([0.04 / SHARE_SPREAD])


RUN = """
format = "headrace-run"
version = 1
name = "stops"
engine = "innodb"
flavor = "mysql"
engine_version = "8.0.20"
storage = "gp2:931"
instance = "r5.xlarge"
as_of = 2020-05-15
cache_gib = 24
threads = 128
start = "warm"
[benchmark]
name = "sysbench-tpcc"
tables = 5
scale = 100
[settings]
redo_gib = 0.25
[files]
sysbench = "run.csv"
"""
SECONDS = 600


def write_run(folder, tps) -> Run:
    """Writes and loads a run of so many transactions in each second."""
    rows = "".join(f"{second},128,{rate:.3f}\n" for second, rate in enumerate(tps, 1))
    (folder / "run.csv").write_text(f"t_s,threads,tps\n{rows}")
    (folder / "run.toml").write_text(RUN)
    return load_run(folder / "run.toml")


def test_a_fit_begins_where_all_that_is_due_is_written(tmp_path):
    """A fifth of the time at 0 and else 650 tps: 2,000 pages a second in four fifths of it, and gp2's 3 x 931 IOPS over 1.0625 a page
    in the rest, for 520 transactions a second."""
    stopping = observe(write_run(tmp_path, ([650.0] * 8 + [0.0] * 2) * (SECONDS // 10)))
    database = build_prior(stopping.run)
    names = ("pages_touched", "base_ms", "flush_per_tx")
    begins = list_stopping_starts(names, database, [stopping])
    pages = (0.8 * 2_000.0 + 0.2 * 3.0 * 931.0 / 1.0625) / 520.0
    moved = np.log(pages / database["writes"]["flush_per_tx"])
    assert np.array(begins) == pytest.approx(np.array([[np.log(share), 0.0, moved] for share in TOUCHED]))
    steady = observe(write_run(tmp_path, [520.0] * SECONDS))
    assert list_stopping_starts(names, database, [steady]) == []
    # Runs that do not stop do not say how much is due.
    assert np.array(list_stopping_starts(names, database, [steady, stopping])) == pytest.approx(np.array(begins))


def test_a_run_that_stopped_is_calibrated_to_stop(tmp_path):
    """The run touches fewer pages than the standard's, so that reads leave the volume more room.
    Rows tell stops to LEAST_SHARE, and so does this."""
    true = build_prior(write_run(tmp_path, [1.0] * SECONDS))
    true["popularity"] = [{**item, "pages": 0.6 * item["pages"]} for item in true["popularity"]]
    true["writes"] = {**true["writes"], "flush_per_tx": 4.2}
    storage = "gp2:931"
    where = {"instance": "r5.xlarge", "as_of": "2020-05-15", "start": "warm", "seconds": SECONDS}
    stopped = headrace.predict(replace(shop(), database=true, threads=128), storage, **where, draws=0, seed=3).rows
    waited = float(np.mean(find_waiting(stopped["tps"].to_numpy())))
    assert waited > 0.1
    workload = headrace.calibrate([write_run(tmp_path, stopped["tps"])])
    again = headrace.predict(workload, storage, **where, draws=0, seed=None)
    assert float(again.rows["stopped_share"].mean()) == pytest.approx(waited, abs=2 * LEAST_SHARE)
    assert float(again.rows["tps"].mean()) == pytest.approx(float(stopped["tps"].mean()), rel=0.02)
