"""The cheapest replica that keeps up: it holds, and each cheaper one that was listed does not."""

from __future__ import annotations

import pytest

import headrace
from headrace.base import core
from headrace.base.core import core_errors
from headrace.planner.candidates import Host
from headrace.simulation.replica import Replica, predict_replica

SOURCE = "m6i.large/gp3:50:6000"


@pytest.fixture(scope="module")
def database():
    return headrace.sysbench_oltp(script="oltp_write_only", tables=4, table_size=500_000, cache_gib=0.5, threads=8)


@pytest.fixture(scope="module")
def made(database):
    return headrace.plan_replica(database, lag_s=1.0, source=SOURCE, arrivals_tps=900.0, instances=["m6i.*"], draws=8)


def test_the_chosen_one_holds_and_cheaper_ones_do_not(database, made):
    one = made.chosen
    assert one is not None and one.peak_lag_s <= 1.0 and one.probability >= 0.8
    prices = [other.usd_month for other in made.looked_at]
    assert prices == sorted(prices) and made.looked_at[-1] is one
    for other in made.looked_at[:-1]:
        assert other.peak_lag_s > 1.0 or other.probability < 0.8
    # The same asked directly.
    replica = Replica(one.storage, instance=one.instance, cache_gib=one.cache_gib, workers=one.workers)
    direct = predict_replica(
        database, "gp3:50:6000", replica, instance="m6i.large", arrivals_tps=900.0, seconds=600, draws=0, seed=None
    )
    assert direct.summary["peak_lag_s"] <= 1.0


def test_a_durable_relay_log_may_get_its_own_volume(database):
    made = headrace.plan_replica(
        database, lag_s=1.0, source=SOURCE, arrivals_tps=60.0, sync_relay_log=1, instances=["m6i.large"], draws=4
    )
    assert {one.relay_storage for one in made.looked_at} >= {None}
    assert made.chosen is not None


def test_hosts_of_ones_own_have_their_caches_and_prices(database):
    with core_errors():
        instance = next(one for one in core.instances(core.newest_date()) if one["instance_type"] == "m6i.large")
    hosts = [Host(instance, 10.0, 2.0), Host(instance, 90.0, 3.0)]
    made = headrace.plan_replica(database, lag_s=1.0, source=SOURCE, hosts=hosts, arrivals_tps=60.0, draws=2)
    assert made.chosen is not None and made.chosen.cache_gib == 2.0 and 10.0 < made.chosen.usd_month < 20.0


def test_what_nothing_can_keep_up_with_has_no_answer(database):
    made = headrace.plan_replica(
        database,
        lag_s=0.5,
        source="gp3:50:16000",
        version="mysql-5.6",
        mode="single",
        instances=["m6i.large"],
        arrivals_tps=5_000.0,
        draws=2,
    )
    assert made.chosen is None and made.prediction is None and len(made.looked_at) > 10


def test_bad_questions_are_refused(database):
    with pytest.raises(headrace.InputError, match="replica-lag-s"):
        headrace.plan_replica(database, lag_s=0.0, source=SOURCE)
    with pytest.raises(headrace.InputError, match="is not known"):
        headrace.plan_replica(database, lag_s=1.0)
