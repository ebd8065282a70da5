"""Replicas predicted from Python: lag's formulas, doubt, semi-sync, bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import headrace
from headrace.base import core
from headrace.simulation.replica import SourceLoad
from headrace.workload.replica import add_measured_replica

WRITES = {"script": "oltp_write_only", "tables": 4, "table_size": 100_000, "cache_gib": 1.0, "threads": 8}


@pytest.fixture(scope="module")
def database():
    return headrace.sysbench_oltp(**WRITES)


def behind(database, **more):
    """One thread of MariaDB with a binary log behind 1,500 transactions a second."""
    replica = headrace.Replica("gp3:100", version="mariadb-10.11", log_bin=True)
    settings = {"arrivals_tps": 1_500.0, "seconds": 60, "draws": 0, "seed": None} | more
    return headrace.predict_replica(database, "io2:100:20000", replica, **settings)


def test_lag_follows_from_the_two_rates(database):
    summary = behind(database).summary
    mu, rate, load = summary["applier_tps"], summary["source_tps"], summary["load_s"]
    assert rate == pytest.approx(1_500.0, rel=1e-3) and mu < rate
    # T (1 - mu / lambda) and T (lambda / mu - 1); a row is a second.
    assert summary["lag_at_load_end_s"] == pytest.approx(load * (1 - mu / rate), abs=0.2)
    assert summary["peak_lag_s"] == pytest.approx(load * (rate / mu - 1), abs=1.6)
    assert summary["peak_at_s"] > load
    assert sum(summary["shares"].values()) == pytest.approx(1.0, abs=1e-3)


def test_many_replicas_behind_one_load_come_to_what_each_does_alone(database):
    replicas = [headrace.Replica(storage, version="mariadb-10.11", log_bin=True) for storage in ("gp3:100", "gp2:100")]
    alone = [
        headrace.predict_replica(database, "io2:100:20000", replica, seconds=60, drain_s=0, draws=4)
        for replica in replicas
    ]
    load = SourceLoad(alone[0].workload, alone[0].source, alone[0].rows["source_tps"].to_list())
    summaries = load.summarize(replicas)
    drawn = load.draw(replicas, summaries, 4)
    for prediction, summary, doubt in zip(alone, summaries, drawn, strict=True):
        for name in ("applier_tps", "peak_lag_s", "usual_binding"):
            assert summary[name] == prediction.summary[name], name
        assert doubt["drawn"] is not None and len(doubt["drawn"]["peak_lag_s"]) == 4
    bindings = [name for name in alone[0].rows["binding"].to_list() if name != "none"]
    assert summaries[0]["usual_binding"] in bindings
    most = bindings.count(summaries[0]["usual_binding"])
    assert all(bindings.count(name) <= most for name in set(bindings))


def test_the_interval_is_wide_without_a_replica_and_narrow_with_one(database):
    wide = behind(database, draws=16)
    reference = {"cpu_ms": 0.33, "flush_factor": 1.0, "events_per_tx": 6.0, "forced_writes": 0.5, "spin_ms": 0.01}
    narrow = behind(add_measured_replica(database, reference, spread={"cpu_ms": 0.05}), draws=16)
    width = [
        math.log(entry.summary["high"]["applier_tps"] / entry.summary["low"]["applier_tps"]) for entry in (wide, narrow)
    ]
    assert width[0] > 2 * width[1]
    assert wide.summary["low"]["applier_tps"] < wide.summary["applier_tps"] < wide.summary["high"]["applier_tps"]
    assert any("No replica of this database" in text for text in wide.warnings)
    assert not any("No replica of this database" in text for text in narrow.warnings)
    assert wide.summary == behind(database, draws=16).summary, "the same question has the same answer"


def test_semi_sync_slows_the_source_and_says_what_it_is_worth(database):
    def source(**more):
        sync = more.pop("sync_relay_log", None)
        replica = replace(headrace.Replica("gp3:100", version="mariadb-10.11", workers=16), sync_relay_log=sync)
        prediction = headrace.predict_replica(
            database, "io2:100:20000", replica, seconds=30, draws=0, seed=None, **more
        )
        return prediction.summary["source_tps"], prediction

    plain, _ = source()
    waited, result = source(semi_sync=headrace.SemiSyncOptions((5.0,)))
    # Eight clients that wait 5 ms more.
    assert waited < 8 / 5e-3 and waited < 0.7 * plain
    assert any("is in the replica's memory" in text for text in result.warnings)
    durable, result = source(semi_sync=headrace.SemiSyncOptions((0.0,)), sync_relay_log=1)
    assert durable < 1.01 * result.summary["semi_sync"]["most_tps"] < 250
    _, result = source(semi_sync=headrace.SemiSyncOptions((20_000.0,)))
    assert any("longer than the timeout" in text for text in result.warnings)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": "postgres-17"}, "flavor"),
        ({"version": "mysql-5.5"}, "parallel replication"),
        ({"mode": "minimal"}, "is not a mode of mysql"),
        ({"workers": -1}, "workers"),
        ({"storage": "gp9:1"}, "gp9"),
        ({"cache_gib": 1e9}, "replica-cache-gib"),
        ({"reads_per_tx": -1.0}, "replica-reads"),
        ({"start": "lukewarm"}, "start"),
        ({"flush_log_at_trx_commit": 3, "version": "mysql-8.4"}, "of mysql = 3: must be a whole number 0 to 2"),
        ({"flush_log_at_trx_commit": 4, "version": "mariadb-10.11"}, "of mariadb = 4: must be a whole number 0 to 3"),
        ({"sync_binlog": -1}, "sync_binlog = -1: must be a whole number 0 to 4,294,967,295"),
        ({"sync_binlog": 99_999_999_999}, "sync_binlog = 99999999999: must be a whole number 0 to 4,294,967,295"),
        ({"sync_relay_log": -1}, "sync_relay_log = -1: must be a whole number 0 to 4,294,967,295"),
        ({"version": "mariadb-10.11", "preserve_order": False, "mode": "optimistic"}, "kept by MariaDB"),
    ],
)
def test_bad_replicas_are_refused(database, change, says):
    with pytest.raises(headrace.InputError, match=says):
        headrace.predict_replica(
            database, "gp3:100", replace(headrace.Replica("gp3:100"), **change), seconds=5, draws=0
        )


@pytest.mark.parametrize(
    ("large", "says"),
    [
        ((100.0, -5.0, 30.0), "large 100:-5:30, length on the source = -5.0 s"),
        ((0.0, math.nan, 5.0), "length on the source = nan s"),
        ((1.0, 3.0, math.nan), "length on the replica = nan s"),
        ((math.nan, 3.0, 3.0), "begin = nan s"),
        ((-1.0, 3.0, 3.0), "begin = -1.0 s"),
        ((5.0, 1.0, 1.0), "begins at 5 s, when the load of 5 s has ended"),
        ((4.0, 10.0, 1.0), "commits at 14 s, and the replica is followed for 13 s"),
    ],
)
def test_large_transactions_that_cannot_be_are_refused(database, large, says):
    with pytest.raises(headrace.InputError, match=says):
        headrace.predict_replica(
            database, "gp3:100", headrace.Replica("gp3:100"), seconds=5, drain_s=8, draws=0, large=[large]
        )


def test_a_large_transaction_that_commits_after_the_load_is_applied_then(database):
    replica = headrace.Replica("gp3:100")
    answer = headrace.predict_replica(
        database, "gp3:100", replica, seconds=5, drain_s=8, draws=0, large=[(4.0, 3.0, 2.0)]
    )
    assert answer.rows.filter(answer.rows["binding"] == "large-transaction")["t_s"].min() >= 5.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threads": 0}, "threads"),
        ({"cache_gib": 0.0}, "cache-gib"),
        ({"start_balance_percent": 300.0}, "start-balance"),
        ({"growth": 0.0}, "growth"),
        # An m5.large has 8 GiB of memory.
        ({"cache_gib": 20.0, "instance": "m5.large"}, "8 GiB of memory"),
        ({"seed": -1}, "seed"),
    ],
)
def test_runs_of_a_source_that_cannot_be_are_refused_with_a_replica_too(database, change, says):
    with pytest.raises(headrace.InputError, match=says):
        headrace.predict_replica(database, "gp3:100", headrace.Replica("gp3:100"), seconds=5, draws=0, **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cache_gib": 0.0}, "replica-cache-gib"),
        ({"start_balance_percent": 300.0}, "start-balance"),
        ({"instance": "m5.large", "cache_gib": 20.0}, "--replica-cache-gib"),
        # The source's cache of 40 GiB does not fit the replica's instance.
        ({"instance": "m5.large"}, "--replica-cache-gib"),
    ],
)
def test_replicas_without_room_are_refused(database, change, says):
    replica = replace(headrace.Replica("gp3:100"), **change)
    with pytest.raises(headrace.InputError) as refused:
        headrace.predict_replica(
            database, "gp3:100", replica, instance="r5.2xlarge", cache_gib=40.0, seconds=5, draws=0
        )
    assert says in str(refused.value)


def test_a_replica_with_little_memory_left_is_warned_of(database):
    replica = headrace.Replica("gp3:100", instance="m5.large", cache_gib=7.5)
    prediction = headrace.predict_replica(database, "gp3:100", replica, seconds=5, draws=0)
    assert any("would swap" in text for text in prediction.warnings)


def test_mysql_rounds_a_buffer_pool_up():
    """156 MiB become 256 MiB in MySQL 9 (whole chunks of 128 MiB), as if that had been asked for."""
    database = headrace.sysbench_oltp(**WRITES | {"table_size": 1_000_000})  # 0.9 GiB: no such pool holds it

    def reads(version: str, mib: int) -> tuple[float, bool]:
        replica = headrace.Replica("gp3:100", cache_gib=mib / 1024, version=version)
        prediction = headrace.predict_replica(database, "gp3:100", replica, seconds=30, draws=0, seed=None)
        return prediction.rows["reads_per_tx"][-1], any("rounds it up" in text for text in prediction.warnings)

    assert reads("mysql-9.7", 156) == (reads("mysql-9.7", 256)[0], True)
    assert not reads("mysql-9.7", 256)[1] and reads("mysql-9.7", 100)[0] > reads("mysql-9.7", 128)[0]
    assert reads("mariadb-10.11", 156)[0] > reads("mariadb-10.11", 256)[0]


def test_what_was_received_before_is_not_received_again(database):
    """1,000,000 transactions of 1.7 kB each are 1.6 GiB; a gp3's 125 MiB/s has no room beside them."""
    replica = headrace.Replica("gp3:100", cache_gib=0.03, version="mariadb-10.11", mode="optimistic", workers=16)
    settings = {"seconds": 1, "drain_s": 10, "draws": 0, "seed": None, "source_tps": [1e6]}
    there = headrace.predict_replica(database, "gp3:100", replica, received=True, **settings)
    comes = headrace.predict_replica(database, "gp3:100", replica, received=False, **settings)
    assert there.rows["mib_s"][0] < 250 < 1_000 < comes.rows["mib_s"][0]  # a second of 125 may be saved
    assert there.rows["applied_tps"][0] > 1.5 * comes.rows["applied_tps"][0]


def test_groups_of_mariadb_wait_for_each_other_before_the_commit_and_not_after_it(database):
    def source(version, trip_ms, wait_point):
        semi = headrace.SemiSyncOptions((trip_ms,), wait_point=wait_point)
        replica = headrace.Replica("gp3:100", version=version, workers=16)
        prediction = headrace.predict_replica(
            database, "io2:100:20000", replica, seconds=5, draws=0, seed=None, semi_sync=semi
        )
        return prediction.summary["source_tps"]

    far = {point: source("mariadb-10.11", 30.0, point) for point in ("after-sync", "after-commit")}
    # A client waits for the group before its own too: two round trips of 30 ms, where it would take one and 3 ms of its own.
    assert far["after-sync"] / far["after-commit"] == pytest.approx(33 / 60, rel=0.05)
    assert far["after-commit"] < 8 / 30e-3
    near = {point: source("mariadb-10.11", 0.3, point) for point in ("after-sync", "after-commit")}
    assert near["after-sync"] == pytest.approx(near["after-commit"], rel=0.03)
    assert source("mysql-9.7", 30.0, "after-sync") == source("mysql-9.7", 30.0, "after-commit")
    with pytest.raises(headrace.InputError, match="wait point"):
        source("mysql-9.7", 30.0, "AFTER_SYNC")


def test_more_acknowledgements_than_replicas_would_never_come(database):
    semi = headrace.SemiSyncOptions((0.5,), acknowledgements=2)
    with pytest.raises(headrace.InputError, match="never come"):
        behind(database, semi_sync=semi)


def test_a_load_that_writes_nothing_has_nothing_to_replicate():
    readers = headrace.sysbench_oltp(**WRITES | {"script": "oltp_read_only"})
    with pytest.raises(headrace.InputError, match="nothing to replicate"):
        behind(readers)


def test_defaults_of_versions_are_the_cores():
    assert core.replica_settings("mysql", "9.7")["mode"] == "writeset"
    assert headrace.Replica("gp3:1", version="mariadb-10.11").make_settings()["workers"] == 0
