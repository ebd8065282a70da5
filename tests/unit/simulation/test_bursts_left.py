"""A window that ends before a bucket does: `predict` says so, of the database's own storage and of a replica's."""

from __future__ import annotations

import pytest

import headrace
from headrace.simulation.replica import Replica, predict_replica


@pytest.fixture(scope="module")
def shop():
    return headrace.sysbench_tpcc(warehouses=1000, cache_gib=8, threads=48)


def test_credits_that_outlast_the_run_are_told(shop):
    """gp2:300 has 5.4 million I/Os of credit and refills 900 a second: 2,572 s at 3,000 IOPS."""
    short = headrace.predict(shop, "gp2:300", seconds=1200, start="warm", draws=0)
    [text] = [text for text in short.warnings if "burst credits" in text]
    # 1,200 of 2,572 s are gone: 53 % left, which last 1,372 s; scatter of seconds averages out.
    balance_percent = short.rows["balance_percent"][-1]
    assert balance_percent == pytest.approx(53.3, abs=1.5) and f"{balance_percent:.0f} %" in text
    whole = headrace.predict(shop, "gp2:300", seconds=3600, start="warm", draws=0)
    assert not any("burst credits" in text for text in whole.warnings)
    plain = headrace.predict(shop, "gp3:300", seconds=1200, start="warm", draws=0)
    assert not any("when this run ends" in text for text in plain.warnings)


def test_the_instances_burst_is_told(shop):
    """m5.large sustains 3,600 IOPS and bursts to 18,750 for half an hour."""
    prediction = headrace.predict(
        shop, "gp3:300:9000:500", instance="m5.large", cache_gib=4, seconds=600, start="warm", draws=0
    )
    assert any("instance's EBS burst" in text for text in prediction.warnings)


def test_a_replica_that_keeps_up_on_bursts_is_told(shop):
    run = {"instance": "m5.4xlarge", "seconds": 600, "draws": 0}
    replica = Replica("gp3:300:12000:500", instance="m5.large", cache_gib=4.0, workers=64, version="mysql-8.4")
    prediction = predict_replica(shop, "gp3:300:6000", replica, **run)
    spent = prediction.summary["without_bursts"]
    assert prediction.summary["onset_s"] is None and spent["onset_s"] is not None
    assert spent["applier_tps"] < prediction.summary["source_tps"] < prediction.summary["applier_tps"]
    assert any("keeps up on bursts" in text for text in prediction.warnings)
    # A day shows it, and nothing has to be warned of.
    day = predict_replica(shop, "gp3:300:6000", replica, **run | {"seconds": 86_400, "drain_s": 0})
    assert day.summary["onset_s"] is not None and not any("keeps up on bursts" in text for text in day.warnings)


def test_a_run_that_begins_with_a_balance_has_no_second_answer(shop):
    replica = Replica("gp3:300:3000", start_balance_percent=0.0, version="mysql-8.4")
    prediction = predict_replica(shop, "gp3:300:3000", replica, seconds=60, draws=0)
    assert prediction.summary["without_bursts"] is None


def test_longer_steps_give_the_same_rate(shop):
    replica = Replica("gp3:300:6000", instance="m5.2xlarge", version="mysql-8.4", workers=16)
    run = {"instance": "m5.2xlarge", "seconds": 3600, "drain_s": 0, "draws": 0, "seed": None}
    fine = predict_replica(shop, "gp3:300:3000", replica, **run)
    tps = fine.rows["source_tps"].to_list()
    means = [sum(tps[at : at + 60]) / 60 for at in range(0, 3600, 60)]
    coarse = predict_replica(shop, "gp3:300:3000", replica, **run, source_tps=means, step_s=60.0)
    assert coarse.rows.height == 60 and coarse.rows["t_s"][1] == 60.0
    # Warm and steady: what differs is how the pace follows over the first steps.
    assert coarse.summary["applier_tps"] == pytest.approx(fine.summary["applier_tps"], rel=0.02)
