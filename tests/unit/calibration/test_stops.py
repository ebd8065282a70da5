"""A full redo log in predictions, settings and the figures a calibration compares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import headrace
from headrace.base import core
from headrace.base.units import GIB
from headrace.calibration.stops import SHARE_SPREAD, compare_stopped_share, find_waiting, stops_clients
from headrace.report.databases import in_words
from headrace.workload.server_settings import database_under
from headrace.workload.transactions import TransactionWorkload

# Warm, 64 clients, 8 pages flushed of a transaction at 1,000 pages a second.
WHERE = {"storage": "gp3:1000:6000:500", "start": "warm", "seconds": 300, "seed": None, "draws": 0}


def shop(redo_gib: float = 0.25, version: str = "5.7.30") -> TransactionWorkload:
    """sysbench-tpcc with a redo log and a ceiling of flushing that it does not keep to."""
    plain = headrace.sysbench_tpcc(warehouses=500, cache_gib=24, threads=64)
    settings = {"redo_bytes": redo_gib * GIB, "io_capacity_max": 1_000.0}
    database = database_under(plain.database, settings) | {"checkpoint": core.checkpoint_law("mysql", version)}
    return replace(plain, database=database)


def test_a_small_redo_log_stops_clients_and_the_prediction_says_so():
    workload = shop()
    assert stops_clients(workload.database)
    run = headrace.predict(workload, **WHERE)
    stopped = run.rows["stopped_share"].to_numpy()
    share = run.summary["stalled_share"]
    assert share == run.summary["stalls_s"] / 300 and 0.05 < share < 0.5
    assert set(np.flatnonzero(run.rows["tps"].to_numpy() < 1.0)) <= set(np.flatnonzero(stopped > 0.9))
    words = " ".join(in_words(run, workload))
    assert "clients wait until a full redo log has been flushed" in words


def test_the_ceiling_the_size_of_the_log_and_the_server_decide():
    small = shop()
    # 1 GiB has room for four times the transactions; cold, five minutes do not fill it.
    cold = WHERE | {"start": 1e6}
    large = headrace.with_settings(small, ["innodb_log_file_size=4G"])
    assert large.database["log"]["redo_capacity_bytes"] == 8 * GIB  # two files
    wide = headrace.with_settings(small, ["innodb_io_capacity_max=20000"])
    shares = [
        headrace.predict(each, **cold).rows["stopped_share"].mean()
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
