"""Runs of a lab and of live servers, calibrated: counted I/Os beside a machine that is sometimes
too busy, credits that do not begin full, servers that say little.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import polars as pl
import pytest
from calibration_runs import LONG, WHERE, recorded, truth

from headrace.calibration.from_runs import calibrate
from headrace.calibration.observations import make_core_run
from headrace.calibration.prior import build_prior
from headrace.calibration.runs import BenchmarkLoad
from headrace.calibration.score import compare_run
from headrace.simulation.database import predict

FASTER = "io1:1024:30000"


def slow_down(rows: pl.DataFrame) -> pl.DataFrame:
    """Lets something beside the database (another process, say) take a quarter of its pace from a
    third of the run on; a transaction asks what it asked."""
    pace = pl.when(pl.col("t_s") >= rows.height / 3).then(0.75).otherwise(1.0)
    return rows.with_columns(pl.col(name) * pace for name in ("tps", "iops", "mib_s"))


@pytest.mark.parametrize("engine", ["innodb", "myrocks"])
def test_a_machine_that_was_busy_does_not_change_what_a_transaction_asks(engine, tmp_path):
    """I/Os were counted, so that a slow stretch is not taken for more of them: the storage is
    predicted as if nothing had been there; the run, which no calibration describes, is named so.
    """
    run = recorded(tmp_path, truth(engine), iostat=True, change=slow_down)
    workload = calibrate([run])
    assert any("something other than the database took its time" in caveat for caveat in workload.caveats)
    for storage in (LONG, FASTER):
        calibrated, true = (
            predict(each, storage, seed=None, draws=0, **WHERE).summary for each in (workload, truth(engine))
        )
        # At the cap as exactly as without the disturbance (3 %), and what is left of it in the tail
        # of the windows around its beginning.
        assert calibrated["tps"] == pytest.approx(true["tps"], rel=0.05), storage
        # Taken for I/Os it would have been a quarter.
        assert abs(calibrated["tps"] / true["tps"] - 1) < 0.25 / 2


def test_credits_begin_as_described(tmp_path):
    """gp2:200 has a baseline of 600 IOPS and bursts to 3,000: a run that began without credits is
    not one that began with all of them.
    """
    run = replace(recorded(tmp_path, truth("innodb"), "gp2:600", seconds=600), start_balance_percent=0.0)
    assert (
        make_core_run(run, 600, 5.0)["start_balance_percent"] == 0.0
        and run.caps.iops == 1_800
        and run.caps.iops_burst == 3_000
    )
    full = replace(run, start_balance_percent=None)
    empty_run, full_run = (compare_run(each, truth("innodb"), draws=0).prediction for each in (run, full))
    assert empty_run.rows["balance_percent"][0] < 1 < 99 < full_run.rows["balance_percent"][0]
    # At the cap the rates are those of the volume: the baseline to the burst.
    ratio = empty_run.rows["iops"].median() / full_run.rows["iops"].median()
    assert ratio == pytest.approx(1_800 / 3_000, rel=0.05)


@pytest.mark.parametrize(
    ("flavor", "version", "settings", "binlog", "syncs", "background"),
    [
        ("mysql", "8.0.36", {}, True, 3.0, True),
        ("mysql", "9.7.4-2", {}, True, 3.0, True),
        ("mysql", "5.7.44", {}, False, 1.0, True),
        # MariaDB writes pages by transactions, not by the second, since 10.5.
        ("mariadb", "10.11.19-MariaDB", {}, False, 1.0, False),
        ("mariadb", "10.11.19-MariaDB", {"binlog": True, "sync_binlog": 1, "io_capacity": 500}, True, 3.0, False),
        ("mariadb", "10.4.30-MariaDB", {"io_capacity": 500}, False, 1.0, True),
        (None, None, {}, True, 3.0, True),
    ],
)
def test_what_a_description_leaves_out_is_the_servers_default(
    tmp_path, flavor, version, settings, binlog, syncs, background
):
    benchmark = BenchmarkLoad(
        "sysbench-oltp", 4, 1_000_000, 1.0, "oltp_read_write", "special", {"rand_spec_pct": 1.0, "rand_spec_res": 75.0}
    )
    run = replace(
        recorded(tmp_path, truth("innodb"), seconds=200),
        benchmark=benchmark,
        flavor=flavor,
        engine_version=version,
        settings=settings,
        as_of=date(2020, 1, 1),  # before 2019-04-19 a version that is not said is taken for a 5.7
    )
    database = build_prior(run)
    assert (database["log"]["binlog_bytes_per_tx"] > 0) == binlog
    # Pages that a script changes are followed, so that nothing is written besides.
    assert database["log"]["syncs_per_commit"] == syncs and database["writes"]["background_per_s"] == 0.0
    own = build_prior(replace(run, benchmark=BenchmarkLoad("own", data_gib=5.0)))
    assert (own["writes"]["background_per_s"] > 0.0) == background


def test_clients_that_were_told_are_not_called_unknown(tmp_path):
    """16 clients on 20,000 IOPS are held by their own response time: one run tells it, and no note
    says otherwise.
    """
    client_bound = calibrate([recorded(tmp_path / "held", truth("innodb"), threads=16)])
    row = next(row for row in client_bound.parameters if row["name"] == "base_ms")
    assert (row["from"] == "the runs") == (not any("number of clients" in text for text in client_bound.caveats))
    capped = calibrate([recorded(tmp_path / "capped", truth("innodb"), "io1:1024:5000")])
    assert any("number of clients" in text for text in capped.caveats)
