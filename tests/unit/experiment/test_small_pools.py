"""Purge and pauses of a small pool of MariaDB."""

from __future__ import annotations

from dataclasses import replace

import pytest

import headrace
from headrace.bench import SysbenchOltp
from headrace.experiment import Configuration, predict, small_pools, standin
from headrace.workload.server import SourceServer

POOL_GIB = 0.0625
LOAD = SysbenchOltp("oltp_read_write", 8, 135_209, "uniform")


def calibrate_at(tps: float, flavor: str = "mariadb", cache_gib: float = POOL_GIB) -> headrace.TransactionWorkload:
    """Returns the demonstration's load as one run at `tps` would have it."""
    workload = headrace.sysbench_oltp(
        cache_gib=cache_gib,
        threads=11,
        tables=8,
        table_size=135_209,
        distribution={"type": "uniform"},
        flavor="mariadb",
    )
    run = {"name": "calibration", "storage": "io1:42:2062", "threads": 11, "cache_gib": cache_gib, "measured_tps": tps}
    # A third of so small a pool is kept free for reads to come.
    database = workload.database | {"usable_share": 0.66}
    return replace(workload, database=database, server=SourceServer(flavor=flavor, version="10.11.19"), runs=(run,))


def test_pauses_come_with_the_transactions():
    """Golden: at 100 tps more one pause in 20 s more, of 0.31 s: 1.55 %; of 160 x 20 / 2,000 = 1.6 of
    them the chance is 1.265 x 0.31 / 20 s."""
    pauses = small_pools.estimate_pauses(calibrate_at(60.0), POOL_GIB, 160.0, 20.0)
    assert pauses["lost_share"] == pytest.approx(0.0155)
    assert pauses["spread"] == pytest.approx(1.6**0.5 * 0.31 / 20.0)
    none = {"lost_share": 0.0, "spread": 0.0}
    assert small_pools.estimate_pauses(calibrate_at(60.0), 0.5, 160.0, 20.0) == none
    assert small_pools.estimate_pauses(calibrate_at(60.0, "mysql"), POOL_GIB, 160.0, 20.0) == none
    assert small_pools.estimate_pauses(calibrate_at(60.0), POOL_GIB, 0.0, 20.0) == none


def test_a_faster_volume_reads_more_a_transaction_where_purge_comes_behind():
    configuration = Configuration("a", "gp3:11:5156:125", POOL_GIB, 11)
    changed = standin.compute_changed("innodb", LOAD)

    def ios_per_tx(workload: headrace.TransactionWorkload) -> float:
        run = predict.predict_result(workload, configuration, changed=changed, seconds=10, warmup_s=3, draws=0)
        return run.ios_per_tx

    as_measured, slower, mysql = (ios_per_tx(calibrate_at(*of)) for of in ((150.0,), (60.0,), (60.0, "mysql")))
    # The rate that comes out is near 150: the less it is, the nearer they are to it.
    assert mysql == pytest.approx(as_measured, rel=0.02) and 1.02 < slower / mysql < 1.10
    small, large = (
        small_pools.adjust_purge(
            calibrate_at(60.0, cache_gib=gib), calibrate_at(60.0, cache_gib=gib), gib, 150.0, changed
        )
        for gib in (POOL_GIB, 0.2)
    )
    assert 1.02 < small.database["shape"]["full"][0][1] < 1.10
    # Three times the pages stay three times as long: purge comes before.
    assert large.database["shape"]["full"][0][1] == pytest.approx(1.0, abs=1e-3)
